// conv_phases.c — a transposed convolution as plain ones. Input position i feeds output o through
// tap t when o = i·s − p + t·d (stride, padding, dilation). Outputs with the same remainder modulo
// s, a phase, use every input through the same few taps, and neighbours in a phase use neighbouring
// inputs. So a phase is a convolution of stride 1 whose outputs are s apart, and no zero is ever
// multiplied. The taps of a phase are walked from the last to the first, so that inputs ascend.
// Relies on conv.h; knows neither panels nor threads.
#include "kernels/op/conv/conv.h"

static size_t min_size(int64_t a, int64_t b) {
  return (size_t)(a < b ? a : b);
}

size_t eti_conv_n_phases(const eti_conv *c) {
  size_t n = 1;
  for (size_t d = 0; d < 3 && c->transposed; d++) n *= min_size(c->stride[d], c->out.sizes[d]);
  return n;
}

// Sets one dimension of a phase: outputs `first`, first + s, … use the taps t0, t0 + step, …
static void cut_dimension(eti_conv *p, const eti_conv *c, size_t d, int64_t first) {
  const int64_t s = c->stride[d], dilation = c->dilation[d];
  int64_t t0 = 0, step = 1;
  while (t0 < c->kernel[d] && (first + c->padding[d] - t0 * dilation) % s != 0) t0++;
  while (step < c->kernel[d] && step * dilation % s != 0) step++;
  const int64_t n = t0 < c->kernel[d] ? (c->kernel[d] - 1 - t0) / step + 1 : 0;
  const int64_t last = t0 + (n - 1) * step;
  p->kernel[d] = n;
  p->stride[d] = 1;
  p->dilation[d] = n > 1 ? step * dilation / s : 1;
  p->padding[d] = n > 0 ? -(first + c->padding[d] - last * dilation) / s : 0;
  p->out.sizes[d] = (c->out.sizes[d] - first + s - 1) / s;
  p->out.data += (ptrdiff_t)first * c->out.steps[d] * (ptrdiff_t)c->esize;
  p->out.steps[d] = c->out.steps[d] * (ptrdiff_t)s;
  if (n == 0) return;
  if (p->w != NULL) p->w += (ptrdiff_t)last * c->w_steps[d] * (ptrdiff_t)c->esize;
  p->w_steps[d] = -(ptrdiff_t)step * c->w_steps[d];
}

eti_conv eti_conv_phase(const eti_conv *c, size_t i) {
  eti_conv p = *c;
  if (!c->transposed) return p;
  p.transposed = false;
  for (size_t d = 3; d-- > 0;) {
    const size_t n = min_size(c->stride[d], c->out.sizes[d]);
    cut_dimension(&p, c, d, (int64_t)(i % n));
    i /= n;
  }
  p.n_taps = (size_t)(p.kernel[0] * p.kernel[1] * p.kernel[2]);
  p.k = p.n_taps * p.c_in;
  p.pixels = (size_t)(p.out.sizes[0] * p.out.sizes[1] * p.out.sizes[2]);
  return p;
}
