# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# GPU suites: compiled everywhere (build-gpu-tests, part of CI), run on a machine with a GPU (check-gpu).
# The Check library is linked statically, so that a machine without it can run the suites from build/.

GPU_TESTS := $(BUILD)/tests/gpu
GPU_ARCH  ?= 90
GPU_STATIC_CHECK = $(shell $(CC) -print-file-name=libcheck.a) $(shell $(CC) -print-file-name=libsubunit.a)
GPU_LINK = $(GPU_OBJECTS) $(GPU_STATIC_CHECK) -lrt -lm -lpthread
GPU_OBJECTS := $(GPU_TESTS)/cpuheap.o $(GPU_TESTS)/check.o $(GPU_TESTS)/expect.o
GPU_HEADERS := $(wildcard tests/gpu/*.h) $(CORE_HEADERS)
GPU_FLAGS := -std=c++17 -I. -Xcompiler -Wall,-Wextra,-Werror

# The suite of a program that uses mm, built in three ways: machine code, PTX for the driver's JIT, relocatable.
GPU_APPS := $(GPU_TESTS)/app_sass $(GPU_TESTS)/app_ptx $(GPU_TESTS)/app_rdc
# The same programs compiled by plain nvcc: mm takes them over at load time.
GPU_PLAIN_APPS := $(patsubst $(GPU_TESTS)/app_%,$(GPU_TESTS)/plain_%,$(GPU_APPS))
GPU_GROW := $(addprefix $(GPU_TESTS)/,grow back ways ways_ptds)
GPU_INSIDE := $(addprefix $(GPU_TESTS)/,core fill lives)
# Random walk, the register-efficient allocators and Ouroboros, one for each face.
GPU_FACES := $(WALK_FACES) $(RING_FACES) $(OURO_FACES)
GPU_OTHERS := $(GPU_FACES:%=$(GPU_TESTS)/lives_%)
GPU_HEADER := $(addprefix $(GPU_TESTS)/,header header_rdc)
GPU_ARRAYS := $(addprefix $(GPU_TESTS)/,arrays arrays_rdc arrays_debug arrays_ptx)
GPU_PLAIN_ARRAYS := $(GPU_ARRAYS:$(GPU_TESTS)/%=$(GPU_TESTS)/plain_%)
GPU_SUITES := $(GPU_INSIDE) $(GPU_OTHERS) $(GPU_APPS) $(GPU_PLAIN_APPS) $(GPU_GROW) $(GPU_HEADER) $(GPU_ARRAYS) $(GPU_PLAIN_ARRAYS) $(GPU_TESTS)/usage

.PHONY: build-gpu-tests
# Programs that run.sh and crowded.sh run in addition to the suites; pairs is run by hand.
GPU_PROGRAMS := $(addprefix $(GPU_TESTS)/,planted planted_builtin misuse filled filled_rdc filled_ptx \
    tools tools_debug plain_tools plain_tools_debug occupy \
    failing failing_rdc failing_ptx failing_plain profiled profiled_ptx profiled_plain pool host host_builtin liblate.so liblate_plain.so liblate_builtin.so)
# Images of two allocators in one process, for each of the others that make allocators has built; and the same with PTX of that one. aw hands out memory that is
# in use, so what the program checks is not true of it.
GPU_TWO := $(patsubst $(BUILD)/lib/allocators/%/driver.fatbin,$(GPU_TESTS)/two_%,$(wildcard $(patsubst %,$(BUILD)/lib/allocators/%/driver.fatbin,$(filter-out aw,$(MM_SIBLINGS)))))
GPU_TWO_TEXTS := $(GPU_TWO:$(GPU_TESTS)/two_%=$(GPU_TESTS)/two_ptx_%)
GPU_PROGRAMS += $(GPU_TWO) $(GPU_TWO_TEXTS)
build-gpu-tests: $(GPU_SUITES) $(GPU_PROGRAMS) $(GPU_TESTS)/pairs
	tests/gpu/keys.sh $(GPU_SUITES)

check-gpu: $(GPU_SUITES) $(GPU_PROGRAMS) all
	tests/gpu/run.sh $(BUILD) $(GPU_SUITES)

# Without a GPU: whether the scripts notice programs that fail.
.PHONY: check-gpu-scripts
check: check-gpu-scripts
check-gpu-scripts:
	tests/gpu/fakes.sh

# The same suites on a device that other processes use, too.
.PHONY: check-gpu-crowded
check-gpu-crowded: $(GPU_SUITES) $(GPU_PROGRAMS) all
	tests/gpu/crowded.sh $(BUILD) $(GPU_SUITES)

$(GPU_TESTS)/%.o: runtime/cpu/%.c $(GPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -c $< -o $@

$(GPU_TESTS)/%.o: tests/gpu/%.c $(GPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -c $< -o $@

$(GPU_INSIDE): $(GPU_TESTS)/%: tests/gpu/test_%.cu $(GPU_OBJECTS) $(GPU_HEADERS)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_LINK) -o $@

define GPU_FACE_RULE
$(GPU_TESTS)/lives_$1: tests/gpu/test_lives.cu $(GPU_TESTS)/expect.o $(call core,$1) $(GPU_HEADERS)
	$(NVCC) $(GPU_FLAGS) $(CORE_FLAGS_$1) -arch=sm_$(GPU_ARCH) $$< $(GPU_TESTS)/expect.o $(call core,$1) $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $$@
endef
$(foreach f,$(GPU_FACES),$(eval $(call GPU_FACE_RULE,$f)))

# A billion pairs of malloc and free: run by hand (tests/gpu/pairs.cu).
$(GPU_TESTS)/pairs: tests/gpu/pairs.cu $(GPU_OBJECTS) $(GPU_HEADERS)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_OBJECTS) -o $@

$(GPU_TESTS)/app_sass $(GPU_TESTS)/plain_sass: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=sm_$(GPU_ARCH)
$(GPU_TESTS)/app_ptx $(GPU_TESTS)/plain_ptx: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH) -DMM_TEST_PTX
$(GPU_TESTS)/app_rdc $(GPU_TESTS)/plain_rdc: GPU_MODE := -arch=sm_$(GPU_ARCH) -rdc=true

$(GPU_APPS): tests/gpu/test_app.cu $(GPU_OBJECTS) $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) $(GPU_MODE) $< $(GPU_LINK) -o $@
$(GPU_PLAIN_APPS): tests/gpu/test_app.cu $(GPU_OBJECTS) $(GPU_HEADERS)
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) $(GPU_MODE) $< $(GPU_LINK) -o $@

$(GPU_TESTS)/header_rdc: GPU_MODE := -rdc=true
$(GPU_HEADER): tests/gpu/test_header.cu include/mm.h $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $(GPU_MODE) $< $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $@

# Counts in front of arrays: whole program, relocatable, with debug information, by the driver's JIT.
$(GPU_TESTS)/arrays $(GPU_TESTS)/plain_arrays: GPU_MODE := -arch=sm_$(GPU_ARCH)
$(GPU_TESTS)/arrays_rdc $(GPU_TESTS)/plain_arrays_rdc: GPU_MODE := -arch=sm_$(GPU_ARCH) -rdc=true
$(GPU_TESTS)/arrays_debug $(GPU_TESTS)/plain_arrays_debug: GPU_MODE := -arch=sm_$(GPU_ARCH) -G
$(GPU_TESTS)/arrays_ptx $(GPU_TESTS)/plain_arrays_ptx: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH)
$(GPU_ARRAYS): tests/gpu/test_arrays.cu tests/gpu/support.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) $(GPU_MODE) $< $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $@
$(GPU_PLAIN_ARRAYS): tests/gpu/test_arrays.cu tests/gpu/support.h
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) $(GPU_MODE) $< $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $@

$(GPU_TESTS)/usage: tests/gpu/test_usage.cu include/mm.h tests/gpu/support.h $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $@

# Faults that a checked run must find; and the same program with CUDA's heap, for compute-sanitizer.
$(GPU_TESTS)/planted: tests/gpu/planted.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< -o $@
$(GPU_TESTS)/planted_builtin: tests/gpu/planted.cu
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< -o $@

# The program that NVIDIA's tools inspect (tools.sh); plain_ marks the builds by plain nvcc.
GPU_TOOLS := $(addprefix $(GPU_TESTS)/,tools tools_debug)
$(GPU_TESTS)/tools $(GPU_TESTS)/plain_tools: GPU_MODE := -lineinfo
$(GPU_TESTS)/tools_debug $(GPU_TESTS)/plain_tools_debug: GPU_MODE := -g -G
$(GPU_TOOLS): tests/gpu/tools.cu include/mm.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $(GPU_MODE) $< -ldl -o $@
$(GPU_TOOLS:$(GPU_TESTS)/%=$(GPU_TESTS)/plain_%): tests/gpu/tools.cu include/mm.h
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $(GPU_MODE) $< -ldl -o $@

# Occupies the device's memory (crowded.sh).
$(GPU_TESTS)/occupy: tests/gpu/occupy.cu
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< -o $@

# The host's cudaMalloc with a pool (pool.sh).
$(GPU_TESTS)/pool: tests/gpu/pool.cu
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< -o $@ -lpthread

# Tests the contents of new memory (MM_FILL).
$(GPU_TESTS)/filled: GPU_MODE := -arch=sm_$(GPU_ARCH)
$(GPU_TESTS)/filled_rdc: GPU_MODE := -arch=sm_$(GPU_ARCH) -rdc=true
$(GPU_TESTS)/filled_ptx: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH)
$(addprefix $(GPU_TESTS)/,filled filled_rdc filled_ptx): tests/gpu/filled.cu include/mm.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_MODE) $< -o $@

# Requests that fail on demand (MM_FAIL).
$(GPU_TESTS)/failing $(GPU_TESTS)/failing_plain: GPU_MODE := -arch=sm_$(GPU_ARCH)
$(GPU_TESTS)/failing_rdc: GPU_MODE := -arch=sm_$(GPU_ARCH) -rdc=true
$(GPU_TESTS)/failing_ptx: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH)
$(addprefix $(GPU_TESTS)/,failing failing_rdc failing_ptx): tests/gpu/failing.cu tests/gpu/cuda_ok.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) $(GPU_MODE) $< -o $@
$(GPU_TESTS)/failing_plain: tests/gpu/failing.cu tests/gpu/cuda_ok.h
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) $(GPU_MODE) $< -o $@

# Requests that are known by kernel (MM_PROFILE).
$(GPU_TESTS)/profiled $(GPU_TESTS)/profiled_plain: GPU_MODE := -arch=sm_$(GPU_ARCH)
$(GPU_TESTS)/profiled_ptx: GPU_MODE := -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH)
$(addprefix $(GPU_TESTS)/,profiled profiled_ptx): tests/gpu/profiled.cu tests/gpu/cuda_ok.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) $(GPU_MODE) $< -o $@
$(GPU_TESTS)/profiled_plain: tests/gpu/profiled.cu tests/gpu/cuda_ok.h
	@mkdir -p $(@D)
	$(NVCC) $(GPU_FLAGS) $(GPU_MODE) $< -o $@

$(GPU_TESTS)/grow $(GPU_TESTS)/back: $(GPU_TESTS)/%: tests/gpu/test_%.cu $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_STATIC_CHECK) -lrt -lm -lpthread -o $@

# Ways to launch kernels: relocatable code, for kernels that launch graphs; a library that is loaded late.
$(GPU_TESTS)/libplugin.so: tests/gpu/plugin.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc -std=c++17 -arch=sm_$(GPU_ARCH) -Xcompiler -fPIC -shared $< -o $@
$(GPU_TESTS)/ways: tests/gpu/test_ways.cu $(GPU_TESTS)/libplugin.so $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) -rdc=true $< $(GPU_STATIC_CHECK) -lcudadevrt -lrt -lm -lpthread -ldl -o $@
$(GPU_TESTS)/ways_ptds: tests/gpu/test_ways.cu $(GPU_TESTS)/libplugin.so $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -default-stream per-thread -arch=sm_$(GPU_ARCH) -rdc=true $< $(GPU_STATIC_CHECK) -lcudadevrt -lrt -lm -lpthread -ldl -o $@

# The host's interface, with mm and with CUDA's malloc (host.sh).
$(GPU_TESTS)/held.o: tests/gpu/held.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -arch=sm_$(GPU_ARCH) -c $< -o $@
$(GPU_TESTS)/host: tests/gpu/host.cu $(GPU_TESTS)/held.o include/mm.h $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_TESTS)/held.o -ldl -o $@
$(GPU_TESTS)/host_builtin: tests/gpu/host.cu $(GPU_TESTS)/held.o include/mm.h
	$(NVCC) $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_TESTS)/held.o -ldl -o $@
GPU_LATE = -std=c++17 -arch=sm_$(GPU_ARCH) -Xcompiler -fPIC -shared $< -o $@
$(GPU_TESTS)/liblate.so: tests/gpu/late.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_LATE)
$(GPU_TESTS)/liblate_plain.so: tests/gpu/late.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc -DMM_TEST_PLAIN $(GPU_LATE)
$(GPU_TESTS)/liblate_builtin.so: tests/gpu/late.cu
	@mkdir -p $(@D)
	$(NVCC) $(GPU_LATE)

$(GPU_TESTS)/two_first.o: tests/gpu/two.cu include/mm.h $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) -c $< -o $@
GPU_SECOND = $(BUILD)/bin/mmnvcc --mm-allocator=$* $(GPU_FLAGS) -DSECOND -c $< -o $@
$(GPU_TESTS)/two_second_%.o: tests/gpu/two.cu include/mm.h $(MM_PTX) $(MM_LIBRARIES) $(BUILD)/lib/allocators/%/driver.fatbin | all
	@mkdir -p $(@D)
	$(GPU_SECOND) -arch=sm_$(GPU_ARCH)
$(GPU_TESTS)/two_text_%.o: tests/gpu/two.cu include/mm.h $(MM_PTX) $(MM_LIBRARIES) $(BUILD)/lib/allocators/%/driver.fatbin | all
	@mkdir -p $(@D)
	$(GPU_SECOND) -gencode arch=compute_$(GPU_ARCH),code=compute_$(GPU_ARCH)
$(GPU_TWO): $(GPU_TESTS)/two_%: $(GPU_TESTS)/two_first.o $(GPU_TESTS)/two_second_%.o
	$(BUILD)/bin/mmnvcc $^ -o $@
$(GPU_TWO_TEXTS): $(GPU_TESTS)/two_ptx_%: $(GPU_TESTS)/two_first.o $(GPU_TESTS)/two_text_%.o
	$(BUILD)/bin/mmnvcc $^ -o $@

# Misuse of free: misuse.sh runs each case in its own process.
$(GPU_TESTS)/misuse: tests/gpu/misuse.cu $(GPU_TESTS)/misuse_cases.o $(GPU_HEADERS) $(MM_PTX) $(MM_LIBRARIES) | all
	$(BUILD)/bin/mmnvcc $(GPU_FLAGS) -arch=sm_$(GPU_ARCH) $< $(GPU_TESTS)/misuse_cases.o -o $@
