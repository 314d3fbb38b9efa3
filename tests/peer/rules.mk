# Programs that compare Weft with engines we did not write; included by the Makefile, built by the tests that run them.
# They use the library as a user would, through weft.h; random also takes its arena from src/base, and shapes looks at
# texts as src/sql does.

peer_objects := $(patsubst %,$(BUILD)/obj/tests/peer/%.o,peer rows sqlite duckdb postgres)
peer_programs := $(BUILD)/peer/random $(BUILD)/peer/compare $(BUILD)/peer/dialect $(BUILD)/peer/shapes

.PHONY: peer-programs
peer-programs: $(peer_programs)

$(BUILD)/peer/random: $(patsubst %,$(BUILD)/obj/tests/peer/%.o,random cut query query_text \
    subqueries windows aggregates expressions terms data)
$(BUILD)/peer/dialect: $(patsubst %,$(BUILD)/obj/tests/peer/%.o,dialect dialect_query dialect_expr dialect_data \
    dialect_rows oracles tree data)
$(BUILD)/peer/shapes: $(patsubst %,$(BUILD)/obj/tests/peer/%.o,shapes shape_text compared query query_text subqueries windows \
    aggregates expressions terms data)
$(BUILD)/peer/compare: $(BUILD)/obj/tests/peer/compare.o

$(peer_programs): $(peer_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(internals) -lsqlite3 $(ALL_LIBS) -o $@

-include $(wildcard $(BUILD)/obj/tests/peer/*.d)
