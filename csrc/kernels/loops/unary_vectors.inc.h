// unary_vectors.inc.h — loops of one input that take many instructions for each element.
// Parameters, undefined at the end: LOOP_NAME, LOOP_TYPES and LOOP_EXPR(x) of unary_loop.inc.h.
#define LOOP_BODY "kernels/loops/unary_vectors.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY
#undef LOOP_NAME
#undef LOOP_TYPES
#undef LOOP_EXPR
