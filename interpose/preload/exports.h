/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What libmm.so.1 exports, as a version script (preprocessed when mm is built). The node has no name: with a
 * version, dlsym would not replace the real one.
 */
#include "interpose/preload/names.h"

#define EXPORTED(symbol, base, version, stream) symbol;
#define EXPORTED_OWN(symbol) symbol;
/* clang-format off */
{
    global: dlsym; mm_dlsym_v1; mm_agreement; mm_pool_taken_v1; MM_HOOKED(EXPORTED) MM_OWN(EXPORTED_OWN)
    local: *;
};
