// compare.c — the six comparisons, of a tensor with a tensor or a number. They compare in the
// promoted type and give bool, which an output of any other type receives as 0 or 1.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#define LOOP_NAME eq
#define LOOP_EXPR(a, b) (a == b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME ne
#define LOOP_EXPR(a, b) (a != b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME lt
#define LOOP_EXPR(a, b) (a < b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME le
#define LOOP_EXPR(a, b) (a <= b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME gt
#define LOOP_EXPR(a, b) (a > b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME ge
#define LOOP_EXPR(a, b) (a >= b)
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/binary.inc.h"

#define COMPARE_LIST(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)

#define DESCRIBE(name)                       \
  static const eti_elementwise name##_op = { \
      .rule = ETI_RULE_COMPARE, .loops = name##_loops, .micro = ETI_NO_MICRO};
COMPARE_LIST(DESCRIBE)
#undef DESCRIBE
#define RUN(name)                                                  \
  et_status op_##name(et_kernel_ctx *ctx, et_value *const *args) { \
    return eti_binary_run(ctx, args, &name##_op, 2, NULL);         \
  }
COMPARE_LIST(RUN)
#undef RUN
#define PREPARE(name)                                                    \
  et_status prepare_##name(et_prepare_ctx *ctx, et_value *const *args) { \
    return eti_binary_prepare(ctx, args, &name##_op, 2, NULL);           \
  }
COMPARE_LIST(PREPARE)
#undef PREPARE
