// next_call.h — what the file calls right after an operator and on its result, in the same memory:
// the operator may do that as well while the result is at hand, and the call is then passed over
// (et_call in et.h). Relies on et.h, shape.h and micro/range.h; calls no operator.
#ifndef ET_NEXT_H
#define ET_NEXT_H

#include "kernels/micro/clamp_range.h"
#include "runtime/et.h"

// Whether it is relu, hardtanh or clamp with numbers, on all of `out`, which is f32 and has its
// size already, and gives that very memory. Its result then has its size, too; whoever keeps `out`
// within the range adds 1 to *ctx->position.
bool eti_next_is_clamp(const et_kernel_ctx *ctx, const et_tensor *out, eti_range *range);

#endif  // ET_NEXT_H
