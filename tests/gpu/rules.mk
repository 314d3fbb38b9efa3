# A driver and an NVRTC for tests without a GPU (fake_cuda.c).  Included by the Makefile, built by tests/check-gpu and tests/check-stress-gpu.
# It has a copy of the library inside, all of it hidden: the words of the CPU, and libtcc (tcc_in_library.c says how).

fake_cuda := $(BUILD)/gpu/libfake_cuda.so
fake_cuda_tests := $(addprefix $(BUILD)/gpu/,faults ready pins riders fused cubed sieved fetched ahead args closed ended results crowded tight told order busy door turns lost beside pool counted peak compile_times own_texts tables kept)

.PHONY: fake-cuda
fake-cuda: $(fake_cuda) $(fake_cuda_tests) ## build a driver for tests without a GPU, and these tests
	@:

fake_cuda_objects := $(BUILD)/obj/tests/gpu/fake_cuda.o $(BUILD)/obj/tests/gpu/tcc_in_library.o

$(fake_cuda): $(fake_cuda_objects) $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--wrap=stdout,--wrap=stderr,--wrap=environ $(fake_cuda_objects) $(internals) $(ALL_LIBS) -o $@

# Every call of that driver made to fail; code that is compiled while the CPU stands in; columns pinned where they lie;
# who rides, seen from outside; queries that share a kernel, are cubed or sieved together; columns fetched, or read from disk, ahead; more arguments than one run takes; a device that is closed, a program that ends without closing it, a device that is lost, and a program with a context of its own;
# short scans beside long ones; how much memory is taken; results of several pieces; a crowded pool; chunks that nearly fill it; notices of what was run for several; the order of its own streams; streams that others keep busy; who waits at the door of the pool; what is asked of the driver, counted; how fast a card's memory is read; how long NVRTC takes; texts for nvcc; rows that stay between kernels.
$(fake_cuda_tests): $(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(internals)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $< $(internals) $(ALL_LIBS) -o $@

-include $(wildcard $(BUILD)/obj/tests/gpu/*.d)
