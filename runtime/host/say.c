/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void mm_host_say(const char *format, ...) {
    int saved = errno;
    char line[640] = "mm: ";
    const size_t prefix = 4;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + prefix, sizeof line - prefix - 1, format, args);
    va_end(args);
    if (n < 0) n = 0;
    size_t length = prefix + (size_t)n;
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* nobody is left to be told */
    errno = saved;
}

struct mm_host_size_text mm_host_size(uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct mm_host_size_text t;
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(t.text, sizeof t.text, "%u bytes", (unsigned)bytes);
    else
        snprintf(t.text, sizeof t.text, "%.1f %s", value, units[unit]);
    return t;
}
