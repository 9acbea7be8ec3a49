// binary_vectors.inc.h — loops of two inputs that take many instructions for each element.
// Parameters, undefined at the end: LOOP_NAME, LOOP_TYPES and LOOP_EXPR(a, b) of binary_loop.inc.h.
#define LOOP_BODY "kernels/loops/binary_vectors.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY
#undef LOOP_NAME
#undef LOOP_TYPES
#undef LOOP_EXPR
