# A driver and an NVRTC for tests without a GPU (fake_cuda.c).  Included by the Makefile, built by tests/check-gpu and
# tests/check-stress-gpu.  It has a copy of the library inside, all of it hidden: the words of the CPU, and libtcc
# (tcc_in_library.c says how).

fake_cuda := $(BUILD)/gpu/libfake_cuda.so
# One for the lab, which runs CUDA C as it is (fake_lab_cuda.c).
fake_lab_cuda := $(BUILD)/gpu/libfake_lab_cuda.so
fake_cuda_tests := $(addprefix $(BUILD)/gpu/,faults ready quick pins riders fused cubed join_cubed packed sieved fetched ahead args left closed \
    ended results crowded tight told order busy door herd turns lost beside pool counted peak measured compile_times \
    own_texts tables kept scheduled sorted occupancy generic lab flow)

.PHONY: fake-cuda
fake-cuda: $(fake_cuda) $(fake_lab_cuda) $(fake_cuda_tests) ## build a driver for tests without a GPU, and these tests
	@:

fake_cuda_objects := $(BUILD)/obj/tests/gpu/fake_cuda.o $(BUILD)/obj/tests/gpu/fake_flow.o $(tcc_in_library)

$(fake_cuda): $(fake_cuda_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared $(shared_ldflags) $(fake_cuda_objects) $(internals) $(ALL_LIBS) -o $@

fake_lab_objects := $(BUILD)/obj/tests/gpu/fake_lab_cuda.o $(BUILD)/obj/tests/gpu/fake_lab_stubs.o

$(fake_lab_cuda): $(fake_lab_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,--exclude-libs,ALL -Wl,-Bsymbolic $(fake_lab_objects) $(internals) $(ALL_LIBS) \
	    -o $@

# Each file says at its top what it tests.
$(fake_cuda_tests): $(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $< $(internals) $(ALL_LIBS) -o $@

-include $(wildcard $(BUILD)/obj/tests/gpu/*.d)
