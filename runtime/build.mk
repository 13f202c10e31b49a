# Device code: the fragments that mmnvcc splices into whole programs (lib/ptx/mm_ARCH.ptx), and the libraries
# that our nvlink puts behind relocatable code (lib/device/). Both come from runtime/device.cu, once per entry
# of ARCHS.

MM_PTX := $(ARCHS:%=$(BUILD)/lib/ptx/mm_%.ptx)
MM_DEVICE_SOURCES := $(wildcard runtime/*.cu runtime/*.h runtime/core/*) mmconfig.h
MM_ARCH_FIRST := $(firstword $(shell printf '%s\n' $(ARCHS) | sort -n))

MM_LIBRARIES := $(BUILD)/lib/device/mm32.a $(BUILD)/lib/device/mm24.a $(BUILD)/lib/device/mmptx.a
all: $(MM_PTX) $(MM_LIBRARIES)

.SECONDARY: $(ARCHS:%=$(BUILD)/device/device_%.ptx)

$(BUILD)/device/device_%.ptx: $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -rdc=true -ptx -arch=compute_$* runtime/device.cu -o $@

$(BUILD)/lib/ptx/mm_%.ptx: $(BUILD)/device/device_%.ptx $(BUILD)/bin/mmfragment interpose/fragment.sh
	@mkdir -p $(@D)
	interpose/fragment.sh $(BUILD)/bin/mmfragment $(CUDA_HOME)/bin/ptxas $* $< $@

# A function behind a call may use no more registers than its caller is capped at: 32 suits
# __launch_bounds__(1024,2) (F3), 24 is the least that -maxrregcount gives.
$(BUILD)/device/mm32_%.cubin: $(BUILD)/lib/ptx/mm_%.ptx
	$(CUDA_HOME)/bin/ptxas -c -O3 -maxrregcount 32 -arch=sm_$* $< -o $@

$(BUILD)/device/mm24_%.cubin: $(BUILD)/lib/ptx/mm_%.ptx
	$(CUDA_HOME)/bin/ptxas -c -O3 -maxrregcount 24 -arch=sm_$* $< -o $@

# Machine code only: of PTX nvlink would make code for any architecture, with as many registers as it likes.
$(foreach r,32 24,$(eval $(BUILD)/device/mm$r.fatbin: $(ARCHS:%=$(BUILD)/device/mm$r_%.cubin)))
$(BUILD)/device/mm%.fatbin:
	$(CUDA_HOME)/bin/fatbinary -64 --device-c --cmdline="--compile-only" --create=$@ \
	    $(foreach a,$(ARCHS),--image3=kind=elf,sm=$a,file=$(BUILD)/device/mm$*_$a.cubin)

# What the driver links behind relocatable code that it has to assemble itself (interpose/link_stub.h): machine
# code, because callers may be capped, and PTX for GPUs that are not in ARCHS.
$(BUILD)/lib/device/driver.fatbin: $(ARCHS:%=$(BUILD)/device/mm32_%.cubin) $(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx
	@mkdir -p $(@D)
	$(CUDA_HOME)/bin/fatbinary -64 --device-c --cmdline="--compile-only" --create=$@ \
	    $(foreach a,$(ARCHS),--image3=kind=elf,sm=$a,file=$(BUILD)/device/mm32_$a.cubin) \
	    --image3=kind=ptx,sm=$(MM_ARCH_FIRST),file=$(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx

# PTX alone: makes nvlink list our module in programs of relocatable PTX.
$(BUILD)/device/mm_ptx.fatbin: $(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx
	@mkdir -p $(@D)
	$(CUDA_HOME)/bin/fatbinary -64 --device-c --cmdline="--compile-only" --create=$@ --image3=kind=ptx,sm=$(MM_ARCH_FIRST),file=$<

$(BUILD)/device/devicelib%.o: runtime/devicelib.c $(BUILD)/device/mm%.fatbin mmconfig.h
	$(CC) $(CFLAGS_MM) -fPIC -DMM_FATBIN='"$(BUILD)/device/mm$*.fatbin"' -c $< -o $@

$(BUILD)/device/devicelib_ptx.o: runtime/devicelib.c $(BUILD)/device/mm_ptx.fatbin mmconfig.h
	$(CC) $(CFLAGS_MM) -fPIC -DMM_FATBIN='"$(BUILD)/device/mm_ptx.fatbin"' -c $< -o $@

$(BUILD)/lib/device/mm32.a: $(BUILD)/device/devicelib32.o
$(BUILD)/lib/device/mm24.a: $(BUILD)/device/devicelib24.o
$(BUILD)/lib/device/mmptx.a: $(BUILD)/device/devicelib_ptx.o
$(MM_LIBRARIES):
	@mkdir -p $(@D)
	rm -f $@ && ar rcs $@ $<

# The kernels of runtime/maintain.cu, for every architecture, and PTX for GPUs that are not in ARCHS: part of libmm.so.1.
$(BUILD)/device/maintain_%.cubin: runtime/maintain.cu $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -cubin -arch=sm_$* $< -o $@
$(BUILD)/device/maintain.ptx: runtime/maintain.cu $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -ptx -arch=compute_$(MM_ARCH_FIRST) $< -o $@
$(BUILD)/device/maintain.fatbin: $(ARCHS:%=$(BUILD)/device/maintain_%.cubin) $(BUILD)/device/maintain.ptx
	$(CUDA_HOME)/bin/fatbinary -64 --create=$@ $(foreach a,$(ARCHS),--image3=kind=elf,sm=$a,file=$(BUILD)/device/maintain_$a.cubin) \
	    --image3=kind=ptx,sm=$(MM_ARCH_FIRST),file=$(BUILD)/device/maintain.ptx
