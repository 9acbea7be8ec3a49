// compare.c — the six comparisons of a tensor with a tensor or a number. They compare in the
// promoted type and give bool; an output of another type receives 0 or 1.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#define LOOP_NAME eq
#define LOOP_EXPR(a, b) (a == b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME ne
#define LOOP_EXPR(a, b) (a != b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME lt
#define LOOP_EXPR(a, b) (a < b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME le
#define LOOP_EXPR(a, b) (a <= b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME gt
#define LOOP_EXPR(a, b) (a > b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME ge
#define LOOP_EXPR(a, b) (a >= b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary_loop.inc.h"

ETI_BINARY_OPERATOR(eq, .rule = ETI_RULE_COMPARE, .loops = eq_loops)
ETI_BINARY_OPERATOR(ne, .rule = ETI_RULE_COMPARE, .loops = ne_loops)
ETI_BINARY_OPERATOR(lt, .rule = ETI_RULE_COMPARE, .loops = lt_loops)
ETI_BINARY_OPERATOR(le, .rule = ETI_RULE_COMPARE, .loops = le_loops)
ETI_BINARY_OPERATOR(gt, .rule = ETI_RULE_COMPARE, .loops = gt_loops)
ETI_BINARY_OPERATOR(ge, .rule = ETI_RULE_COMPARE, .loops = ge_loops)
