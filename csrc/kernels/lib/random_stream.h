// random_stream.h — the stream of random numbers of one call. A number is a function of the
// method's seed, the number of the drawing call, and a position. So numbers do not depend on
// threads or machines, and a run can be repeated. The sequence is not torch's; the distributions
// are. Relies on micro/random/philox.h; knows no operator.
#ifndef ET_RANDOM_STREAM_H
#define ET_RANDOM_STREAM_H

#include "kernels/micro/random/philox.h"
#include "runtime/check.h"
#include "runtime/et.h"

// Opens the stream of the method's next drawing call; ET_INVALID_STATE when the context has no
// random state.
static inline et_status eti_random_open(const et_kernel_ctx *ctx, eti_philox_stream *s) {
  ET_CHECK(ctx->random != NULL, ctx->err, ET_INVALID_STATE,
           "a random operator: expected the random state of a method, got ctx->random NULL");
  *s = (eti_philox_stream){ctx->random->seed, ctx->random->calls++};
  return ET_OK;
}

// A uniform number in [0, 1), a multiple of 2^-53.
static inline double eti_random_unit(uint64_t bits) {
  return (double)(bits >> 11) * 0x1p-53;
}

#endif  // ET_RANDOM_STREAM_H
