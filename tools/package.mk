# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Files of an installation that other tools use: manual pages, mm.pc, the CMake package, completion for bash; and the examples. make dist is
# the archive of the sources, with its checksum.
PACKAGE_SRC  := tools/package
PACKAGE_MAN  := $(patsubst %,$(BUILD)/%,$(wildcard man/*.1 man/*.7))
PACKAGE_CMAKE := $(addprefix $(BUILD)/package/,mmConfig.cmake mmConfigVersion.cmake)
# The first name is the completion file, the others are links to it.
PACKAGE_COMPLETED := mmnvcc mmrun mmbench mmdoctor
PACKAGE_EXAMPLES := $(wildcard examples/*.cu examples/*.py)
package_to = "$(DESTDIR)$(PREFIX)/$1"
COMPLETIONS := share/bash-completion/completions

.PHONY: install-package uninstall-package dist
all: $(PACKAGE_MAN) $(PACKAGE_CMAKE) $(BUILD)/package/mm.pc $(BUILD)/package/completion.sh

$(PACKAGE_MAN): $(BUILD)/man/%: man/% mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@

$(BUILD)/package/%: $(PACKAGE_SRC)/% mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@

install: install-package
install-package: $(PACKAGE_MAN) $(PACKAGE_CMAKE) $(BUILD)/package/mm.pc $(BUILD)/package/completion.sh
	install -d $(foreach d,share/man/man1 share/man/man7 share/doc/mm/examples lib/pkgconfig lib/cmake/mm $(COMPLETIONS),$(call package_to,$d))
	install -m 644 $(filter %.1,$(PACKAGE_MAN)) $(call package_to,share/man/man1)
	install -m 644 $(filter %.7,$(PACKAGE_MAN)) $(call package_to,share/man/man7)
	install -m 644 LICENSE $(PACKAGE_SRC)/NOTICES $(call package_to,share/doc/mm)
	install -m 644 $(PACKAGE_EXAMPLES) $(call package_to,share/doc/mm/examples)
	install -m 644 $(BUILD)/package/mm.pc $(call package_to,lib/pkgconfig)
	install -m 644 $(PACKAGE_CMAKE) $(call package_to,lib/cmake/mm)
	install -m 644 $(BUILD)/package/completion.sh $(call package_to,$(COMPLETIONS)/$(firstword $(PACKAGE_COMPLETED)))
	for name in $(wordlist 2,9,$(PACKAGE_COMPLETED)); do \
	    ln -sfn $(firstword $(PACKAGE_COMPLETED)) $(call package_to,$(COMPLETIONS)/$$name) || exit; done

uninstall: uninstall-package
uninstall-package:
	rm -f $(foreach f,$(notdir $(filter %.1,$(PACKAGE_MAN))),$(call package_to,share/man/man1/$f))
	rm -f $(foreach f,$(notdir $(filter %.7,$(PACKAGE_MAN))),$(call package_to,share/man/man7/$f))
	rm -f $(foreach f,$(PACKAGE_COMPLETED),$(call package_to,$(COMPLETIONS)/$f))
	rm -f $(foreach f,LICENSE NOTICES $(PACKAGE_EXAMPLES),$(call package_to,share/doc/mm/$f)) $(call package_to,lib/pkgconfig/mm.pc) $(foreach f,$(notdir $(PACKAGE_CMAKE)),$(call package_to,lib/cmake/mm/$f))
	rmdir $(foreach d,share/doc/mm/examples share/doc/mm,$(call package_to,$d)) $(call package_to,lib/cmake/mm) 2>/dev/null || :

# Archives the committed tree only, without other files of the folder.
dist:
	@git rev-parse -q --verify HEAD >/dev/null 2>&1 || { \
	    echo 'mm: make dist: "$(CURDIR)" is no git checkout; expected one, since the archive is of what is committed' >&2; exit 1; }
	@mkdir -p $(BUILD)
	git archive --prefix=mm-$(MM_VERSION)/ -o $(BUILD)/mm-$(MM_VERSION).tar.gz HEAD
	cd $(BUILD) && sha256sum mm-$(MM_VERSION).tar.gz >mm-$(MM_VERSION).tar.gz.sha256
