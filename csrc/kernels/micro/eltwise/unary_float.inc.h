// unary_float.inc.h — the f32 and the f64 loop of a function of one float, part of eltwise.body.h.
// Parameters, undefined at the end: LOOP_NAME, LOOP_EXPR(x), and LOOP_CHEAP where copying operands
// would cost more than computing them as vectors saves.
#define LOOP_TYPES ET_TYPES_FLOAT
#ifdef LOOP_CHEAP
#define LOOP_NO_TABLE
#include "kernels/loops/unary_loop.inc.h"
#else
#include "kernels/loops/unary_vectors.inc.h"
#endif
#undef LOOP_CHEAP
