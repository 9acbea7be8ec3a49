// special_float.inc.h — the f32 and the f64 loop of a special function, part of eltwise.body.h.
// Parameters, undefined at the end: LOOP_NAME, and SPECIAL(x, wide) of special_functions.h.
#define T float
#define SUFFIX f32
#define WIDE false
#include "kernels/micro/eltwise/eltwise_special.body.h"
#undef T
#undef SUFFIX
#undef WIDE
#define T double
#define SUFFIX f64
#define WIDE true
#include "kernels/micro/eltwise/eltwise_special.body.h"
#undef T
#undef SUFFIX
#undef WIDE
#undef LOOP_NAME
#undef SPECIAL
