// binary_float.inc.h — the f32 and the f64 loop of loops/binary_loop.inc.h. Parameters: LOOP_NAME,
// LOOP_EXPR, and LOOP_CHEAP where packing operands would cost more than computing them as vectors
// saves.
#define LOOP_TYPES ET_TYPES_FLOAT
#define LOOP_NO_TABLE
#ifndef LOOP_CHEAP
#define LOOP_PACKS
#endif
#include "kernels/loops/binary_loop.inc.h"
#undef LOOP_CHEAP
#undef LOOP_PACKS
