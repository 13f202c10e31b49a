/* Included before everything else (-include): a heap whose classes have 16 stripes, so that all schedules of two
 * callers that write them can be run. */
#ifndef MM_UNIT_FEW_STRIPES_H
#define MM_UNIT_FEW_STRIPES_H
#include "mmconfig.h"
#undef MM_STRIPES_SHIFT
#define MM_STRIPES_SHIFT 4
#endif
