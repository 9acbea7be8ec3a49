// ops.h — prototypes of every operator in ops.inc.h, so that the file that defines one is checked
// against the table's signature. Knows the names and nothing else.
#ifndef ET_OPS_H
#define ET_OPS_H

#include "runtime/et.h"

#define ET_OP(name, run, n_args, in, out, ...) \
  et_status run(et_kernel_ctx *ctx, et_value *const *args);
#define ET_OP_PREPARED(name, run, prepare, n_args, in, out, ...) \
  et_status run(et_kernel_ctx *ctx, et_value *const *args);      \
  et_status prepare(et_prepare_ctx *ctx, et_value *const *args);
#include "kernels/ops.inc.h"
bool eti_conv_absorb(const et_call *call, const et_call *next);  // of aten::convolution
#undef ET_OP
#undef ET_OP_PREPARED

#endif  // ET_OPS_H
