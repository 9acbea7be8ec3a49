// binary_float.inc.h — the f32 and the f64 loop of a function of two floats, part of
// eltwise.body.h. Parameters, undefined at the end: LOOP_NAME, LOOP_EXPR(a, b), and LOOP_CHEAP
// where copying operands would cost more than computing them as vectors saves.
#define LOOP_TYPES ET_TYPES_FLOAT
#ifdef LOOP_CHEAP
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"
#else
#include "kernels/loops/binary_vectors.inc.h"
#endif
#undef LOOP_CHEAP
