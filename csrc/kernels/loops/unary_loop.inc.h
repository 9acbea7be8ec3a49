// unary_loop.inc.h — loops of one input. Parameters, all undefined again at the end:
//   LOOP_NAME, LOOP_TYPES   name##_f32 … and the table name##_loops[ET_DTYPE_COUNT]
//   LOOP_EXPR(x)            of CTYPE x; k holds the first three parameters, as CTYPE elements
//   LOOP_OUT                element type of the output (default CTYPE)
//   LOOP_NO_TABLE           leave the table out
#ifndef LOOP_OUT
#define LOOP_OUT CTYPE
#endif
#define LOOP_BODY "kernels/loops/unary_loop.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY
#ifndef LOOP_NO_TABLE
#define LOOP_BODY "kernels/loops/row.body.h"
static const eti_loop ETI_LOOP_NAME(LOOP_NAME, loops)[ET_DTYPE_COUNT] = {
#include "kernels/loops/each_dtype.inc.h"
};
#undef LOOP_BODY
#endif
#undef LOOP_NAME
#undef LOOP_TYPES
#undef LOOP_EXPR
#undef LOOP_OUT
#undef LOOP_NO_TABLE
