# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compile time: mmnvcc and what it calls. Everything it needs lies in one folder, lib/: scripts, our cicc,
# ptxas and nvlink, device code and libraries, and toolkit/, the links to the toolkit that mm is built with.

MMLIBDIR := $(abspath $(PREFIX))/lib/mm
MM_LOAD_O := $(patsubst interpose/%.c,$(BUILD)/interpose/%.o,\
	$(wildcard interpose/load/ptx/*.c) $(addprefix interpose/load/,cubin.c elf.c wants.c))
MM_LOAD_H := $(wildcard interpose/compile/*.h interpose/load/*.h interpose/load/ptx/*.h) mmconfig.h
MM_SHIMS := $(BUILD)/lib/mmcicc $(BUILD)/lib/mmptxas $(BUILD)/lib/mmlink
# What a link takes, but mmhook.o (preload/build.mk).
MM_LINK_FILES := libmm.so libmm.a libmmshared.a mmstatic.o
MM_COMPILE_TIME := $(addprefix $(BUILD)/lib/,mmnvcc mmview mmdevice mmfatbinary mmimages mmunyield devicelib.c mmconfig.h) $(MM_SHIMS) \
	$(BUILD)/lib/device/link_stub.h $(BUILD)/lib/device/driver.fatbin $(addprefix $(BUILD)/lib/,mmhook.o $(MM_LINK_FILES) include/mm.h) $(MM_PTX) $(MM_LIBRARIES)

.PHONY: install-compile-time uninstall-compile-time
all: $(BUILD)/bin/mmnvcc $(BUILD)/lib/path/nvcc
install: install-compile-time
uninstall: uninstall-compile-time

$(BUILD)/interpose/%.o: interpose/%.c $(MM_LOAD_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -c $< -o $@

$(BUILD)/interpose/libload.a: $(MM_LOAD_O)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/lib/mmcicc: $(BUILD)/interpose/compile/cicc.o
$(BUILD)/lib/mmptxas: $(BUILD)/interpose/compile/ptxas.o
$(BUILD)/lib/mmlink: $(BUILD)/interpose/compile/nvlink.o
# A section with the device library's checksum: sccache knows compilers by their contents, and must not take objects of another mm's.
$(MM_SHIMS): $(BUILD)/interpose/compile/devlink.o $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a $(MM_LIBRARIES)
	@mkdir -p $(@D)
	$(CC) $(filter %.o,$^) $(filter %/libload.a,$^) -o $@.made
	cat $(sort $(MM_LIBRARIES)) | cksum > $@.identity
	objcopy --add-section .mm_device=$@.identity $@.made $@
	rm -f $@.made $@.identity

$(BUILD)/lib/mmunyield: interpose/compile/mmunyield.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $< -o $@

$(addprefix $(BUILD)/lib/,mmnvcc mmview mmdevice mmfatbinary): $(BUILD)/lib/%: interpose/compile/% mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@
	chmod 755 $@

# In a folder of its own, which is all that mmnvcc adds to where headers are looked for.
$(BUILD)/lib/include/mm.h: include/mm.h
	@mkdir -p $(@D)
	install -m 644 $< $@

$(BUILD)/lib/device/link_stub.h: interpose/compile/link_stub.h mmconfig.h
	@mkdir -p $(@D)
	sed 's/_v1/_v$(MM_ABI)/g' $< > $@

$(BUILD)/lib/toolkit/mm-view: $(BUILD)/lib/mmview interpose/compile/build.mk | $(MM_COMPILE_TIME)
	rm -rf $(@D)
	$(BUILD)/lib/mmview "$$(cd $(BUILD)/lib && pwd -P)" "$$(cd $(CUDA_HOME)/bin && pwd -P)" "$(abspath $(@D))"

# Links: make looks at the time of what they lead to.
$(BUILD)/bin/mmnvcc $(BUILD)/lib/path/nvcc &: $(BUILD)/lib/mmnvcc | $(MM_COMPILE_TIME) $(BUILD)/lib/toolkit/mm-view
	mkdir -p $(BUILD)/bin $(BUILD)/lib/path
	ln -sfn ../lib/mmnvcc $(BUILD)/bin/mmnvcc
	ln -sfn ../mmnvcc $(BUILD)/lib/path/nvcc

# mmnvcc by the name of another allocator.
MM_SIBLING_COMMANDS := $(MM_SIBLINGS:%=$(BUILD)/bin/mmnvcc-%)
allocators: $(MM_SIBLING_COMMANDS)
$(MM_SIBLING_COMMANDS): | $(BUILD)/bin/mmnvcc
	ln -sfn ../lib/mmnvcc $@

# Those that make allocators has built are installed, too.
MM_SIBLINGS_BUILT = $(patsubst $(BUILD)/lib/allocators/%/linked,%,$(wildcard $(BUILD)/lib/allocators/*/linked))
install-compile-time: $(BUILD)/bin/mmnvcc
	install -d $(addprefix "$(DESTDIR)$(PREFIX)"/,bin include lib/mm/ptx lib/mm/device lib/mm/path lib/mm/include)
	install -m 755 $(addprefix $(BUILD)/lib/,mmnvcc mmview mmdevice mmfatbinary mmunyield) $(MM_SHIMS) "$(DESTDIR)$(MMLIBDIR)"
	install -m 644 $(addprefix $(BUILD)/lib/,devicelib.c mmconfig.h) "$(DESTDIR)$(MMLIBDIR)"
	install -m 644 include/mm.h "$(DESTDIR)$(MMLIBDIR)/include"
	ln -sfn ../lib/mm/include/mm.h "$(DESTDIR)$(PREFIX)/include/mm.h"
	install -m 644 $(MM_LIBRARIES) $(addprefix $(BUILD)/lib/device/,link_stub.h driver.fatbin release) "$(DESTDIR)$(MMLIBDIR)/device"
	rm -f "$(DESTDIR)$(MMLIBDIR)"/ptx/mm_*.ptx
	install -m 644 $(MM_PTX) "$(DESTDIR)$(MMLIBDIR)/ptx"
	ln -sfn ../lib/mm/mmnvcc "$(DESTDIR)$(PREFIX)/bin/mmnvcc"
	ln -sfn ../mmnvcc "$(DESTDIR)$(MMLIBDIR)/path/nvcc"
	rm -rf "$(DESTDIR)$(MMLIBDIR)/allocators" && rm -f $(MM_SIBLINGS:%="$(DESTDIR)$(PREFIX)/bin/mmnvcc-%")
	$(foreach n,$(MM_SIBLINGS_BUILT),install -d "$(DESTDIR)$(MMLIBDIR)/allocators/$n" && install -m 644 $(BUILD)/lib/allocators/$n/* "$(DESTDIR)$(MMLIBDIR)/allocators/$n" && \
	    ln -sfn ../lib/mm/mmnvcc "$(DESTDIR)$(PREFIX)/bin/mmnvcc-$n" &&) :
	rm -rf "$(DESTDIR)$(MMLIBDIR)/toolkit"
	$(BUILD)/lib/mmview "$(MMLIBDIR)" "$$(cd $(CUDA_HOME)/bin && pwd -P)" "$(DESTDIR)$(MMLIBDIR)/toolkit"

uninstall-compile-time:
	rm -f "$(DESTDIR)$(PREFIX)/bin/mmnvcc" $(MM_SIBLINGS:%="$(DESTDIR)$(PREFIX)/bin/mmnvcc-%") "$(DESTDIR)$(PREFIX)/include/mm.h"
	rm -f $(addprefix "$(DESTDIR)$(MMLIBDIR)"/,mmnvcc mmview mmdevice mmfatbinary mmunyield devicelib.c mmconfig.h mmcicc mmptxas mmlink)
	rm -rf $(addprefix "$(DESTDIR)$(MMLIBDIR)"/,toolkit ptx device path include allocators)
	rmdir "$(DESTDIR)$(MMLIBDIR)" 2> /dev/null || :
