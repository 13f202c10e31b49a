# mm: build, test, install. Options: CUDA_HOME, ARCHS, CC, PREFIX, DESTDIR (README.md).
# Each room has its own build.mk.

BUILD := build

CUDA_HOME ?= $(shell d=$$(command -v nvcc) && dirname "$$(dirname "$$d")")
ARCHS     ?= 75 80 86 89 90 100 120
CC        ?= cc
PREFIX    ?= /usr/local
DESTDIR   ?=

CFLAGS_MM := -std=c11 -O2 -g -Wall -Wextra -Werror -Wc++-compat -I.
NVCC      := $(CUDA_HOME)/bin/nvcc

.PHONY: all install uninstall check check-gpu demo clean
all:

include $(wildcard runtime/*.mk runtime/host/*.mk interpose/*.mk tools/*.mk tests/*.mk tests/*/*.mk)

clean:
	rm -rf $(BUILD)
