// half_div.h — quotients of f16 and bf16 tensors, rounded to integers as ATen rounds them: each
// step of the computation is rounded to the half type, so that 2.9999 is 3 before it is cut to an
// integer. Relies on promotion and iteration. A divisor that is one number divides in f32 instead,
// as other types do (op/binary.c).
#ifndef ET_HALF_DIV_H
#define ET_HALF_DIV_H

#include "runtime/et.h"

// Whether arguments 0 and 1 are tensors that promote to a half, and the divisor has other than one
// element.
bool eti_is_half_div(et_value *const *args);

// Argument 0 by argument 1, floored or cut towards zero, to the output in argument i_out.
et_status eti_half_div_run(et_kernel_ctx *ctx, et_value *const *args, size_t i_out, bool floors);

#endif  // ET_HALF_DIV_H
