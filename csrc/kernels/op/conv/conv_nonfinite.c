// conv_nonfinite.c — infinite and NaN weights: the search for them, and transposed convolutions
// that have some. The phases (conv_phases.c) multiply the padding around the image by weights,
// which is wrong for such weights. Here only existing inputs are multiplied, one by one, as in
// eager torch. Speed does not matter. Relies on conv.h and the cast table.
#include "kernels/micro/convert/cast.h"
#include "kernels/op/conv/conv.h"

// True if some of n numbers have all bits of `exponent`, as infinities and NaN do.
static bool some_u16(const uint16_t *p, size_t n, uint16_t exponent) {
  unsigned found = 0;
  for (size_t i = 0; i < n; i++) found |= (unsigned)((p[i] & exponent) == exponent);
  return found != 0;
}
static bool some_u32(const uint32_t *p, size_t n, uint32_t exponent) {
  unsigned found = 0;
  for (size_t i = 0; i < n; i++) found |= (unsigned)((p[i] & exponent) == exponent);
  return found != 0;
}
static bool some_u64(const uint64_t *p, size_t n, uint64_t exponent) {
  unsigned found = 0;
  for (size_t i = 0; i < n; i++) found |= (unsigned)((p[i] & exponent) == exponent);
  return found != 0;
}

bool eti_conv_has_nonfinite_weights(const eti_conv *c) {
  const size_t plain = c->groups * c->c_out * c->c_in * c->n_taps;
  const size_t n = c->stored != NULL ? c->stored->numel : plain;
  const void *const w = c->w;
  switch (c->dtype) {
    case ET_F32:
      return some_u32(w, n, 0x7F800000u);
    case ET_F64:
      return some_u64(w, n, 0x7FF0000000000000u);
    case ET_F16:
      return some_u16(w, n, 0x7C00u);
    case ET_BF16:
      return some_u16(w, n, 0x7F80u);
    default:
      return false;
  }
}

static double load_f64(const eti_conv *c, const char *data, ptrdiff_t at) {
  double value;
  eti_casts[c->dtype][ET_F64](&value, 0, data + at * (ptrdiff_t)c->esize, 0, 1);
  return value;
}

// Finds element i of the image under tap t of output o, i·stride = o + padding − t·dilation. False
// if there is none.
static bool input_of(const eti_conv *c, size_t d, int64_t o, int64_t t, int64_t *i) {
  const int64_t at = o + c->padding[d] - t * c->dilation[d];
  *i = at / c->stride[d];
  return at >= 0 && at % c->stride[d] == 0 && *i < c->x.sizes[d];
}

// Sum over all inputs of one group for pixel o of an output channel with the weights w.
static double sum_of(const eti_conv *c, ptrdiff_t image, const char *w, const int64_t o[3]) {
  double sum = 0.0;
  for (size_t tap = 0; tap < c->n_taps; tap++) {
    ptrdiff_t x_at = image, w_at = 0;
    bool exists = true;
    size_t rest = tap;
    for (size_t d = 3; d-- > 0;) {
      const int64_t t = (int64_t)(rest % (size_t)c->kernel[d]);
      int64_t i;
      rest /= (size_t)c->kernel[d];
      exists = input_of(c, d, o[d], t, &i) && exists;
      x_at += (ptrdiff_t)i * c->x.steps[d];
      w_at += (ptrdiff_t)t * c->w_steps[d];
    }
    for (size_t k = 0; k < c->c_in && exists; k++)
      sum += load_f64(c, c->x.data, x_at + (ptrdiff_t)k * c->x.c_step) *
             load_f64(c, w, w_at + (ptrdiff_t)k * c->w_in_step);
  }
  return sum;
}

// Each item is a plane of the result.
static void run_planes(void *ctx, size_t begin, size_t end) {
  const eti_conv *const c = ctx;
  const size_t channels = c->groups * c->c_out;
  for (size_t plane = begin; plane < end; plane++) {
    const size_t n = plane / channels, channel = plane % channels, group = channel / c->c_out;
    const ptrdiff_t image = (ptrdiff_t)n * c->x.n_step + (ptrdiff_t)(group * c->c_in) * c->x.c_step;
    const char *const w = c->w + ((ptrdiff_t)group * c->w_group_step +
                                  (ptrdiff_t)(channel % c->c_out) * c->w_out_step) *
                                     (ptrdiff_t)c->esize;
    const double bias = c->bias == NULL ? 0.0 : load_f64(c, c->bias, (ptrdiff_t)channel);
    const ptrdiff_t first = (ptrdiff_t)n * c->out.n_step + (ptrdiff_t)channel * c->out.c_step;
    int64_t o[3];
    for (o[0] = 0; o[0] < c->out.sizes[0]; o[0]++) {
      for (o[1] = 0; o[1] < c->out.sizes[1]; o[1]++) {
        for (o[2] = 0; o[2] < c->out.sizes[2]; o[2]++) {
          double y = bias + sum_of(c, image, w, o);
          ptrdiff_t at = first;
          for (size_t d = 0; d < 3; d++) at += (ptrdiff_t)o[d] * c->out.steps[d];
          if (c->is_limited)
            y = (double)eti_clamp((float)y, c->range.low, c->range.high, c->range.plus);
          eti_casts[ET_F64][c->dtype]((char *)(uintptr_t)c->out.data + at * (ptrdiff_t)c->esize, 0,
                                      &y, 0, 1);
        }
      }
    }
  }
}

void eti_conv_nonfinite_run(const et_kernel_ctx *ctx, eti_conv *c) {
  et_parallel_for(ctx->pool, run_planes, c, c->n_images * c->groups * c->c_out, 1);
}
