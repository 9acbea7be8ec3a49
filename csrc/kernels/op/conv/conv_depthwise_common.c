// conv_depthwise_common.c — weights, biases and rows for all methods of depthwise convolution, see
// conv_depthwise.h.
#include "kernels/op/conv/conv_depthwise.h"

#include "kernels/kernel.h"

static float load_f32(const eti_conv *c, const char *base, ptrdiff_t at) {
  float value;
  eti_casts[c->dtype][ET_F32](&value, 0, base + at * (ptrdiff_t)c->esize, 0, 1);
  return value;
}

void eti_dw_weights(const eti_conv *c, size_t channel, float *w) {
  const ptrdiff_t at = (ptrdiff_t)(channel / c->c_out) * c->w_group_step +
                       (ptrdiff_t)(channel % c->c_out) * c->w_out_step;
  for (int64_t z = 0; z < c->kernel[0]; z++) {
    for (int64_t y = 0; y < c->kernel[1]; y++) {
      const ptrdiff_t row = at + (ptrdiff_t)z * c->w_steps[0] + (ptrdiff_t)y * c->w_steps[1];
      eti_casts[c->dtype][ET_F32](w, sizeof *w, c->w + row * (ptrdiff_t)c->esize,
                                  c->w_steps[2] * (ptrdiff_t)c->esize, (size_t)c->kernel[2]);
      w += c->kernel[2];
    }
  }
}

bool eti_dw_is_taps_first(const eti_conv *c) {
  ptrdiff_t step = (ptrdiff_t)c->groups;
  for (size_t d = 3; d-- > 0; step *= (ptrdiff_t)c->kernel[d]) {
    if (c->kernel[d] != 1 && c->w_steps[d] != step) return false;
  }
  return c->w != NULL && c->dtype == ET_F32 && c->c_in == 1 && c->c_out == 1 &&
         c->w_group_step == 1;
}

float eti_dw_bias(const eti_conv *c, size_t channel) {
  return c->bias == NULL ? 0.0f : load_f32(c, c->bias, (ptrdiff_t)channel);
}

void eti_dw_range(int64_t step, int64_t shift, int64_t size, size_t n, size_t *from, size_t *to) {
  int64_t lo = shift >= 0 ? 0 : (-shift + step - 1) / step;
  int64_t hi = size - shift <= 0 ? 0 : (size - 1 - shift) / step + 1;
  if (hi > (int64_t)n) hi = (int64_t)n;
  if (lo > hi) lo = hi;
  *from = (size_t)lo;
  *to = (size_t)hi;
}

void eti_dw_read(const eti_conv *c, float *dst, ptrdiff_t at, size_t n) {
  const ptrdiff_t es = (ptrdiff_t)c->esize;
  eti_casts[c->dtype][ET_F32](dst, sizeof *dst, c->x.data + at * es, es, n);
}

void eti_dw_write(const eti_conv *c, ptrdiff_t at, ptrdiff_t step, const float *src, size_t n) {
  const ptrdiff_t es = (ptrdiff_t)c->esize;
  eti_casts[ET_F32][c->dtype]((char *)(uintptr_t)c->out.data + at * es, step * es, src, sizeof *src,
                              n);
}

void eti_dw_epilogue(const eti_conv *c, ptrdiff_t at, ptrdiff_t step, size_t n_rows, size_t n) {
  float *const rows = (float *)(uintptr_t)c->out.data + at;
  eti_epilogue_rows(c->epilogue, rows, (size_t)step,
                    (size_t)(rows - (const float *)(const void *)c->result), n_rows, n);
}

size_t eti_dw_n_slots(const et_kernel_ctx *ctx, size_t each, size_t n) {
  const size_t threads = ctx->pool == NULL || n < ETI_DW_SMALL_RUN ? 1 : ctx->pool->n_threads;
  const size_t room = each == 0 ? 0 : ctx->scratch_bytes / each;
  return room < threads ? room : threads;
}
