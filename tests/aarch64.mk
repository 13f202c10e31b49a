# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The host parts for aarch64: compiled and linked with the flags of the build, but not run. libmm.so.1 must export the same
# symbols there as here.
CC_AARCH64 := aarch64-linux-gnu-gcc
AARCH64    := $(BUILD)/tests/aarch64
AARCH64_RUN_TIME := $(patsubst $(BUILD)/obj/%,$(AARCH64)/%,$(RUN_TIME_OBJS) $(LOAD_OBJS) $(HOST_OBJS))
AARCH64_LOAD     := $(patsubst $(BUILD)/%,$(AARCH64)/%,$(MM_LOAD_O))
AARCH64_SHARED   := $(addprefix $(AARCH64)/interpose/compile/,devlink.o shim.o) $(AARCH64_LOAD)
AARCH64_MADE     := $(addprefix $(AARCH64)/,libmm.so.1 mmhook.o mmunyield mmcicc mmptxas mmlink mmimages mmenvironment mmbench)
# liblz4 and libzstd are not installed for aarch64. Nothing is run, so their functions are defined as address 0.
AARCH64_LOAD_LIBS := -Wl,--defsym=LZ4_decompress_safe=0,--defsym=ZSTD_decompress=0,--defsym=ZSTD_getFrameContentSize=0
# Names and versions of the symbols that a library exports.
exported = readelf -W --dyn-syms $1 | awk '$$5 == "GLOBAL" && $$7 != "UND" {print $$8}' | sort

.PHONY: check-aarch64
check: check-aarch64
check-aarch64: $(AARCH64_MADE) $(BUILD)/lib/libmm.so.1
	! LC_ALL=C readelf -h $(AARCH64_MADE) | grep Machine: | grep -v AArch64
	grep -q GLIBC_2.17 $(AARCH64)/mmhook.o # the version of dlsym on aarch64
	$(call exported,$(AARCH64)/libmm.so.1) >$(AARCH64)/exported
	$(call exported,$(BUILD)/lib/libmm.so.1) | cmp - $(AARCH64)/exported
	@echo 'aarch64: $(words $(AARCH64_MADE)) passed, 0 failed'

# Depends on the native object, which is rebuilt when a header changes.
$(AARCH64_RUN_TIME): $(AARCH64)/%.o: %.c $(BUILD)/obj/%.o
	@mkdir -p $(@D)
	$(CC_AARCH64) $(CFLAGS_RUN_TIME) -c $< -o $@
$(AARCH64)/runtime/host/trim.o: CFLAGS_RUN_TIME += -DMM_KERNELS_FATBIN='"$(BUILD)/device/maintain.fatbin"'
$(AARCH64)/interpose/preload/link.o: CFLAGS_RUN_TIME += -DMM_LINKED='"$(BUILD)/device/linked"'

$(AARCH64)/libmm.so.1: $(AARCH64_RUN_TIME) $(BUILD)/obj/exports.map
	$(CC_AARCH64) $(RUN_TIME_LINK) -o $@ $(AARCH64_RUN_TIME) $(AARCH64_LOAD_LIBS) -ldl -lpthread

$(AARCH64)/mmhook.o: override private CC := $(CC_AARCH64)
$(AARCH64)/mmhook.o: interpose/preload/program/mmhook.c $(wildcard interpose/preload/*.h)
	@mkdir -p $(@D)
	$(call MMHOOK_CC,/opt/mm,$@)

$(AARCH64)/interpose/%.o: interpose/%.c $(MM_LOAD_H)
	@mkdir -p $(@D)
	$(CC_AARCH64) $(CFLAGS_MM) -c $< -o $@

$(AARCH64)/mmcicc: $(AARCH64)/interpose/compile/cicc.o $(AARCH64_SHARED)
$(AARCH64)/mmptxas: $(AARCH64)/interpose/compile/ptxas.o $(AARCH64_SHARED)
$(AARCH64)/mmlink: $(AARCH64)/interpose/compile/nvlink.o $(AARCH64_SHARED)
$(addprefix $(AARCH64)/,mmcicc mmptxas mmlink):
	$(CC_AARCH64) $^ -o $@

$(AARCH64)/mmunyield: interpose/compile/mmunyield.c
	@mkdir -p $(@D)
	$(CC_AARCH64) $(CFLAGS_MM) $< -o $@

$(AARCH64)/mmimages: tools/mmdoctor/images.c $(AARCH64_SHARED) $(addprefix $(AARCH64)/interpose/load/,fatbin.o unpack.o)
	$(CC_AARCH64) $(CFLAGS_MM) $^ -o $@ $(AARCH64_LOAD_LIBS)

$(AARCH64)/mmenvironment: tools/mmdoctor/environment.c $(addprefix $(AARCH64)/runtime/host/,env.o say.o fit/names.o)
	$(CC_AARCH64) $(CFLAGS_MM) $^ -o $@ -lpthread

$(AARCH64)/mmbench: $(BENCH_C) $(BENCH_H)
	@mkdir -p $(@D)
	$(CC_AARCH64) $(CFLAGS_MM) $(BENCH_C) -o $@ -lm
