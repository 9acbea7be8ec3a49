// eltwise_quotient.inc.h — the four divisions of eltwise_int.body.h for some types. Parameters, the
// last two undefined again at the end: DIV_TRUNC, DIV_FLOOR, FMOD, REMAINDER (of a, b),
// LOOP_NAME_OF(name), QUOTIENT_TYPES, QUOTIENT.
#define LOOP_NAME LOOP_NAME_OF(div_trunc)
#define LOOP_EXPR(a, b) DIV_TRUNC(a, b)
#define LOOP_TYPES QUOTIENT_TYPES
#include "kernels/loops/binary_vectors.inc.h"
#define LOOP_NAME LOOP_NAME_OF(div_floor)
#define LOOP_EXPR(a, b) DIV_FLOOR(a, b)
#define LOOP_TYPES QUOTIENT_TYPES
#include "kernels/loops/binary_vectors.inc.h"
#define LOOP_NAME LOOP_NAME_OF(fmod)
#define LOOP_EXPR(a, b) FMOD(a, b)
#define LOOP_TYPES QUOTIENT_TYPES
#include "kernels/loops/binary_vectors.inc.h"
#define LOOP_NAME LOOP_NAME_OF(remainder)
#define LOOP_EXPR(a, b) REMAINDER(a, b)
#define LOOP_TYPES QUOTIENT_TYPES
#include "kernels/loops/binary_vectors.inc.h"
#undef QUOTIENT_TYPES
#undef QUOTIENT
