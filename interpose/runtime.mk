# Run time: libmm.so.1 (the hooks and the host side of the heap), mmhook.o, and libmm.so, the linker script by
# which -lmm brings mmhook.o into a link. Both hold the absolute path of their folder, so they are made
# twice: for the tree, and for what `make install` copies.
MMLIBDIR_TREE := $(abspath $(BUILD)/lib)
MMLIBDIR_DEST := $(abspath $(PREFIX))/lib/mm
INSTALLED     := $(BUILD)/installed

RUN_TIME_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard interpose/runtime/*.c))

.PHONY: run-time install-run-time uninstall-run-time FORCE
all: run-time
run-time: $(BUILD)/lib/libmm.so.1 $(BUILD)/lib/mmhook.o $(BUILD)/lib/libmm.so

$(RUN_TIME_OBJS): $(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_RUN_TIME) -c $< -o $@

# -Bsymbolic: our own references to exported names are ours. nodelete: the driver may hold our addresses.
$(BUILD)/lib/libmm.so.1: $(RUN_TIME_OBJS) $(HOST_OBJS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libmm.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,relro \
	    -o $@ $^ -ldl -lpthread

# $(1): folder of libmm.so.1 at run time
MMHOOK_CC = $(CC) $(CFLAGS_MM) -fPIC -fvisibility=hidden -fno-stack-protector -MMD -MP -MT $@ \
    -DMM_LIBDIR='"$(1)"' -c $< -o $@
# AS_NEEDED(-ldl): before glibc 2.34 dlopen lives there.
MMLD = printf '/* GNU ld script */\nINPUT(%s/mmhook.o AS_NEEDED(-ldl))\n' '$(1)' >$@

$(BUILD)/lib/mmhook.o: interpose/hook/mmhook.c
	@mkdir -p $(@D)
	$(call MMHOOK_CC,$(MMLIBDIR_TREE))

$(BUILD)/lib/libmm.so: interpose/runtime.mk
	@mkdir -p $(@D)
	$(call MMLD,$(MMLIBDIR_TREE))

$(INSTALLED)/mmhook.o: interpose/hook/mmhook.c FORCE
	@mkdir -p $(@D)
	$(call MMHOOK_CC,$(MMLIBDIR_DEST))

$(INSTALLED)/libmm.so: FORCE
	@mkdir -p $(@D)
	$(call MMLD,$(MMLIBDIR_DEST))

install: install-run-time
install-run-time: run-time $(INSTALLED)/mmhook.o $(INSTALLED)/libmm.so
	install -d $(DESTDIR)$(MMLIBDIR_DEST)
	install -m 755 $(BUILD)/lib/libmm.so.1 $(DESTDIR)$(MMLIBDIR_DEST)/
	install -m 644 $(INSTALLED)/mmhook.o $(INSTALLED)/libmm.so $(DESTDIR)$(MMLIBDIR_DEST)/

uninstall: uninstall-run-time
uninstall-run-time:
	rm -f $(addprefix $(DESTDIR)$(MMLIBDIR_DEST)/,libmm.so.1 mmhook.o libmm.so)
	-rmdir $(DESTDIR)$(MMLIBDIR_DEST) 2>/dev/null

-include $(RUN_TIME_OBJS:.o=.d) $(BUILD)/lib/mmhook.d $(INSTALLED)/mmhook.d
