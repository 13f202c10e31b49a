/* The only place that knows which compiler it is. */
#ifndef MM_PORT_H
#define MM_PORT_H
#include <stddef.h>
#include <stdint.h>
#endif
