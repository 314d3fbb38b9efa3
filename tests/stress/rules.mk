# The stress test: many queries at once while rows are appended.  Included by the Makefile, built by tests/check-stress.
# It looks into the engine (memory counted, pipelines left), so it is linked with the library and not only with weft.h.

stress_objects := $(patsubst %,$(BUILD)/obj/tests/stress/%.o,stress data items answer crowd)

.PHONY: stress-programs
stress-programs: $(BUILD)/stress/stress

$(BUILD)/stress/stress: $(stress_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(stress_objects) $(internals) $(ALL_LIBS) -o $@

-include $(stress_objects:.o=.d)
