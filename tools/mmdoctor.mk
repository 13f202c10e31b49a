# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmdoctor, and mmimages, by which it looks into files.
.PHONY: install-mmdoctor uninstall-mmdoctor
all: $(BUILD)/bin/mmdoctor

$(BUILD)/lib/mmimages: tools/mmdoctor/images.c $(BUILD)/interpose/shim.o $(BUILD)/interpose/libsplice.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $^ -o $@ -ldl

$(BUILD)/lib/mmdoctor: tools/mmdoctor/mmdoctor tools/toolkit.sh mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@
	chmod 755 $@

$(BUILD)/bin/mmdoctor: $(BUILD)/lib/mmdoctor | $(BUILD)/lib/mmimages
	@mkdir -p $(@D)
	ln -sfn ../lib/mmdoctor $@

install: install-mmdoctor
install-mmdoctor: $(BUILD)/bin/mmdoctor
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(MMLIBDIR)"
	install -m 755 $(BUILD)/lib/mmdoctor $(BUILD)/lib/mmimages "$(DESTDIR)$(MMLIBDIR)"
	ln -sfn ../lib/mm/mmdoctor "$(DESTDIR)$(PREFIX)/bin/mmdoctor"

uninstall: uninstall-mmdoctor
uninstall-mmdoctor:
	rm -f "$(DESTDIR)$(PREFIX)/bin/mmdoctor" $(addprefix "$(DESTDIR)$(MMLIBDIR)"/,mmdoctor mmimages)
	rmdir "$(DESTDIR)$(MMLIBDIR)" 2>/dev/null || :
