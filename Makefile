# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mm: build, test, install. Each room has its own .mk file; README.md says what the targets are for.
#
# Options (a wrong value is one line, nothing is built):
#   CUDA_HOME  the CUDA toolkit (default: the one nvcc is found in, /usr/local/cuda, or one fetched into build/;
#              of make install: the one that mm was built with)
#   ARCHS      GPU architectures to build device code for (of make install: those that mm was built for)
#   CC         the C compiler
#   PREFIX     where `make install` puts things; DESTDIR is put in front of it

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
# What scripts say of themselves.
MM_CUDA_MIN := $(shell awk '$$2 == "MM_TOOLKIT_MIN" {gsub(/"/, "", $$3); print $$3}' mmconfig.h)
MM_SUBST   := sed 's/@VERSION@/$(MM_VERSION)/g; s/@ABI@/$(MM_ABI)/g; s/@CUDA_MIN@/$(MM_CUDA_MIN)/g'

all:

# All suites, by a make whose failures are told once more at its end.
ifeq ($(mm_goals)$(CHECK_IS_INSIDE),check)
check:
	@CHECK_IS_INSIDE=1 tests/check.sh $(MAKE) --no-print-directory check
else
include $(wildcard runtime/*.mk runtime/host/*.mk interpose/*/*.mk tools/*.mk demo/*.mk tests/*.mk tests/*/*.mk)
endif

# A toolkit that was fetched stays; distclean takes it too.
clean:
	rm -rf $(filter-out $(BUILD)/cuda,$(wildcard $(BUILD)/*))
distclean:
	rm -rf $(BUILD)
