// resize_u8.c — see resize_u8.h. Weights are fractions of a power of two: the largest at which the
// greatest weight of the axis is below 2¹⁵. Weights along the width are computed once for a block
// of a row's outputs, weights along the height once for each row. An output of more weights than a
// block holds computes them for each row.
#include "kernels/lib/resize_u8.h"

#include "kernels/lib/element.h"
#include "kernels/stack.h"

#include <math.h>

enum { BLOCK = ETI_ON_STACK(256, 8), WEIGHTS = ETI_ON_STACK(8192, 512) };

typedef struct axis {
  const eti_resize_u8 *r;
  double scale;
  int64_t in, out;
  int bits;  // weights are in units of 2^-bits
} axis;

// The input positions of one output.
typedef struct window {
  int64_t from, n;
  double center, step, total;  // of triangles
  double part;                 // of two neighbours, the second's weight
} window;

static int64_t at_most(double position, int64_t limit) {
  return position < (double)limit ? (int64_t)position : limit;
}

static double weight_at(const axis *a, const window *w, int64_t i) {
  if (w->n == 1) return 1.0;
  if (!a->r->antialias) return i == 0 ? 1.0 - w->part : w->part;
  const double d = fabs(((double)(w->from + i) - w->center + 0.5) * w->step);
  const double height = d < 1.0 ? 1.0 - d : 0.0;
  return w->total == 0.0 ? height : height / w->total;
}

static window triangle_at(const axis *a, int64_t o) {
  const double support = a->scale >= 1.0 ? a->scale : 1.0;
  window w = {.center = a->scale * ((double)o + 0.5), .step = 1.0 / support};
  const double from = w.center - support + 0.5;
  w.from = from > 0.0 ? at_most(from, a->in) : 0;
  const int64_t end = at_most(w.center + support + 0.5, a->in);
  w.n = end > w.from ? end - w.from : 0;
  double total = 0.0;
  for (int64_t i = 0; i < w.n && w.n > 1; i++) total += weight_at(a, &w, i);
  w.total = total;
  return w;
}

static window window_at(const axis *a, int64_t o) {
  if (a->in == a->out) return (window){.from = o, .n = 1};
  if (a->r->antialias) return triangle_at(a, o);
  const double at =
      a->r->align_corners ? a->scale * (double)o : fmax(a->scale * ((double)o + 0.5) - 0.5, 0.0);
  window w = {.from = at_most(at, a->in - 1)};
  w.part = fmin(at - (double)w.from, 1.0);
  w.n = w.from + 1 < a->in ? 2 : 1;
  return w;
}

static int32_t fixed_point(const axis *a, double weight) {
  return (int32_t)(0.5 + weight * (double)(1 << a->bits));
}

static axis axis_of(const eti_resize_u8 *r, size_t d) {
  axis a = {.r = r, .scale = r->scale[d], .in = r->x->sizes[2 + d], .out = r->out->sizes[2 + d]};
  double greatest = 0.0;
  for (int64_t o = 0; o < a.out; o++) {
    const window w = window_at(&a, o);
    for (int64_t i = 0; i < w.n; i++) greatest = fmax(greatest, weight_at(&a, &w, i));
  }
  while (a.bits < 22 && 0.5 + greatest * (double)(1 << (a.bits + 1)) < (double)(1 << 15)) a.bits++;
  return a;
}

static uint8_t rounded_byte(const axis *a, int32_t sum) {
  const int32_t value = sum >> a->bits;
  return (uint8_t)(value > 255 ? 255 : value);
}

// ---- a block of outputs of one row: windows along the width, weights one after another

typedef struct block {
  size_t n;
  window windows[BLOCK];
  int16_t weights[WEIGHTS];
  bool is_wide;  // one output, whose weights are not stored
} block;

static void fill_block(const axis *width, int64_t first, block *b) {
  size_t used = 0;
  b->is_wide = false;
  for (b->n = 0; b->n < BLOCK && first + (int64_t)b->n < width->out; b->n++) {
    const window w = window_at(width, first + (int64_t)b->n);
    if (used + (size_t)w.n > WEIGHTS) break;
    b->windows[b->n] = w;
    for (int64_t i = 0; i < w.n; i++)
      b->weights[used++] = (int16_t)fixed_point(width, weight_at(width, &w, i));
  }
  if (b->n > 0) return;
  b->windows[0] = window_at(width, first);
  b->n = 1;
  b->is_wide = true;
}

static int32_t sum_wide(const axis *width, const window *w, const uint8_t *in, ptrdiff_t step) {
  int32_t sum = 1 << (width->bits - 1);
  for (int64_t i = 0; i < w->n; i++, in += step)
    sum += fixed_point(width, weight_at(width, w, i)) * *in;
  return sum;
}

static void narrow_row(const axis *width, const block *b, const uint8_t *row, ptrdiff_t step,
                       uint8_t *out) {
  const int16_t *weight = b->weights;
  if (b->is_wide) {
    const window *const w = &b->windows[0];
    const uint8_t *const in = row + (ptrdiff_t)w->from * step;
    out[0] = rounded_byte(width, sum_wide(width, w, in, step));
    return;
  }
  for (size_t o = 0; o < b->n; o++) {
    const window *const w = &b->windows[o];
    const uint8_t *in = row + (ptrdiff_t)w->from * step;
    int32_t sum = 1 << (width->bits - 1);
    for (int64_t i = 0; i < w->n; i++, in += step) sum += *weight++ * *in;
    out[o] = rounded_byte(width, sum);
  }
}

typedef struct job {
  const eti_resize_u8 *r;
  axis height, width;
} job;

static void resize_block(const job *j, const block *b, ptrdiff_t in, int64_t y, uint8_t *out) {
  const et_tensor *const x = j->r->x;
  const window w = window_at(&j->height, y);
  int32_t sums[BLOCK];
  uint8_t row[BLOCK];
  for (size_t o = 0; o < b->n; o++) sums[o] = 1 << (j->height.bits - 1);
  for (int64_t i = 0; i < w.n; i++) {
    const int32_t weight = fixed_point(&j->height, weight_at(&j->height, &w, i));
    const uint8_t *const from =
        (const uint8_t *)x->data + in + (ptrdiff_t)(w.from + i) * x->strides[2];
    narrow_row(&j->width, b, from, x->strides[3], row);
    for (size_t o = 0; o < b->n; o++) sums[o] += weight * row[o];
  }
  const ptrdiff_t step = j->r->out->strides[3];
  for (size_t o = 0; o < b->n; o++) out[(ptrdiff_t)o * step] = rounded_byte(&j->height, sums[o]);
}

// Each item is a row of the result: planes × height.
static void resize_rows(void *opaque, size_t begin, size_t end) {
  const job *const j = opaque;
  const et_tensor *const x = j->r->x, *const out = j->r->out;
  const size_t height = (size_t)out->sizes[2], channels = (size_t)out->sizes[1];
  block b;
  for (int64_t first = 0; first < out->sizes[3]; first += (int64_t)b.n) {
    fill_block(&j->width, first, &b);
    for (size_t i = begin; i < end; i++) {
      const ptrdiff_t n = (ptrdiff_t)(i / height / channels), y = (ptrdiff_t)(i % height),
                      c = (ptrdiff_t)(i / height % channels);
      uint8_t *const to = (uint8_t *)out->data + n * out->strides[0] + c * out->strides[1] +
                          y * out->strides[2] + (ptrdiff_t)first * out->strides[3];
      resize_block(j, &b, n * x->strides[0] + c * x->strides[1], y, to);
    }
  }
}

void eti_resize_u8_run(const et_kernel_ctx *ctx, const eti_resize_u8 *r) {
  job j = {.r = r, .height = axis_of(r, 0), .width = axis_of(r, 1)};
  const size_t row = (size_t)r->out->sizes[3];
  et_parallel_for(ctx->pool, resize_rows, &j, r->out->numel / row, 1 + 4096 / row);
}
