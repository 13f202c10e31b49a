# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mm: build, test, install. Each directory has its own .mk file; CONTRIBUTING.md describes the targets.
#
# Options (make rejects a wrong value in one line, before it builds anything):
#   CUDA_HOME  the CUDA toolkit (default: the one of the nvcc in PATH, else /usr/local/cuda, else one fetched into build/;
#              for make install: the one that mm was built with)
#   ARCHS      GPU architectures to build device code for (for make install: those that mm was built for)
#   CC         the C compiler
#   PREFIX     where `make install` puts files; DESTDIR is prepended to it

BUILD := build

CUDA_HOME ?=
ARCHS     ?= 75 80 86 87 88 89 90 100 103 110 120 121
CC        ?= cc
PREFIX    ?= /usr/local
DESTDIR   ?=

.PHONY: all install uninstall check check-gpu demo lint clean distclean
include setup.mk

CFLAGS_MM := -std=c11 -O2 -g -Wall -Wextra -Werror -Wc++-compat -I.
NVCC      = $(CUDA_HOME)/bin/nvcc
MM_VERSION := $(shell awk '$$2 == "MM_VERSION" {gsub(/"/, "", $$3); print $$3}' mmconfig.h)
MM_ABI     := $(shell awk '$$2 == "MM_ABI_VERSION" {print $$3}' mmconfig.h)
# Substituted into scripts, documents and package files.
MM_CUDA_MIN := $(shell awk '$$2 == "MM_TOOLKIT_MIN" {gsub(/"/, "", $$3); print $$3}' mmconfig.h)
# The default first.
MM_ALLOCATOR_NAMES := $(shell awk -F'"' '/^ +X."/ {print $$2}' mmconfig.h)
MM_SUBST   := sed 's/@VERSION@/$(MM_VERSION)/g; s/@ABI@/$(MM_ABI)/g; s/@CUDA_MIN@/$(MM_CUDA_MIN)/g; s/@ALLOCATORS@/$(MM_ALLOCATOR_NAMES)/g'

all:

# Runs all suites in an inner make and repeats its failures at the end.
ifeq ($(mm_goals)$(CHECK_IS_INSIDE),check)
check:
	@CHECK_IS_INSIDE=1 tests/check.sh $(MAKE) --no-print-directory check
else
include $(wildcard runtime/*.mk runtime/host/*.mk interpose/*/*.mk tools/*.mk packaging/*.mk demo/*.mk tests/*.mk tests/*/*.mk)
endif

# clean keeps a fetched toolkit; distclean removes it, too.
clean:
	rm -rf $(filter-out $(BUILD)/cuda,$(wildcard $(BUILD)/*))
distclean:
	rm -rf $(BUILD)
