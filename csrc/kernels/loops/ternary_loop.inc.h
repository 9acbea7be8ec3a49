// ternary_loop.inc.h — loops of three inputs of one type, in two steps. Parameters, undefined again
// at the end: LOOP_NAME, LOOP_TYPES, LOOP_FIRST(a, b), and LOOP_SECOND(t, c) of its result t. (One
// expression with two uses of t would make the loop branch.)
#define LOOP_BODY "kernels/loops/ternary_loop.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY
#define LOOP_BODY "kernels/loops/row.body.h"
static const eti_loop ETI_LOOP_NAME(LOOP_NAME, loops)[ET_DTYPE_COUNT] = {
#include "kernels/loops/each_dtype.inc.h"
};
#undef LOOP_BODY
#undef LOOP_NAME
#undef LOOP_TYPES
#undef LOOP_FIRST
#undef LOOP_SECOND
