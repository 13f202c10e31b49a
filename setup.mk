# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds the toolkit, installs what the machine lacks, and checks the options. All of this happens before the first rule, so that
# a wrong value gives one line and nothing is half built.

mm_quote = '$(subst ','\'',$1)'
mm_goals := $(or $(MAKECMDGOALS),all)
# The purposes (of tools/setup.sh) that the goals need on this machine. check-gpu is left out: it runs suites that were built on another machine.
mm_needs := $(sort $(if $(filter setup,$(mm_goals)),aarch64 build builds check fuzz install lint model packages plot root) \
	$(if $(filter allocators bench deb demo gpu-hooks wheel,$(mm_goals)),build) \
	$(if $(filter-out check-gpu,$(filter check check-% build-gpu-tests faults fit-mutants fuzz fuzz-fit fuzz-load hook-mutants load-mutants matrix stress stress-%,$(mm_goals))),build check) \
	$(if $(filter mutants,$(mm_goals)),check) \
	$(if $(filter check check-matrix fuzz fuzz-load fuzz-fit matrix stress-mutants,$(mm_goals)),fuzz) \
	$(if $(filter check check-aarch64,$(mm_goals)),aarch64) \
	$(if $(filter check check-install,$(mm_goals)),install) \
	$(if $(filter check check-packages% deb wheel,$(mm_goals)),packages) \
	$(if $(filter check-packages-root,$(mm_goals)),root) \
	$(if $(filter check check-builds,$(mm_goals)),builds) \
	$(if $(filter lint,$(mm_goals)),lint) \
	$(if $(filter check-plot,$(mm_goals)),plot) \
	$(if $(filter model,$(mm_goals)),model))
# make -n, -q and -t must not install anything.
mm_dry := $(strip $(foreach f,n q t,$(findstring $f,$(filter-out --%,$(firstword -$(MAKEFLAGS))))))

ifneq ($(mm_needs),)
ifeq ($(mm_dry),)
# The redirections swap stdout and stderr: progress of setup.sh appears at once, and its error message becomes make's own.
mm_said := $(shell CUDA_HOME=$(call mm_quote,$(CUDA_HOME)) tools/setup.sh $(mm_needs) 3>&1 1>&2 2>&3)
ifneq ($(.SHELLSTATUS),0)
$(error $(mm_said))
endif
endif
endif

# Without ARCHS, make demo builds for the GPUs of this machine, or for one architecture if there is none.
ifeq ($(mm_goals) $(origin ARCHS),demo file)
ARCHS := $(or $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
	sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sort -un),$(firstword $(ARCHS)))
endif

# make install uses the architectures and the toolkit of the build, because sudo passes on neither ARCHS nor CUDA_HOME nor PATH.
ifeq ($(patsubst install%,install,$(mm_goals)) $(origin ARCHS),install file)
ARCHS := $(or $(shell cat $(BUILD)/archs 2>/dev/null),$(ARCHS))
endif

# make allocators adds to what was built.
ifeq ($(mm_goals) $(origin ARCHS),allocators file)
ARCHS := $(or $(shell cat $(BUILD)/archs 2>/dev/null),$(ARCHS))
endif

ifneq ($(filter-out clean distclean dist lint,$(mm_goals)),)
ifeq ($(CUDA_HOME),)
override CUDA_HOME := $(if $(filter install%,$(mm_goals)),$(shell \
	home=$$(sed -n '2s|/bin$$||p' $(BUILD)/lib/toolkit/mm-view 2>/dev/null) && [ -x "$$home/bin/nvcc" ] && echo "$$home"))
endif
ifeq ($(CUDA_HOME),)
override CUDA_HOME := $(shell tools/setup.sh --cuda-home)
endif

# Without a toolkit, check-gpu and uninstall still work: they need only an earlier build.
mm_said := $(if $(CUDA_HOME)$(filter-out check-gpu uninstall,$(mm_goals)),$(shell tools/check-options.sh \
	$(foreach v,CURDIR CUDA_HOME ARCHS CC PREFIX DESTDIR,$(call mm_quote,$v=$($v))) 2>&1))
ifneq ($(mm_said),)
$(error $(mm_said))
endif
endif

.DEFAULT_GOAL := all
.PHONY: setup
setup:
	@:
