// conv_padding.c — taps that read nothing but the padding around an image, as those of dilated
// kernels and of small images do. Their products are zeros if the weights are finite, so the
// product leaves them out: of the whole result, or of rectangles of it that few taps reach. The
// choice depends on sizes alone, so that results have the same bits on every machine. Relies on
// conv.h; knows neither panels nor threads.
#include "kernels/op/conv/conv.h"

// True if some output reads an element of the image through tap t of dimension d.
static bool reads_image(const eti_conv *c, size_t d, int64_t t) {
  const int64_t s = c->stride[d], shift = t * c->dilation[d] - c->padding[d];  // i = o·s + shift
  const int64_t room = c->x.sizes[d] - 1 - shift;
  const int64_t first = shift >= 0 ? 0 : (-shift + s - 1) / s;  // least o with i ≥ 0
  return room >= 0 && first <= room / s && first < c->out.sizes[d];
}

void eti_conv_padding_taps(const eti_conv *c, size_t *head, size_t *tail) {
  size_t first = 0, last = 0;
  for (size_t d = 0; d < 3; d++) {
    int64_t from = 0, to = c->kernel[d] - 1;
    while (from <= to && !reads_image(c, d, from)) from++;
    while (to > from && !reads_image(c, d, to)) to--;
    if (from > to) {
      *head = c->n_taps;
      *tail = 0;
      return;
    }
    first = first * (size_t)c->kernel[d] + (size_t)from;
    last = last * (size_t)c->kernel[d] + (size_t)to;
  }
  *head = first;
  *tail = c->n_taps - 1 - last;
}

// ---- rectangles of the result

enum {
  PIXELS_AT_ONCE = 8,        // near the height of a tile: fewer pixels take the same time
  SPLIT_WORK = 1024 * 1024,  // multiply-adds from which a split may pay
  MOST_INSIDE = 8,           // an image this many times as large as its padding is not split
};

// Finds the bands of outputs in dimension d that read the image through the same taps. False if
// there are too many.
static bool find_bands(const eti_conv *c, size_t d, eti_conv_bands *b) {
  const int64_t dilation = c->dilation[d];
  int64_t taps_before = 0;
  b->n[d] = 0;
  for (int64_t o = 0; o < c->out.sizes[d]; o++) {
    const int64_t start = o * c->stride[d] - c->padding[d], room = c->x.sizes[d] - 1 - start;
    const int64_t from = start >= 0 ? 0 : (-start + dilation - 1) / dilation,
                  to = room < 0 ? 0 : room / dilation + 1;
    const int64_t first = from < c->kernel[d] ? from : c->kernel[d],
                  last = to < c->kernel[d] ? to : c->kernel[d];
    const int64_t taps = first * (c->kernel[d] + 1) + last;
    if (o > 0 && taps == taps_before) continue;
    if (b->n[d] == ETI_CONV_MAX_BANDS) return false;
    b->at[d][b->n[d]++] = o;
    taps_before = taps;
  }
  b->at[d][b->n[d]] = c->out.sizes[d];
  return true;
}

// The time of a product, in multiply-adds of one input and one output channel.
static double cost_of(const eti_conv *c) {
  size_t head, tail;
  eti_conv_padding_taps(c, &head, &tail);
  const size_t pixels = (c->pixels + PIXELS_AT_ONCE - 1) / PIXELS_AT_ONCE * PIXELS_AT_ONCE;
  return (double)pixels * (double)(c->n_taps - head - tail);
}

size_t eti_conv_split(const eti_conv *c, eti_conv_bands *b) {
  bool is_padded = false;
  for (size_t d = 0; d < 3; d++)
    is_padded = is_padded || c->padding[d] * MOST_INSIDE > c->x.sizes[d];
  if (!is_padded) return 1;
  const double whole = cost_of(c);
  if (whole * (double)c->c_in * (double)c->c_out < SPLIT_WORK) return 1;
  for (size_t d = 0; d < 3; d++) {
    if (!find_bands(c, d, b)) return 1;
  }
  const size_t n = b->n[0] * b->n[1] * b->n[2];
  double cost = 0.0;
  for (size_t i = 0; i < n; i++) {
    const eti_conv part = eti_conv_part(c, b, i);
    cost += cost_of(&part);
  }
  return 3.0 * cost <= 2.0 * whole ? n : 1;
}

eti_conv eti_conv_part(const eti_conv *c, const eti_conv_bands *b, size_t i) {
  eti_conv p = *c;
  for (size_t d = 3; d-- > 0; i /= b->n[d]) {
    const int64_t *const at = b->at[d] + i % b->n[d];
    p.out.data += (ptrdiff_t)at[0] * c->out.steps[d] * (ptrdiff_t)c->esize;
    p.out.sizes[d] = at[1] - at[0];
    p.padding[d] -= at[0] * c->stride[d];
  }
  p.pixels = (size_t)(p.out.sizes[0] * p.out.sizes[1] * p.out.sizes[2]);
  return p;
}

bool eti_conv_leaves_out(const eti_conv *c) {
  size_t head, tail;
  eti_conv_bands bands;
  eti_conv_padding_taps(c, &head, &tail);
  return head + tail > 0 || eti_conv_split(c, &bands) > 1;
}
