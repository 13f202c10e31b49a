# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run time: libmm.so.1 (the hooks and the host side of the heap), mmhook.o, and libmm.so, the linker script by
# which -lmm brings mmhook.o into a link. Both hold the absolute path of their folder, so they are made
# twice: for the tree, and by `make install` in place: as root it leaves nothing in $(BUILD).
MMLIBDIR_TREE := $(abspath $(BUILD)/lib)
MMLIBDIR_DEST := $(abspath $(PREFIX))/lib/mm

RUN_TIME_SPLICE := $(addprefix interpose/splice/,counts.c fatbin.c line.c module.c splice.c text.c token.c)
RUN_TIME_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard interpose/runtime/*.c) $(RUN_TIME_SPLICE))

.PHONY: run-time install-run-time uninstall-run-time
all: run-time
run-time: $(BUILD)/lib/libmm.so.1 $(BUILD)/lib/mmhook.o $(BUILD)/lib/libmm.so $(BUILD)/lib/libmm.a

$(RUN_TIME_OBJS): $(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_RUN_TIME) -c $< -o $@

$(BUILD)/device/fragments: interpose/fragments.sh $(MM_PTX)
	interpose/fragments.sh $@ $(MM_PTX)
$(BUILD)/obj/interpose/runtime/jit.o: $(BUILD)/device/fragments
$(BUILD)/obj/interpose/runtime/jit.o: CFLAGS_RUN_TIME += -DMM_FRAGMENTS='"$(BUILD)/device/fragments"'
# The fatbin in mm24.a.
$(BUILD)/device/linked: $(BUILD)/lib/device/mm24.a
	ar p $< >$@.o
	objcopy -O binary --only-section=__nv_relfatbin $@.o $@
$(BUILD)/obj/interpose/runtime/nvjitlink.o: $(BUILD)/device/linked
$(BUILD)/obj/interpose/runtime/nvjitlink.o: CFLAGS_RUN_TIME += -DMM_LINKED='"$(BUILD)/device/linked"'

# -Bsymbolic: our own references to exported names are ours. nodelete: the driver may hold our addresses.
RUN_TIME_LINK = -shared -Wl,-soname,libmm.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro \
    -Wl,--version-script=$(BUILD)/obj/exports.map
$(BUILD)/lib/libmm.so.1: $(RUN_TIME_OBJS) $(HOST_OBJS) $(BUILD)/obj/exports.map
	@mkdir -p $(@D)
	$(CC) $(RUN_TIME_LINK) -o $@ $(filter %.o,$^) -ldl -lpthread

$(BUILD)/obj/exports.map: interpose/runtime/exports.h interpose/runtime/names.h
	@mkdir -p $(@D)
	$(CC) -E -P -x c -I. $< -o $@

# $(1): folder of libmm.so.1 at run time; $(2): the file to make
MMHOOK_CC = $(CC) $(CFLAGS_MM) -fPIC -fvisibility=hidden -fno-stack-protector -DMM_LIBDIR='"$(1)"' \
    -c interpose/hook/mmhook.c -o $(2)
# AS_NEEDED(-ldl): before glibc 2.34 dlopen lives there.
MMLD = printf '/* GNU ld script */\nINPUT(%s/mmhook.o %s/libmm.a AS_NEEDED(-ldl))\n' '$(1)' '$(1)' >$(2)

$(BUILD)/lib/mmhook.o: interpose/hook/mmhook.c
	@mkdir -p $(@D)
	$(call MMHOOK_CC,$(MMLIBDIR_TREE),$@) -MMD -MP

$(BUILD)/lib/libmm.so: interpose/runtime.mk
	@mkdir -p $(@D)
	$(call MMLD,$(MMLIBDIR_TREE),$@)

install: install-run-time
install-run-time: run-time
	install -d $(DESTDIR)$(MMLIBDIR_DEST)
	install -m 755 $(BUILD)/lib/libmm.so.1 $(DESTDIR)$(MMLIBDIR_DEST)/
	$(call MMHOOK_CC,$(MMLIBDIR_DEST),$(DESTDIR)$(MMLIBDIR_DEST)/mmhook.o)
	$(call MMLD,$(MMLIBDIR_DEST),$(DESTDIR)$(MMLIBDIR_DEST)/libmm.so)
	chmod 644 $(addprefix $(DESTDIR)$(MMLIBDIR_DEST)/,mmhook.o libmm.so)
	install -m 644 $(BUILD)/lib/libmm.a $(DESTDIR)$(MMLIBDIR_DEST)/

uninstall: uninstall-run-time
uninstall-run-time:
	rm -f $(addprefix $(DESTDIR)$(MMLIBDIR_DEST)/,libmm.so.1 mmhook.o libmm.so libmm.a)
	rmdir $(DESTDIR)$(MMLIBDIR_DEST) 2>/dev/null || :

-include $(RUN_TIME_OBJS:.o=.d) $(BUILD)/lib/mmhook.d
