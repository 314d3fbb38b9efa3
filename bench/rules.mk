# Benchmark programs; included by the Makefile after tests/peer/rules.mk, whose objects they share.

bench_programs := $(BUILD)/bench/ssb $(BUILD)/bench/tpch $(BUILD)/bench/concurrency $(BUILD)/bench/gpu $(BUILD)/bench/schedule $(BUILD)/bench/host \
    $(BUILD)/bench/streams $(BUILD)/bench/setquery

.PHONY: bench-programs
bench-programs: $(bench_programs)

$(BUILD)/bench/ssb: $(BUILD)/obj/bench/ssb/ssb.o $(BUILD)/obj/bench/hot.o
$(BUILD)/bench/tpch: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard bench/tpch/*.c)) $(BUILD)/obj/bench/hot.o
$(BUILD)/bench/concurrency: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard bench/concurrency/*.c))
$(BUILD)/bench/gpu: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard bench/gpu/*.c)) $(patsubst %,$(BUILD)/obj/bench/concurrency/%.o,crew draw) $(BUILD)/obj/src/shell/gen_load.o

$(BUILD)/bench/setquery: $(patsubst %,$(BUILD)/obj/bench/%.o,setquery/setquery hot tpch/on_device)
$(BUILD)/bench/schedule: $(BUILD)/obj/bench/schedule/schedule.o
$(BUILD)/bench/streams: $(BUILD)/obj/bench/streams/streams.o
$(BUILD)/bench/host: $(BUILD)/obj/bench/host/host.o $(BUILD)/obj/bench/concurrency/draw.o

$(bench_programs): $(BUILD)/obj/bench/bench.o $(peer_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(internals) -lsqlite3 $(ALL_LIBS) -o $@

-include $(wildcard $(BUILD)/obj/bench/*.d $(BUILD)/obj/bench/*/*.d)
