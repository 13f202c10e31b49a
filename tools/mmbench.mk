# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmbench: the host program, and the two child programs that it runs. The files that allocate (BENCH_ALLOC) are compiled by nvcc for one
# child and by mmnvcc for the other, for each of ARCHS. `make bench` measures everything and writes into build/bench/.

BENCH_SRC := tools/mmbench
BENCH_C := $(wildcard $(BENCH_SRC)/*.c) $(BENCH_SRC)/child/trace.c
BENCH_H := $(wildcard $(BENCH_SRC)/*.h $(BENCH_SRC)/child/*.h $(BENCH_SRC)/child/papers/*.h) tools/kernels.h include/mm.h
BENCH_CHILDREN := $(BUILD)/lib/bench/mmbench-builtin $(BUILD)/lib/bench/mmbench-mm
# Of the other allocators, after make allocators.
BENCH_SIBLINGS := $(MM_SIBLINGS:%=$(BUILD)/lib/bench/mmbench-%)
BENCH_ALLOC := $(addprefix $(BENCH_SRC)/child/,alloc.cu replay_launch.cu papers/kernels.cu)
# Kernels that are not measured, or only as a floor: the driver compiles them when a child first uses them. CUB alone takes seconds for each architecture.
BENCH_PTX_OBJS := $(addprefix $(BUILD)/obj/$(BENCH_SRC)/child/papers/,floors.o host_kernels.o words.o)
BENCH_CHILD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(BENCH_SRC)/child/*.c $(BENCH_SRC)/child/papers/*.c)) \
	$(BUILD)/obj/$(BENCH_SRC)/child/plain.o $(BENCH_PTX_OBJS)
# Random walk's draws, for each face, with and without counters, compiled from one file, with 32 registers, as mm's code in programs. Those with counters are not
# timed.
BENCH_FACES := rw bm coop
BENCH_PROBES := $(patsubst %,$(BUILD)/obj/$(BENCH_SRC)/child/papers/probes_%.o,$(BENCH_FACES) $(BENCH_FACES:%=%_counted))
BENCH_CHILD_OBJS += $(BENCH_PROBES)
# -e .git: in an unpacked archive, git must not describe a repository that happens to surround it.
BENCH_COMMIT = $(shell test -e .git && git describe --always --dirty --abbrev=12 2>/dev/null || echo v$(MM_VERSION))
BENCH_ARCHS = $(ARCHS)
BENCH_FLAGS = -std=c++17 -O2 -I. -Xcompiler -Wall,-Wextra,-Werror \
	$(foreach a,$(BENCH_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
	-gencode arch=compute_$(MM_ARCH_FIRST),code=compute_$(MM_ARCH_FIRST)

.PHONY: bench install-mmbench uninstall-mmbench
all: $(BUILD)/bin/mmbench
build-gpu-tests: $(BUILD)/bin/mmbench

# Depends on the children because it records the commit: that must be the commit of the allocator inside them.
$(BUILD)/bin/mmbench: $(BENCH_C) $(BENCH_H) $(BENCH_CHILDREN) $(wildcard $(BENCH_SIBLINGS)) $(BUILD)/lib/bench/plot
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -DMM_BENCH_COMMIT='"$(BENCH_COMMIT)"' $(BENCH_C) -o $@

$(BUILD)/lib/bench/plot: $(BENCH_SRC)/plot.py
	@mkdir -p $(@D)
	install -m 755 $< $@

$(BUILD)/obj/$(BENCH_SRC)/child/%.o: $(BENCH_SRC)/child/%.c $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -isystem $(CUDA_HOME)/include -c $< -o $@

$(BUILD)/obj/$(BENCH_SRC)/child/%.o: $(BENCH_SRC)/child/%.cu $(BENCH_H)
	@mkdir -p $(@D)
	$(NVCC) $(BENCH_FLAGS) -c $< -o $@

$(BENCH_PTX_OBJS): BENCH_ARCHS :=
$(BUILD)/obj/$(BENCH_SRC)/child/papers/floors.o: $(BENCH_SRC)/child/papers/kernels.cu

$(BUILD)/obj/$(BENCH_SRC)/child/papers/probes_case.o: $(MM_DEVICE_SOURCES)
$(filter %_counted.o,$(BENCH_PROBES)): BENCH_ARCHS :=
$(filter %_counted.o,$(BENCH_PROBES)): BENCH_COUNTED := -DPROBES_COUNTED
$(BENCH_PROBES): $(BUILD)/obj/$(BENCH_SRC)/child/papers/probes_%.o: $(BENCH_SRC)/child/papers/probes_device.cu $(BENCH_H) $(MM_SIBLING_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) $(BENCH_FLAGS) -maxrregcount=32 $(BENCH_COUNTED) -DMM_ALLOCATOR=random_walk -DPROBES_NAME=probes_$* \
		-DMM_WALK_FACE=MM_WALK_$(shell echo $(*:_counted=) | tr a-z A-Z) -c $< -o $@

$(BUILD)/lib/bench/mmbench-builtin: $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) $(BENCH_H)
	@mkdir -p $(@D)
	$(NVCC) $(BENCH_FLAGS) -DALLOCATOR='"builtin"' $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) -o $@

$(BUILD)/lib/bench/mmbench-mm: $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) $(BENCH_H) \
    $(MM_PTX) $(MM_LIBRARIES) $(BUILD)/lib/libmm.so.1 | $(BUILD)/bin/mmnvcc run-time
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(BENCH_FLAGS) -DALLOCATOR='"mm"' $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) -o $@

allocators: $(BENCH_SIBLINGS) $(BUILD)/bin/mmbench
$(BUILD)/bin/mmbench: | $(if $(filter allocators,$(MAKECMDGOALS)),$(BENCH_SIBLINGS))
$(BENCH_SIBLINGS): $(BUILD)/lib/bench/mmbench-%: $(BUILD)/lib/allocators/%/driver.fatbin $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) $(BENCH_H) | $(BUILD)/bin/mmnvcc run-time
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc --mm-allocator=$* $(BENCH_FLAGS) -DALLOCATOR='"$*"' $(BENCH_ALLOC) $(BENCH_CHILD_OBJS) -o $@

bench: all
	@mkdir -p $(BUILD)/bench
	$(BUILD)/bin/mmbench --csv $(BUILD)/bench/mmbench-$$(date -u +%Y%m%d-%H%M%S).csv

install: install-mmbench
install-mmbench: $(BUILD)/bin/mmbench
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(MMLIBDIR)/bench"
	install -m 755 $(BUILD)/bin/mmbench "$(DESTDIR)$(PREFIX)/bin/"
	install -m 755 $(BENCH_CHILDREN) $(BUILD)/lib/bench/plot "$(DESTDIR)$(MMLIBDIR)/bench/"

uninstall: uninstall-mmbench
uninstall-mmbench:
	rm -f "$(DESTDIR)$(PREFIX)/bin/mmbench"
	rm -rf "$(DESTDIR)$(MMLIBDIR)/bench"
	rmdir "$(DESTDIR)$(MMLIBDIR)" 2>/dev/null || :
