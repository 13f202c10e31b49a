# Device code: the fragments that mmnvcc splices into whole programs (lib/ptx/mm_ARCH.ptx), and libmm.a,
# which nvlink puts behind relocatable code. Both come from runtime/device.cu, once per entry of ARCHS.

MM_PTX := $(ARCHS:%=$(BUILD)/lib/ptx/mm_%.ptx)
MM_DEVICE_SOURCES := $(wildcard runtime/*.cu runtime/*.h runtime/core/*) mmconfig.h
MM_ARCH_FIRST := $(firstword $(shell printf '%s\n' $(ARCHS) | sort -n))

all: $(MM_PTX) $(BUILD)/lib/libmm.a

.PRECIOUS: $(BUILD)/device/device_%.ptx
$(BUILD)/device/device_%.ptx: $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -rdc=true -ptx -arch=compute_$* runtime/device.cu -o $@

$(BUILD)/lib/ptx/mm_%.ptx: $(BUILD)/device/device_%.ptx $(BUILD)/bin/mmfragment interpose/fragment.sh
	@mkdir -p $(@D)
	interpose/fragment.sh $(BUILD)/bin/mmfragment $(CUDA_HOME)/bin/ptxas $* $< $@

# Callers may be capped at 32 registers (__launch_bounds__(1024,2)), so what they call is (F3).
$(BUILD)/device/mm_%.cubin: $(BUILD)/lib/ptx/mm_%.ptx
	$(CUDA_HOME)/bin/ptxas -c -O3 -maxrregcount 32 -arch=sm_$* $< -o $@

$(BUILD)/device/mm.fatbin: $(ARCHS:%=$(BUILD)/device/mm_%.cubin)
	$(CUDA_HOME)/bin/fatbinary -64 --device-c --create=$@ \
	    $(foreach a,$(ARCHS),--image3=kind=elf,sm=$a,file=$(BUILD)/device/mm_$a.cubin)

# For the driver, which links PTX of relocatable code when it loads the program (see runtime/devicelib.h).
$(BUILD)/lib/crt/mm_ptx.fatbin: $(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx
	@mkdir -p $(@D)
	$(CUDA_HOME)/bin/fatbinary -64 --device-c --create=$@ --image3=kind=ptx,sm=$(MM_ARCH_FIRST),file=$<

$(BUILD)/device/devicelib.o: runtime/devicelib.c $(BUILD)/device/mm.fatbin mmconfig.h
	$(CC) $(CFLAGS_MM) -fPIC -DMM_FATBIN='"$(BUILD)/device/mm.fatbin"' -c $< -o $@

$(BUILD)/lib/libmm.a: $(BUILD)/device/devicelib.o
	@mkdir -p $(@D)
	rm -f $@ && ar rcs $@ $<
