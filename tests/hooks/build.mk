# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Check suites of the hooks, run against the stand-in driver. Their counterparts for a real GPU are built by gpu-hooks
# (tests/hooks/gpu_*).
HT     := $(BUILD)/tests/hooks
HT_SRC := tests/hooks
HT_CC   = @mkdir -p $(@D)$(newline)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -Werror -I. -I$(HT_SRC) \
    -isystem $(CUDA_HOME)/include
define newline


endef

# client.c is compiled anew for each program; the scenarios are compiled once.
HT_SCENARIOS := $(patsubst $(HT_SRC)/%.c,$(HT)/%.o,$(wildcard $(HT_SRC)/client_*.c))
HT_LOGS     := $(addprefix $(HT)/,host_log.o host_generate.o)
HT_CLIENT   := $(HT_SRC)/client.c $(HT_SCENARIOS) $(HT_LOGS)
HT_HEADERS  := $(wildcard $(HT_SRC)/*.h) $(CORE_HEADERS)
HT_MM       := $(BUILD)/lib/mmhook.o $(BUILD)/lib/libmm.so $(BUILD)/lib/libmmshared.a
HT_PROGRAMS := $(addprefix $(HT)/,client client_hook client_plain client_hook_plain client_orphan \
    plugin_host plugin.so cudart_static cudart_static_hook cudart_shared cudart_shared_hook \
    own0 own1 own2 own3 own4 nocuda nocuda_hook libthird.so libthird_hook.so libmock.so libslow.so libscarce.so check_hooks check_sizes check_processes check_code check_report check_files check_kernel_cache \
    check_env check_say check_profile check_series check_memory check_trim check_pool check_tables check_rounds nvrtc)
FAULT_RACES ?= 100

.PHONY: check-hooks check-install-run-time
check: check-hooks
# Once everything is built, make install writes nothing into $(BUILD): root may install what another user built and will clean.
HT_INSTALL = $(MAKE) --no-print-directory install-run-time DESTDIR=$(abspath $(HT))/dest PREFIX=/opt/mm
HT_DEST   := $(HT)/dest/opt/mm/lib/mm
check-install-run-time: run-time
	rm -rf $(HT)/dest
	! $(HT_INSTALL) -n | grep -E '(-o |-d |>) *$(BUILD)/'
	$(HT_INSTALL) >$(HT)/install.log
	cmp $(BUILD)/lib/libmm.so.1 $(HT_DEST)/libmm.so.1
	grep -qx 'INPUT(mmhook.o libmmshared.a AS_NEEDED(-ldl))' $(HT_DEST)/libmm.so
	grep -q /opt/mm/lib/mm/libmm.so.1 $(HT_DEST)/mmhook.o
	test "$$(stat -c %a $(HT_DEST)/mmhook.o $(addprefix $(HT_DEST)/,$(MM_LINK_FILES)) | sort -u)" = 644

check-hooks: $(HT_PROGRAMS) run-time check-install-run-time $(BUILD)/bin/mmrun $(BUILD)/bin/mmnvcc $(MM_LIBRARIES)
	$(HT)/check_kernel_cache
	$(HT)/check_env
	$(HT)/check_say
	$(HT)/check_profile
	$(HT)/check_series
	$(HT)/check_memory
	$(HT)/check_trim
	$(HT)/check_tables
	$(HT)/check_rounds
	cd $(HT) && ./check_hooks $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_sizes $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_processes $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_pool $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_code $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_report $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	cd $(HT) && ./check_files $(abspath $(BUILD)/lib) $(abspath $(BUILD)/bin)
	$(HT_SRC)/statistics.sh $(BUILD)
	$(HT_SRC)/jit.sh $(BUILD) $(HT) $(CUDA_HOME)

# Lets every driver call fail once, at every stage of a heap's life.
.PHONY: faults
check: faults
faults: $(HT)/faults $(HT)/client run-time
	cd $(HT) && ./faults $(abspath $(BUILD)/lib) $(FAULT_RACES)

# Not part of check.
.PHONY: hook-mutants
hook-mutants: $(HT_PROGRAMS) run-time $(BUILD)/bin/mmrun
	CC='$(CC)' CUDA_HOME='$(CUDA_HOME)' $(HT_SRC)/mutants.sh $(BUILD)

$(HT)/faults: $(HT_SRC)/faults.c
	$(HT_CC) $< -o $@

$(HT)/libcuda.so.1: $(wildcard $(HT_SRC)/standin_*.c) $(HT_HEADERS)
	$(HT_CC) -fPIC -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic $(filter %.c,$^) -o $@ -lpthread

$(HT_SCENARIOS): $(HT)/%.o: $(HT_SRC)/%.c $(HT_HEADERS)
	$(HT_CC) -fPIC -c $< -o $@

$(HT_LOGS): $(HT)/%.o: tools/mmbench/child/papers/%.c tools/mmbench/child/papers/host.h
	$(HT_CC) -fPIC -c $< -o $@

$(HT)/client: $(HT_CLIENT) $(HT_HEADERS) $(HT)/libcuda.so.1
	$(HT_CC) $(HT_CLIENT) -o $@ -ldl -lpthread

$(HT)/client_hook: $(HT_CLIENT) $(HT_HEADERS) $(HT_MM) $(HT)/libcuda.so.1
	$(HT_CC) $(HT_CLIENT) -L$(BUILD)/lib -lmm -lmm -o $@ -ldl -lpthread

$(HT)/client_plain: $(HT_CLIENT) $(HT_HEADERS) $(HT)/libcuda.so.1
	$(HT_CC) -DPLAIN $(HT_CLIENT) -o $@ -L$(HT) -l:libcuda.so.1 -ldl -lpthread

$(HT)/client_hook_plain: $(HT_CLIENT) $(HT_HEADERS) $(HT_MM) $(HT)/libcuda.so.1
	$(HT_CC) -DPLAIN $(HT_CLIENT) -Wl,--as-needed -L$(BUILD)/lib -lmm -o $@ -L$(HT) -l:libcuda.so.1 -ldl -lpthread

$(HT)/client_orphan: $(HT_CLIENT) $(HT_HEADERS) interpose/preload/program/mmhook.c interpose/preload/entry.h
	$(HT_CC) -fPIC -fvisibility=hidden -DMM_LIBDIR='"/nonexistent"' interpose/preload/program/mmhook.c $(HT_CLIENT) -o $@ -ldl -lpthread

$(HT)/plugin.so: $(HT_CLIENT) $(HT_HEADERS) $(HT_MM)
	$(HT_CC) -DCLIENT_MAIN=client_main -fPIC -shared -Wl,-z,defs $(HT_CLIENT) -L$(BUILD)/lib -lmm -o $@ -ldl -lpthread

$(HT)/plugin_host: $(HT_SRC)/plugin_host.c
	$(HT_CC) $< -o $@ -ldl

$(HT)/libnext.so: $(HT_SRC)/next.c
	$(HT_CC) -fPIC -shared $< -o $@

$(HT)/libthird.so: $(HT_SRC)/third.c
	$(HT_CC) -fPIC -shared $< -o $@ -ldl

$(HT)/libthird_hook.so: $(HT_SRC)/third.c $(HT_MM)
	$(HT_CC) -fPIC -shared $< -o $@ -L$(BUILD)/lib -lmm -ldl

$(HT)/libmock.so: $(HT_SRC)/mock.c
	$(HT_CC) -fPIC -shared $< -o $@

$(HT)/libscarce.so: $(HT_SRC)/scarce.c
	$(HT_CC) -fPIC -shared $< -o $@ -ldl

$(HT)/libslow.so: $(HT_SRC)/slow.c
	$(HT_CC) -fPIC -shared $< -o $@

$(HT)/nocuda: $(HT_SRC)/nocuda.c $(HT)/libnext.so
	$(HT_CC) $< -o $@ -L$(HT) -l:libnext.so

$(HT)/nocuda_hook: $(HT_SRC)/nocuda.c $(HT)/libnext.so $(HT_MM)
	$(HT_CC) $< -o $@ -Wl,--as-needed -static-libgcc -L$(BUILD)/lib -lmm -L$(HT) -l:libnext.so

# The real CUDA runtime on the stand-in driver. It does not start there, but it fetches all its driver functions first.
HT_CUDART = $(HT_CC) $< -o $@
$(HT)/cudart_static: $(HT_SRC)/cudart_client.c $(HT_HEADERS)
	$(HT_CUDART) -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt -lpthread
$(HT)/cudart_static_hook: $(HT_SRC)/cudart_client.c $(HT_HEADERS) $(HT_MM)
	$(HT_CUDART) -L$(CUDA_HOME)/lib64 -L$(BUILD)/lib -lmm -lcudart_static -ldl -lrt -lpthread
$(HT)/cudart_shared: $(HT_SRC)/cudart_client.c $(HT_HEADERS)
	$(HT_CUDART) -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcudart -ldl
$(HT)/cudart_shared_hook: $(HT_SRC)/cudart_client.c $(HT_HEADERS) $(HT_MM)
	$(HT_CUDART) -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -L$(BUILD)/lib -lmm -lcudart -ldl

# Programs that define the symbols of mmhook.o themselves (strong definitions), in links of several kinds.
HT_OWN = $(HT_CC) $(HT_SRC)/own.c -o $@ -L$(BUILD)/lib -lmm
$(addprefix $(HT)/,own0 own1 own2 own3 own4): $(HT_SRC)/own.c $(HT_MM)
$(HT)/own0:
	$(HT_OWN)
$(HT)/own1:
	$(HT_OWN) -no-pie -lmm
$(HT)/own2:
	$(HT_OWN) -Wl,--as-needed -Wl,--gc-sections -Wl,-z,now -static-libgcc
$(HT)/own3:
	$(HT_OWN) -flto
$(HT)/own4:
	$(HT_OWN) -pie -fPIE -Wl,-z,defs -Wl,-z,relro -rdynamic

$(HT)/check_hooks $(HT)/check_sizes $(HT)/check_processes $(HT)/check_code $(HT)/check_report $(HT)/check_files $(HT)/check_pool: $(HT)/%: $(HT_SRC)/%.c $(HT_SRC)/suite.h $(HT_SRC)/effort.h tests/runner.h mmconfig.h
	$(HT_CC) $< -o $@ $$(pkg-config --cflags --libs check)

$(HT)/check_env: $(HT_SRC)/check_env.c tests/runner.h runtime/host/env.c runtime/host/env.h mmconfig.h $(BUILD)/obj/runtime/host/fit/names.o
	$(HT_CC) $< $(BUILD)/obj/runtime/host/fit/names.o -o $@ $$(pkg-config --cflags --libs check)

$(HT)/check_say: $(HT_SRC)/check_say.c tests/runner.h runtime/host/say.c $(wildcard runtime/host/*.h) mmconfig.h
	$(HT_CC) $< runtime/host/say.c -o $@ -lpthread $$(pkg-config --cflags --libs check)

# Profiles and series of maps, without a heap.
HT_PROFILE := $(addprefix runtime/host/,events.c $(notdir $(wildcard runtime/host/profile*.c)) map.c map_series.c say.c svg.c)
$(HT)/check_profile $(HT)/check_series: $(HT)/%: $(HT_SRC)/%.c tests/runner.h $(HT_PROFILE) $(wildcard runtime/host/*.h) mmconfig.h
	$(HT_CC) -D_GNU_SOURCE= -fsanitize=address,undefined -fno-sanitize-recover=all $< $(HT_PROFILE) -o $@ -lpthread $$(pkg-config --cflags --libs check)

$(HT)/check_memory $(HT)/check_trim: $(HT)/%: $(HT_SRC)/%.c $(HT_SRC)/check_memory.h tests/runner.h $(HOST_OBJS)
	$(HT_CC) $(filter-out %.h,$^) -o $@ -lpthread $$(pkg-config --cflags --libs check)

HT_TABLES := $(addprefix $(BUILD)/obj/runtime/host/pool/,allocations.o ranges.o)
$(HT)/check_tables: $(HT_SRC)/check_tables.c tests/runner.h $(HT_TABLES)
	$(HT_CC) $< $(HT_TABLES) -o $@ $$(pkg-config --cflags --libs check)

$(HT)/check_rounds: $(HT_SRC)/check_rounds.c tests/runner.h $(HOST_OBJS) $(HT_HEADERS)
	$(HT_CC) $< $(HOST_OBJS) -o $@ $$(pkg-config --cflags --libs check) -lpthread

$(HT)/nvrtc: $(HT_SRC)/nvrtc.c $(HT_HEADERS)
	$(HT_CC) $< -o $@ -ldl

$(HT)/check_kernel_cache: $(HT_SRC)/check_kernel_cache.c tests/runner.h $(wildcard interpose/preload/kernel_cache.* interpose/preload/handles.*)
	$(HT_CC) $< interpose/preload/kernel_cache.c interpose/preload/handles.c -o $@ $$(pkg-config --cflags --libs check)

# ---- the GPU's part: built here, run by tests/hooks/gpu_run.sh on a machine with a GPU --------------------

HG      := $(HT)/gpu
HG_NVCC  = @mkdir -p $(@D)$(newline)$(NVCC) -std=c++17 -O2 -I. -I$(HT_SRC) -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_75,code=compute_75
HG_CUDA := -L$(CUDA_HOME)/lib64/stubs -lcuda
HG_DEPS := $(addprefix $(HT_SRC)/,gpu_module.cu program_check.h gpu_look.h gpu_driver.h) runtime/core/layout.h mmconfig.h

.PHONY: gpu-hooks
gpu-hooks: run-time $(BUILD)/bin/mmrun $(addprefix $(HG)/,module.fatbin gpu_driver gpu_driver_hook gpu_probe \
    gpu_jit gpu_jit_hook jit_whole.ptx jit_one.ptx jit_two.ptx jit_kernels.cu \
    gpu_runtime_static gpu_runtime_shared gpu_runtime_ptds gpu_runtime_hook)

$(HG)/module.fatbin: $(HG_DEPS)
	$(HG_NVCC) -fatbin $(HT_SRC)/gpu_module.cu -o $@

$(HG)/gpu_driver $(HG)/gpu_probe: $(HG)/%: $(HT_SRC)/%.c $(HG_DEPS)
	$(HT_CC) $< -o $@ $(HG_CUDA) -ldl

$(HG)/gpu_jit: $(HT_SRC)/gpu_jit.c $(HT_HEADERS)
	$(HT_CC) $< -o $@ $(HG_CUDA) -ldl
$(HG)/gpu_jit_hook: $(HT_SRC)/gpu_jit.c $(HT_HEADERS) $(HT_MM)
	$(HT_CC) $< -o $@ -L$(BUILD)/lib -lmm $(HG_CUDA) -ldl

# Compiled by plain nvcc: these contain nothing of mm.
$(HG)/jit_whole.ptx: JIT_PART := 0
$(HG)/jit_one.ptx: JIT_PART := 1
$(HG)/jit_two.ptx: JIT_PART := 2
$(HG)/jit_whole.ptx $(HG)/jit_one.ptx $(HG)/jit_two.ptx: $(HT_SRC)/jit_kernels.cu
	@mkdir -p $(@D)
	$(NVCC) -ptx -arch=compute_75 -DPART=$(JIT_PART) $< -o $@
$(HG)/jit_kernels.cu: $(HT_SRC)/jit_kernels.cu
	@mkdir -p $(@D)
	cp $< $@

$(HG)/gpu_driver_hook: $(HT_SRC)/gpu_driver.c $(HG_DEPS) $(HT_MM)
	$(HT_CC) $< -o $@ -L$(BUILD)/lib -lmm $(HG_CUDA)

$(HG)/gpu_runtime_static: $(HT_SRC)/gpu_runtime.cu $(HG_DEPS)
	$(HG_NVCC) $< -o $@

$(HG)/gpu_runtime_ptds: $(HT_SRC)/gpu_runtime.cu $(HG_DEPS)
	$(HG_NVCC) -default-stream per-thread $< -o $@

$(HG)/gpu_runtime_shared: $(HT_SRC)/gpu_runtime.cu $(HG_DEPS)
	$(HG_NVCC) -cudart shared $< -o $@
	cp -L $(CUDA_HOME)/lib64/libcudart.so.1[0-9] $(@D)/

$(HG)/gpu_runtime_hook: $(HT_SRC)/gpu_runtime.cu $(HG_DEPS) $(HT_MM)
	$(HG_NVCC) $< -o $@ -L$(BUILD)/lib -lmm
