// conv_stage.c — images that a convolution reads from scratch, one at a time: planes that are worth
// transposing to channels-last pixels, and half types with elements that many taps read, widened
// once. Relies on conv.h and micro/transpose.h; does not know the layout of the product.
#include "kernels/kernel.h"
#include "kernels/micro/transpose.h"
#include "kernels/op/conv/conv.h"

// True if one step leads from each pixel to the next, row after row.
bool eti_conv_pixel_step(const eti_image *im, ptrdiff_t *step) {
  ptrdiff_t expected = 0;
  bool found = false;
  for (size_t d = 3; d-- > 0;) {
    if (im->sizes[d] == 1) continue;
    if (found && im->steps[d] != expected) return false;
    if (!found) *step = im->steps[d];
    found = true;
    expected = im->steps[d] * (ptrdiff_t)im->sizes[d];
  }
  if (!found) *step = 1;
  return true;
}

enum {
  TRANSPOSE_COST = 500,            // multiply-adds in the time of transposing an element and back
  TRANSPOSE_HALVES = 8 * 1024,     // most channels of halves that are transposed
  TILE_HALVES = 768,               // halves that are transposed before they are widened
  TILE = 48,                       // and their channels
  GRAIN = 16 * 1024,               // elements
  MAX_WIDENED = 16 * 1024 * 1024,  // elements: the scratch of the other operators is far smaller
};

static size_t input_pixels(const eti_conv *c) {
  return (size_t)(c->x.sizes[0] * c->x.sizes[1] * c->x.sizes[2]);
}

static bool is_half(const eti_conv *c) {
  return eti_dtype_in(c->x_dtype, ET_TYPES_HALF);
}

// True if transposing pays: every tap can read pixels in place once their channels are adjacent,
// and the work is large enough, or there are too few pixels for tiles of them.
static bool transposing_pays(const eti_conv *c) {
  ptrdiff_t step;
  if (c->x.c_step == 1 || !eti_conv_pixel_step(&c->x, &step) || step != 1 ||
      c->c_in < ETI_CONV_LONG_SEGMENT || c->c_out < ETI_CONV_FEW_CHANNELS ||
      c->n_taps > ETI_GEMM_MAX_SEGMENTS || eti_dtype_in(c->dtype, ET_TYPES_INT) ||
      (is_half(c) && c->groups * c->c_in > TRANSPOSE_HALVES))
    return false;
  const double moved =
      (double)input_pixels(c) * (double)c->c_in + (double)c->pixels * (double)c->c_out;
  return c->pixels <= ETI_CONV_FEW_PIXELS ||
         moved * TRANSPOSE_COST <= (double)c->pixels * (double)c->c_out * (double)c->k;
}

// True if two taps or more read every element.
static bool widening_pays(const eti_conv *c) {
  ptrdiff_t step = 0;
  const size_t n = input_pixels(c);
  return is_half(c) && (double)n * (double)(c->groups * c->c_in) <= MAX_WIDENED && c->n_taps > 1 &&
         c->pixels >= 2 * n / c->n_taps && eti_conv_pixel_step(&c->x, &step) &&
         (step == 1 || c->x.c_step == 1);
}

eti_conv_stage eti_conv_stage_of(const eti_conv *c) {
  return transposing_pays(c) ? ETI_CONV_TO_PIXELS
         : widening_pays(c)  ? ETI_CONV_WIDENED
                             : ETI_CONV_IN_PLACE;
}

static et_dtype staged_type(const eti_conv *c) {
  return is_half(c) ? ET_F32 : c->dtype;
}

size_t eti_conv_staged_bytes(const eti_conv *c) {
  const size_t each = c->groups * c->c_in * et_dtype_bytes(staged_type(c));
  return (input_pixels(c) * each + 63) / 64 * 64;
}

typedef struct staging {
  const eti_conv *c;
  const char *from;  // the image
  size_t channels;
  char *to;
} staging;

static void transpose_pixels(void *ctx, size_t begin, size_t end) {
  const staging *const s = ctx;
  const size_t es = s->c->x_esize;
  eti_transpose(s->to + begin * s->channels * es, (ptrdiff_t)(s->channels * es),
                s->from + begin * es, s->c->x.c_step * (ptrdiff_t)es, s->channels, end - begin, es);
}

static void transpose_halves(void *ctx, size_t begin, size_t end) {
  const staging *const s = ctx;
  const ptrdiff_t es = (ptrdiff_t)s->c->x_esize;
  const eti_cast_fn widen = eti_casts[s->c->x_dtype][ET_F32];
  const size_t most = s->channels < TILE ? s->channels : TILE, at_once = TILE_HALVES / most;
  _Alignas(64) uint16_t tile[TILE_HALVES];
  for (size_t i = begin, n; i < end; i += n) {
    n = end - i < at_once ? end - i : at_once;
    float *const to = (float *)(void *)s->to + i * s->channels;
    for (size_t c = 0; c < s->channels; c += most) {
      const size_t w = s->channels - c < most ? s->channels - c : most;
      eti_transpose(tile, (ptrdiff_t)w * es,
                    s->from + ((ptrdiff_t)i + (ptrdiff_t)c * s->c->x.c_step) * es,
                    s->c->x.c_step * es, w, n, (size_t)es);
      if (w == s->channels) {
        widen(to, sizeof(float), tile, es, n * w);
        continue;
      }
      for (size_t k = 0; k < n; k++)
        widen(to + k * s->channels + c, sizeof(float), tile + k * w, es, w);
    }
  }
}

// Each line is the channels of a pixel, or the pixels of a channel.
static void widen_lines(void *ctx, size_t begin, size_t end) {
  const staging *const s = ctx;
  const eti_conv *const c = s->c;
  const ptrdiff_t es = (ptrdiff_t)c->x_esize;
  const bool by_pixel = c->x.c_step == 1;
  ptrdiff_t step = c->x.c_step;
  if (by_pixel) eti_conv_pixel_step(&c->x, &step);
  size_t n = by_pixel ? s->channels : input_pixels(c), n_lines = end - begin;
  float *const to = (float *)(void *)s->to + begin * n;
  const char *const from = s->from + (ptrdiff_t)begin * step * es;
  if (step == (ptrdiff_t)n) {
    n *= n_lines;
    n_lines = n > 0;
  }
  for (size_t i = 0; i < n_lines; i++) {
    eti_casts[c->x_dtype][ET_F32](to + i * n, sizeof(float), from + (ptrdiff_t)i * step * es, es,
                                  n);
  }
}

void eti_conv_use_stage(eti_conv_stage stage, const char *image, eti_conv *c) {
  const size_t n_pixels = input_pixels(c), channels = c->groups * c->c_in;
  const bool by_pixel = stage == ETI_CONV_TO_PIXELS || c->x.c_step == 1;
  c->x_dtype = staged_type(c);
  c->x_esize = et_dtype_bytes(c->x_dtype);
  c->x.data = image;
  ptrdiff_t step = by_pixel ? (ptrdiff_t)channels : 1;
  c->x.c_step = by_pixel ? 1 : (ptrdiff_t)n_pixels;
  for (size_t d = 3; d-- > 0; step *= (ptrdiff_t)c->x.sizes[d]) c->x.steps[d] = step;
}

void eti_conv_stage_image(const et_kernel_ctx *ctx, eti_conv_stage stage, eti_conv *c) {
  const size_t n_pixels = input_pixels(c), channels = c->groups * c->c_in;
  const bool by_pixel = stage == ETI_CONV_TO_PIXELS || c->x.c_step == 1;
  staging s = {.c = c, .from = c->x.data, .channels = channels, .to = ctx->scratch};
  const size_t n_lines = by_pixel ? n_pixels : channels, line = by_pixel ? channels : n_pixels;
  et_parallel_for(ctx->pool,
                  stage == ETI_CONV_WIDENED ? widen_lines
                  : is_half(c)              ? transpose_halves
                                            : transpose_pixels,
                  &s, n_lines, GRAIN / (line + 1) + 1);
  eti_conv_use_stage(stage, ctx->scratch, c);
}
