// unary_f32.inc.h — one f32 loop of loops/unary.inc.h. Parameters: LOOP_NAME, LOOP_EXPR.
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NO_TABLE
#include "kernels/loops/unary.inc.h"
