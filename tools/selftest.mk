# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmdoctor --selftest: a script, and a program that mmnvcc compiles for each of ARCHS and as PTX, so that it runs on a machine
# without a compiler.

SELFTEST_SRC := tools/selftest
SELFTEST_OBJS := $(BUILD)/obj/$(SELFTEST_SRC)/all.o $(BUILD)/obj/$(SELFTEST_SRC)/main.o
SELFTEST := $(addprefix $(BUILD)/lib/selftest/,mmselftest selftest)

.PHONY: install-selftest uninstall-selftest
all: $(SELFTEST)
$(BUILD)/bin/mmdoctor: | $(SELFTEST)

$(BUILD)/obj/$(SELFTEST_SRC)/%.o: $(SELFTEST_SRC)/%.c $(SELFTEST_SRC)/parts.h tools/kernels.h include/mm.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -Iinclude -isystem $(CUDA_HOME)/include -c $< -o $@

$(BUILD)/obj/$(SELFTEST_SRC)/%.o: $(SELFTEST_SRC)/%.cu $(wildcard $(SELFTEST_SRC)/*.cu) $(SELFTEST_SRC)/parts.h tools/kernels.h include/mm.h $(MM_PTX) $(MM_LIBRARIES) | $(BUILD)/bin/mmnvcc run-time
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(BENCH_FLAGS) -c $< -o $@

$(BUILD)/lib/selftest/mmselftest: $(SELFTEST_OBJS) $(BUILD)/lib/libmm.so.1 | $(BUILD)/bin/mmnvcc run-time
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(BENCH_FLAGS) $(SELFTEST_OBJS) -o $@

$(BUILD)/lib/selftest/selftest: $(SELFTEST_SRC)/selftest mmconfig.h
	@mkdir -p $(@D)
	$(MM_SUBST) $< > $@
	chmod 755 $@

install: install-selftest
install-selftest: $(SELFTEST)
	install -d "$(DESTDIR)$(MMLIBDIR)/selftest"
	install -m 755 $(SELFTEST) "$(DESTDIR)$(MMLIBDIR)/selftest/"

uninstall: uninstall-selftest
uninstall-selftest:
	rm -rf "$(DESTDIR)$(MMLIBDIR)/selftest"
	rmdir "$(DESTDIR)$(MMLIBDIR)" 2>/dev/null || :
