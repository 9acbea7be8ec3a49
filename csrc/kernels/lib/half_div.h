// half_div.h — quotients of f16 and bf16 tensors, rounded to integers as in ATen: each step of the
// computation is rounded to the half type, so 2.9999 becomes 3 before it is truncated. Relies on
// promotion and iteration. A divisor that is one number divides in f32, as other types do
// (op/binary.c).
#ifndef ET_HALF_DIV_H
#define ET_HALF_DIV_H

#include "runtime/et.h"

// True if arguments 0 and 1 are tensors that promote to a half, and the divisor does not have
// exactly one element.
bool eti_is_half_div(et_value *const *args);

// Divides argument 0 by argument 1, floored or truncated, into the output at argument i_out.
et_status eti_half_div_run(et_kernel_ctx *ctx, et_value *const *args, size_t i_out, bool floors);

#endif  // ET_HALF_DIV_H
