# Build and test Weft.  `make help` lists the targets; sources are found by wildcard, so a new file needs no edit here.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/sh

# ---- variants: each in a folder of its own ---------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := $(if $(FUZZ),clang,gcc)
endif
# FUZZ=1: for libFuzzer (tests/fuzz), always with ASan and UBSan.
ifneq ($(FUZZ),)
override SAN := 1
endif
compiler := $(notdir $(firstword $(CC)))
variant := $(if $(FUZZ),-fuzz,$(if $(filter clang%,$(compiler)),-clang)$(if $(SAN),-san)$(if $(TSAN),-tsan))
BUILD ?= build$(variant)

comma := ,
sanitize := $(strip $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined) \
                    $(if $(FUZZ),-fsanitize=fuzzer-no-link) $(if $(TSAN),-fsanitize=thread))

# ASSERT(...) of src/base/base.h: on, unless ASSERTS=0.
ASSERTS ?= 1
asserts := $(if $(filter-out 0,$(ASSERTS))$(SAN)$(TSAN),-DWEFT_ASSERTS)

# ---- flags -----------------------------------------------------------------------------------------------------------

PKG_CONFIG ?= pkg-config
# What a sanitizer reports has functions and lines, for which -g1 is enough; -g takes the compiler a quarter longer.
OPTIMIZE ?= $(if $(SAN)$(TSAN),-O1 -g1,-O2 -g)
WARNINGS ?= -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
            -Wno-unused-parameter -Werror

packages := libprotobuf-c libxxhash libedit libmd libpcre2-8 libutf8proc zlib libzstd
# Found out on first use, since scripts/deps may have to install pkg-config first.
package_cflags = $(eval package_cflags := $(shell $(PKG_CONFIG) --cflags $(packages)))$(package_cflags)
package_libs = $(eval package_libs := $(shell $(PKG_CONFIG) --libs $(packages)))$(package_libs)

# OFFLINE=DIR: headers, libraries and tools from what scripts/offline has collected there; in the
# environment too, for tests that call the compiler by themselves.
ifneq ($(OFFLINE),)
offline_root := $(shell scripts/offline use '$(OFFLINE)')
$(if $(offline_root),,$(error OFFLINE=$(OFFLINE) cannot be used))
include $(offline_root)/offline.mk
override export OFFLINE := $(abspath $(OFFLINE))
export PATH := $(offline_root)/bin:$(PATH)
export CPATH := $(offline_root)/include
export LIBRARY_PATH := $(offline_root)/lib
endif

# Hidden symbols: libpg_query is a shared library with names of its own (hash_bytes, for one) that must stay its own.
# No fused multiply-add, as in kernels (src/jit/cc.c): the interpreter and they must agree to the last bit.
base_cflags = -std=gnu17 -ffp-contract=off -fPIC -fvisibility=hidden -fno-omit-frame-pointer -Isrc -Iinclude -I. \
               $(asserts) $(sanitize) $(offline_cflags)
ALL_CFLAGS = $(base_cflags) $(OPTIMIZE) $(WARNINGS) $(package_cflags) $(CPPFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(sanitize) $(offline_ldflags) $(LDFLAGS)
# libpg_query and libtcc have no .pc file in Debian 12; libtcc comes as a static archive only.
ALL_LIBS = -lpg_query -ltcc $(package_libs) -ldl -lpthread -lm

# Short lines; V=1 shows the commands.
say = @$(if $(V),:,printf '  %-4s %s\n' '$(1)' '$(2)')
Q := $(if $(V),,@)

# ---- files -----------------------------------------------------------------------------------------------------------

shell_sources := $(wildcard src/shell/*.c)
# The lab is reached from the shell alone, and not from what is fuzzed.
lib_sources := $(filter-out $(shell_sources) $(if $(FUZZ),src/lab/%),$(wildcard src/*/*.c))
# The words of kernel text go into the library as text: src/kernel/cpu.h becomes kernel_cpu_text.
kernel_headers := $(filter-out src/kernel/kernel.h src/kernel/program_loops.h,$(wildcard src/kernel/*.h))
# So do the kernels of the lab: src/lab/kernels/md5.cu becomes lab_md5_text.
lab_kernels := $(wildcard src/lab/kernels/*.cu)
# And the queries of the Set Query benchmark: q1.sql becomes set_query_q1_text.
set_queries := $(wildcard bench/setquery/queries/*.sql)
gen_sources := $(kernel_headers:src/kernel/%.h=$(BUILD)/gen/kernel_%.c) $(BUILD)/gen/math_text.c \
               $(BUILD)/gen/wide_text.c $(BUILD)/gen/math_wide_text.c \
               $(lab_kernels:src/lab/kernels/%.cu=$(BUILD)/gen/lab_%.c) $(BUILD)/gen/lab_kernel_args.c \
               $(BUILD)/gen/lab_operator_words.c $(set_queries:bench/setquery/queries/%.sql=$(BUILD)/gen/set_query_%.c)
unit_sources := $(wildcard tests/unit/test_*.c)
example_sources := $(wildcard examples/*.c)
# Not the words themselves: they are macros beyond what clang-format understands.
own_files = $(filter-out $(kernel_headers),$(wildcard include/*.h src/*/*.[ch] tests/*/*.[ch] examples/*.[ch] \
                                                      bench/*.[ch] bench/*/*.[ch]))

lib_objects := $(lib_sources:%.c=$(BUILD)/obj/%.o) $(gen_sources:%.c=%.o)
shell_objects := $(shell_sources:%.c=$(BUILD)/obj/%.o)
unit_programs := $(unit_sources:tests/unit/%.c=$(BUILD)/tests/%)
example_programs := $(example_sources:examples/%.c=$(BUILD)/examples/%)
# For users: one object that shows nothing but weft_*, so that a program may have an arena_new or a fail of its own.
library := $(BUILD)/libweft.a
# For the shell, tests and benchmarks, which look inside.
internals := $(BUILD)/libweft-internals.a
program := $(BUILD)/weft
# The same as a shared library, libtcc inside and hidden (src/jit/shared/tcc_in_library.c says how).
version := $(shell sed -n 's/^.define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)
soname := libweft.so.$(firstword $(subst ., ,$(version)))
shared := $(BUILD)/libweft.so.$(version)
tcc_in_library := $(BUILD)/obj/src/jit/shared/tcc_in_library.o
shared_ldflags := -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--wrap=stdout,--wrap=stderr,--wrap=environ
# What the library needs of what the program needs.
library_packages := $(filter-out libedit,$(packages))

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib

# ---- what people type ------------------------------------------------------------------------------------------------

.PHONY: all lib demo test run-tests test-programs unit-programs example-programs check-programs peer-programs \
        bench-programs examples lint fmt bench \
        gpu-test gpu-bench cuda-check deps install uninstall clean distclean help FORCE

all: $(program) $(library) ## build build/libweft.a and build/weft (the default)
	@:

lib: $(library)

demo: ## build, then show what Weft does (scripts/demo)
	@scripts/deps build
	@+$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) scripts/demo

# What the parts of tests/run need.  The stress tests, which .ci/run also runs with TSan, need no other engine.
needed_by_unit := unit-programs
needed_by_examples := example-programs
needed_by_check := check-programs $(if $(filter stress%,$(T)),,peer-programs example-programs)
test_parts := $(or $(PARTS),unit slt examples check)

test: ## build and run all tests; T=name runs those whose name matches, PARTS="unit slt" only these parts
	@scripts/deps test
	@+$(MAKE) --no-print-directory all $(foreach part,$(test_parts),$(needed_by_$(part)))
	@+$(MAKE) --no-print-directory run-tests

# A make of its own: a recipe is expanded as a whole, so in `test` pkg-config would be asked before it is installed.
run-tests:
	@BUILD='$(BUILD)' T='$(T)' PARTS='$(PARTS)' CC='$(CC)' WEFT_CFLAGS='$(base_cflags) $(OPTIMIZE)' \
	    WEFT_LIBS='$(internals) $(ALL_LIBS)' WEFT_LDFLAGS='$(ALL_LDFLAGS)' tests/run

test-programs: unit-programs example-programs peer-programs
	@:

unit-programs: $(unit_programs)
	@:

example-programs: $(example_programs)
	@:

# Built before they run: they run side by side, and two of them must not build the same.
check-programs: $(shared) fake-cuda $(BUILD)/stress/stress $(BUILD)/bench/gpu
	@:

examples: example-programs ## build the programs in examples/

lint: ## layers, line lengths, cppcheck, clang-format (what is not installed is named and left out)
	@BUILD='$(BUILD)' scripts/check-layers
	@scripts/check-format --lines
	@if command -v cppcheck >/dev/null; then \
	    cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability \
	        --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches -Isrc -Iinclude -DWEFT_ASSERTS src; \
	else echo 'lint: cppcheck is not installed (scripts/deps lint)'; fi
	@if command -v clang-format >/dev/null; then scripts/check-format $(own_files); \
	else echo 'lint: clang-format is not installed (scripts/deps lint)'; fi

fmt: ## format files in place: F="file..." (alignment made by hand is lost: look at the difference)
	@test -n '$(F)' || { echo 'make fmt F="src/plan/new.c ..."'; exit 2; }
	clang-format -i $(F)

bench: ## build and run the benchmarks (bench/run; ARGS=... are passed on, as in ARGS="concurrency --quick")
	@scripts/deps test
	@+$(MAKE) --no-print-directory all bench-programs
	@BUILD='$(BUILD)' bench/run $(ARGS)

gpu-test: ## the tests that matter to a GPU, on the GPU (scripts/gpu-test; ARGS="slt ssb" runs only these parts)
	@scripts/deps test
	@+$(MAKE) --no-print-directory all peer-programs $(BUILD)/stress/stress $(addprefix $(BUILD)/gpu/,compile_times fused cubed generic sieved tables scheduled sorted occupancy lost flow) \
	    $(BUILD)/examples/flow_bench
	@BUILD='$(BUILD)' scripts/gpu-test $(ARGS)

gpu-bench: ## the tables of bench/gpu: SSB SF 20 on the GPU, single, at once, streamed, beside DuckDB (ARGS=... as of bench/gpu/run.sh)
	@scripts/deps test
	@+$(MAKE) --no-print-directory all bench-programs
	@BUILD='$(BUILD)' bench/gpu/run.sh $(ARGS)

cuda-check: all $(BUILD)/gpu/own_texts ## compile generated kernels with nvcc
	@BUILD=$(BUILD) scripts/cuda-check

install: $(program) $(library) $(shared) $(BUILD)/weft.pc ## install to PREFIX (/usr/local), below DESTDIR if that is set
	@install -d $(addprefix $(DESTDIR),$(PREFIX)/bin $(PREFIX)/include $(LIBDIR)/pkgconfig $(PREFIX)/share/man/man1 \
	    $(PREFIX)/share/man/man3)
	install -m 755 $(program) $(DESTDIR)$(PREFIX)/bin/weft
	install -m 644 include/weft.h include/weft_flow.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(library) $(DESTDIR)$(LIBDIR)/libweft.a
	install -m 755 $(shared) $(DESTDIR)$(LIBDIR)/$(notdir $(shared))
	@ln -sf $(notdir $(shared)) $(DESTDIR)$(LIBDIR)/$(soname)
	@ln -sf $(soname) $(DESTDIR)$(LIBDIR)/libweft.so
	install -m 644 $(BUILD)/weft.pc $(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc
	install -m 644 docs/man/weft.1 $(DESTDIR)$(PREFIX)/share/man/man1/weft.1
	install -m 644 docs/man/weft.3 $(DESTDIR)$(PREFIX)/share/man/man3/weft.3

uninstall: ## remove what install put there
	rm -f $(addprefix $(DESTDIR),$(PREFIX)/bin/weft $(addprefix $(PREFIX)/include/,weft.h weft_flow.h) \
	    $(addprefix $(LIBDIR)/,libweft.a libweft.so \
	    $(soname) $(notdir $(shared)) pkgconfig/weft.pc) $(PREFIX)/share/man/man1/weft.1 $(PREFIX)/share/man/man3/weft.3)

deps: ## install the packages that are missing
	@scripts/deps build
	@scripts/deps test
	@scripts/deps optional || true

clean: ## remove what was built, in all variants (keeps what was fetched)
	@for dir in build build-*; do \
	    if [ -d "$$dir" ]; then find "$$dir" -mindepth 1 -maxdepth 1 ! -name duckdb -exec rm -rf {} +; fi; \
	done

distclean: ## remove all build folders
	rm -rf build build-*

help: ## list these targets
	@awk -F '## ' '/^[a-z-]+:.*## / { name = $$1; sub(/:.*/, "", name); printf "  %-12s %s\n", name, $$2 }' Makefile $(filter %.mk,$(MAKEFILE_LIST))
	@echo
	@echo '  Variants, each in a folder of its own: CC=clang (build-clang), SAN=1 (build-san, ASan and UBSan),'
	@echo '  TSAN=1 (build-tsan).  BUILD=dir builds elsewhere; CFLAGS, LDFLAGS, WARNINGS are honoured; V=1 shows commands.'
	@echo '  ASSERTS=0 leaves out what src/base/base.h calls ASSERT.'
	@echo '  OFFLINE=DIR builds with what scripts/offline collected, without installing anything.'

# ---- building --------------------------------------------------------------------------------------------------------

# Say which packages are missing before the compiler stumbles over a header.  demo, test and deps install them.
ifneq ($(filter-out demo test bench gpu-test gpu-bench deps lint fmt clean distclean help,$(or $(MAKECMDGOALS),all)),)
# OFFLINE is handed over by name: $(shell) of GNU make 4.3 and older sees no exported variable.
ifeq ($(shell OFFLINE='$(OFFLINE)' scripts/deps --check build >&2 || echo missing),missing)
$(error packages are missing: scripts/deps installs them)
endif
endif

# Under a name of its own until it is whole: tests call make too, and several may run at a time.
write_if_changed = @new=$@.$$$$ && echo '$(1)' >$$new && if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi

# Changes when the compiler or its flags change, and then all is built anew.
$(BUILD)/settings: FORCE
	@mkdir -p $(BUILD)
	$(call write_if_changed,$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(ALL_LIBS))

# Lines end in | until the file is written.
define pkgconfig_text
prefix=$(PREFIX)|includedir=$${prefix}/include|libdir=$(LIBDIR)||Name: weft|Version: $(version)|Description: embedded SQL database for analytics on CPUs and GPUs|Requires.private: $(library_packages)|Cflags: -I$${includedir}|Libs: -L$${libdir} -lweft|Libs.private: -lpg_query -ltcc -ldl -lpthread -lm
endef

# An archive keeps members whose source is gone, so it also depends on the list.
$(BUILD)/members: FORCE
	@mkdir -p $(BUILD)
	$(call write_if_changed,$(lib_objects) $(shell_objects))

# Nothing that is fuzzed reaches a GPU or a flow, and clang takes five times as long with what the fuzzers want.
unfuzzed_sources := $(wildcard src/device/gpu*.c src/device/cuda*.c src/flow/*.c)
unfuzzed_objects := $(if $(FUZZ),$(unfuzzed_sources:%.c=$(BUILD)/obj/%.o))
$(unfuzzed_objects): private sanitize :=

$(BUILD)/obj/%.o: %.c $(BUILD)/settings
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/gen/kernel_%.c: src/kernel/%.h scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed kernel_$*_text $< >$@

$(BUILD)/gen/lab_%.c: src/lab/kernels/%.cu scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed lab_$*_text $< >$@

$(BUILD)/gen/lab_kernel_args.c: src/lab/kernel_args.h scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed lab_kernel_args_text $< >$@

$(BUILD)/gen/lab_operator_words.c: src/lab/operator_words.h scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed lab_operator_words_text $< >$@

$(BUILD)/gen/set_query_%.c: bench/setquery/queries/%.sql scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed set_query_$*_text $< >$@

$(BUILD)/gen/math_text.c: src/base/math_text.h scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed math_text $< >$@

$(BUILD)/gen/wide_text.c: src/base/wide_text.h scripts/embed
	@mkdir -p $(@D)
	$(Q)scripts/embed wide_text $< >$@

$(BUILD)/gen/math_wide_text.c: src/base/math_text.h src/base/wide_text.h scripts/embed
	@mkdir -p $(@D)
	$(Q)cat src/base/math_text.h src/base/wide_text.h >$(@D)/math_wide_text.h
	$(Q)scripts/embed math_wide_text $(@D)/math_wide_text.h >$@

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/settings
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(internals): $(lib_objects) $(BUILD)/members
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(lib_objects)

$(BUILD)/weft.o: $(lib_objects) $(BUILD)/members
	$(Q)$(CC) -r -nostdlib $(lib_objects) -o $@
	$(Q)objcopy --wildcard --keep-global-symbol='weft_*' $@

$(library): $(BUILD)/weft.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $<

# weft.h and weft_flow.h make their functions visible; all else stays hidden, as it was compiled.  The library is never
# unloaded: threads that used it give back what is kept for them when they end (base/blocks.c).
$(shared): $(lib_objects) $(tcc_in_library) $(BUILD)/members
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-z,nodelete -Wl,-soname,$(soname) $(shared_ldflags) -Wl,--as-needed $(lib_objects) \
	    $(tcc_in_library) $(ALL_LIBS) -o $@

$(BUILD)/weft.pc: FORCE
	@mkdir -p $(BUILD)
	@printf '%s\n' '$(subst |,' ',$(pkgconfig_text))' >$@

$(program): $(shell_objects) $(internals) $(BUILD)/members
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(shell_objects) $(internals) $(ALL_LIBS) -o $@

$(BUILD)/tests/%: tests/unit/%.c $(internals) $(BUILD)/settings
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Itests/unit -MMD -MP -MF $@.d $< $(internals) -lcmocka $(ALL_LIBS) -o $@

# An example sees what a user sees: weft.h, weft_flow.h and the library.
$(BUILD)/examples/%: examples/%.c $(library) $(BUILD)/settings
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu17 $(OPTIMIZE) $(WARNINGS) -Iinclude $(ALL_LDFLAGS) -MMD -MP -MF $@.d $< $(library) $(ALL_LIBS) -o $@

# Programs that compare Weft with other engines, and benchmarks.
include $(wildcard tests/peer/rules.mk tests/stress/rules.mk tests/cubes/rules.mk tests/gpu/rules.mk tests/fuzz/rules.mk bench/rules.mk)

.SECONDARY: $(gen_sources)
-include $(tcc_in_library:.o=.d) $(lib_objects:.o=.d) $(shell_objects:.o=.d) $(unit_programs:=.d) $(example_programs:=.d)
