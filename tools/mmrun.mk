# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmrun, the command that preloads libmm.so.1.
.PHONY: install-mmrun uninstall-mmrun
all: $(BUILD)/bin/mmrun

$(BUILD)/bin/mmrun: tools/mmrun mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@
	chmod 755 $@

install: install-mmrun
install-mmrun: $(BUILD)/bin/mmrun
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $< $(DESTDIR)$(PREFIX)/bin/

uninstall: uninstall-mmrun
uninstall-mmrun:
	rm -f $(DESTDIR)$(PREFIX)/bin/mmrun
