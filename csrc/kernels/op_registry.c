// op_registry.c — expands ops.inc.h into the const table et_ops_portable, and the table of scalar
// operators. Knows every operator's name and nothing else about it.
#include "kernels/dtype_sets.h"
#include "kernels/ops.h"
#include "runtime/et.h"

#define ET_OP(name_, run_, n_args_, in_, out_, ...) \
  {.name = name_,                                   \
   .run = run_,                                     \
   .n_args = n_args_,                               \
   .in_dtypes = in_,                                \
   .out_dtypes = out_,                              \
   __VA_ARGS__},
#define ET_OP_PREPARED(name_, run_, prepare_, n_args_, in_, out_, ...) \
  {.name = name_,                                                      \
   .run = run_,                                                        \
   .prepare = prepare_,                                                \
   .n_args = n_args_,                                                  \
   .in_dtypes = in_,                                                   \
   .out_dtypes = out_,                                                 \
   __VA_ARGS__},

static const et_op portable_ops[] = {
#include "kernels/ops.inc.h"
};
#undef ET_OP
#undef ET_OP_PREPARED

const et_op_table et_ops_portable = {
    .ops = portable_ops,
    .n_ops = sizeof portable_ops / sizeof portable_ops[0],
};
