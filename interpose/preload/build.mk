# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run time: libmm.so.1 (the hooks and the host side of the heap), mmhook.o, and libmm.so, the linker script by
# which -lmm brings mmhook.o into a link. mmhook.o holds the absolute path of its folder, so it is made
# twice: for the tree, and by `make install` in place: as root it leaves nothing in $(BUILD).
MMLIBDIR_TREE := $(abspath $(BUILD)/lib)
MMLIBDIR_DEST := $(abspath $(PREFIX))/lib/mm

RUN_TIME_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard interpose/preload/*.c))

.PHONY: run-time install-run-time uninstall-run-time
all: run-time
run-time: $(BUILD)/lib/libmm.so.1 $(BUILD)/lib/mmhook.o $(addprefix $(BUILD)/lib/,$(MM_LINK_FILES))

$(RUN_TIME_OBJS): $(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_RUN_TIME) -c $< -o $@

# The fatbin in mm24.a; of another allocator, for mmrun --allocator.
define MM_LINKED
$1: $2
	ar p $$< >$$@.o
	objcopy -O binary --only-section=__nv_relfatbin $$@.o $$@
	rm -f $$@.o
endef
$(eval $(call MM_LINKED,$(BUILD)/device/linked,$(BUILD)/lib/device/mm24.a))
$(foreach n,$(MM_SIBLINGS),$(eval $(call MM_LINKED,$(BUILD)/lib/allocators/$n/linked,$(BUILD)/lib/allocators/$n/mm24.a)))
allocators: $(MM_SIBLINGS:%=$(BUILD)/lib/allocators/%/linked)
$(BUILD)/obj/interpose/preload/link.o: $(BUILD)/device/linked
$(BUILD)/obj/interpose/preload/link.o: CFLAGS_RUN_TIME += -DMM_LINKED='"$(BUILD)/device/linked"'

# -Bsymbolic: our own references to exported names are ours. nodelete: the driver may hold our addresses.
RUN_TIME_LINK = -shared -Wl,-soname,libmm.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro \
    -Wl,--version-script=$(BUILD)/obj/exports.map
$(BUILD)/lib/libmm.so.1: $(RUN_TIME_OBJS) $(LOAD_OBJS) $(HOST_OBJS) $(BUILD)/obj/exports.map
	@mkdir -p $(@D)
	$(CC) $(RUN_TIME_LINK) -o $@ $(filter %.o,$^) $(LOAD_LIBS) -ldl -lpthread

$(BUILD)/obj/exports.map: interpose/preload/exports.h interpose/preload/names.h
	@mkdir -p $(@D)
	$(CC) -E -P -x c -I. $< -o $@

# $(1): folder of libmm.so.1 at run time; $(2): the file to make
MMHOOK_CC = $(CC) $(CFLAGS_MM) -fPIC -fvisibility=hidden -fno-stack-protector -DMM_LIBDIR='"$(1)"' \
    -c interpose/preload/program/mmhook.c -o $(2)
# A linker script: linkers look for the files that it names next to it or, before binutils 2.36, in the -L folders, so that a copy of mm links its own files.
MMLD = printf '/* GNU ld script */\nINPUT(%s)\n' '$(1)' >$@

$(BUILD)/lib/mmhook.o: interpose/preload/program/mmhook.c
	@mkdir -p $(@D)
	$(call MMHOOK_CC,$(MMLIBDIR_TREE),$@) -MMD -MP

# AS_NEEDED(-ldl): before glibc 2.34 dlopen lives there.
$(BUILD)/lib/libmm.so: interpose/preload/build.mk
	@mkdir -p $(@D)
	$(call MMLD,mmhook.o libmmshared.a AS_NEEDED(-ldl))

# libmm.so takes from it what shared libraries need.
$(BUILD)/lib/libmmshared.a: interpose/preload/program/shared.c interpose/preload/program/refer.h
	@mkdir -p $(@D) $(BUILD)/obj
	$(CC) $(CFLAGS_MM) -fPIC -c $< -o $(BUILD)/obj/shared.o
	rm -f $@ && ar rcs $@ $(BUILD)/obj/shared.o

# -lmm under -static: a warning.
$(BUILD)/lib/libmm.a: interpose/preload/build.mk
	@mkdir -p $(@D)
	$(call MMLD,mmstatic.o)
$(BUILD)/lib/mmstatic.o: interpose/preload/program/static.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -fPIC -c $< -o $@

install: install-run-time
install-run-time: run-time
	install -d $(DESTDIR)$(MMLIBDIR_DEST)
	install -m 755 $(BUILD)/lib/libmm.so.1 $(DESTDIR)$(MMLIBDIR_DEST)/
	$(call MMHOOK_CC,$(MMLIBDIR_DEST),$(DESTDIR)$(MMLIBDIR_DEST)/mmhook.o)
	chmod 644 $(DESTDIR)$(MMLIBDIR_DEST)/mmhook.o
	install -m 644 $(addprefix $(BUILD)/lib/,$(MM_LINK_FILES)) $(DESTDIR)$(MMLIBDIR_DEST)/

uninstall: uninstall-run-time
uninstall-run-time:
	rm -f $(addprefix $(DESTDIR)$(MMLIBDIR_DEST)/,libmm.so.1 mmhook.o $(MM_LINK_FILES))
	rmdir $(DESTDIR)$(MMLIBDIR_DEST) 2>/dev/null || :

-include $(RUN_TIME_OBJS:.o=.d) $(BUILD)/lib/mmhook.d
