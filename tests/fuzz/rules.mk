# The targets of tests/fuzz: with libFuzzer as their driver in FUZZ=1, else with one that gives them inputs that are
# kept (tests/fuzz/replay.c).

fuzz_names := $(patsubst tests/fuzz/target_%.c,%,$(wildcard tests/fuzz/target_*.c))
fuzz_programs := $(fuzz_names:%=$(BUILD)/fuzz/%)
fuzz_driver := $(if $(FUZZ),-fsanitize=fuzzer,tests/fuzz/replay.c)

.PHONY: fuzz-programs

fuzz-programs: $(fuzz_programs) ## the fuzz targets; FUZZ=1 for libFuzzer, which needs clang (scripts/fuzz calls it)
	@:

$(BUILD)/fuzz/%: tests/fuzz/target_%.c $(if $(FUZZ),,tests/fuzz/replay.c) $(internals) $(BUILD)/settings
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Itests/unit -MMD -MP -MF $@.d $< $(fuzz_driver) $(internals) $(ALL_LIBS) -o $@

-include $(fuzz_programs:=.d)
