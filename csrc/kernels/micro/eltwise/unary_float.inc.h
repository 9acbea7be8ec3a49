// unary_float.inc.h — the f32 and the f64 loop of loops/unary_loop.inc.h. Parameters: LOOP_NAME,
// LOOP_EXPR.
#define LOOP_TYPES ET_TYPES_FLOAT
#define LOOP_NO_TABLE
#define LOOP_PACKS
#include "kernels/loops/unary_loop.inc.h"
#undef LOOP_PACKS
