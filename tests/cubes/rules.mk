# Many queries of one shape at once.  Included by the Makefile, built by tests/check-cubes.  The texts are drawn by the
# benchmark's own code.

cubes_objects := $(BUILD)/obj/tests/cubes/cubes.o $(BUILD)/obj/bench/concurrency/draw.o

$(BUILD)/cubes/cubes: $(cubes_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(cubes_objects) $(internals) $(ALL_LIBS) -o $@

-include $(cubes_objects:.o=.d)
