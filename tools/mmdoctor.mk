# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmdoctor; mmimages, with which it reads files; and mmenvironment, with which it checks environment variables.
.PHONY: install-mmdoctor uninstall-mmdoctor
all: $(BUILD)/bin/mmdoctor

$(BUILD)/lib/mmimages: tools/mmdoctor/images.c $(LOAD_OBJS) $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $^ -o $@ $(LOAD_LIBS)

# Made from objects of libmm.so.1, so that both apply the same rules to the environment.
$(BUILD)/lib/mmenvironment: tools/mmdoctor/environment.c $(addprefix $(BUILD)/obj/runtime/host/,env.o say.o fit/names.o)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $^ -o $@ -lpthread

$(BUILD)/lib/mmdoctor: tools/mmdoctor/mmdoctor tools/toolkit.sh mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@
	chmod 755 $@

$(BUILD)/bin/mmdoctor: $(BUILD)/lib/mmdoctor | $(BUILD)/lib/mmimages $(BUILD)/lib/mmenvironment
	@mkdir -p $(@D)
	ln -sfn ../lib/mmdoctor $@

install: install-mmdoctor
install-mmdoctor: $(BUILD)/bin/mmdoctor
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(MMLIBDIR)"
	install -m 755 $(addprefix $(BUILD)/lib/,mmdoctor mmimages mmenvironment) "$(DESTDIR)$(MMLIBDIR)"
	ln -sfn ../lib/mm/mmdoctor "$(DESTDIR)$(PREFIX)/bin/mmdoctor"

uninstall: uninstall-mmdoctor
uninstall-mmdoctor:
	rm -f "$(DESTDIR)$(PREFIX)/bin/mmdoctor" $(addprefix "$(DESTDIR)$(MMLIBDIR)"/,mmdoctor mmimages mmenvironment)
	rmdir "$(DESTDIR)$(MMLIBDIR)" 2>/dev/null || :
