// binary_float.inc.h — the f32 and the f64 loop of loops/binary.inc.h. Parameters: LOOP_NAME,
// LOOP_EXPR.
#define LOOP_TYPES ET_TYPES_FLOAT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
