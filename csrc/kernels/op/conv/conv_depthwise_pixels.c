// conv_depthwise_pixels.c — depthwise convolutions of channels-last images, vectorised over the
// channels. f32 images in two dimensions are read in place, without padding taps. Half types,
// images with depth and planes of few pixels go through rows in scratch that are widened and padded
// once for all taps that read them: a ring of rows for every slice that the kernel reaches, a part
// of the channels at a time if all are too many. There, padding is multiplied like other values,
// and results may also be planes. Relies on conv_depthwise.h.
#include "kernels/op/conv/conv_depthwise.h"

#include "kernels/kernel.h"
#include "kernels/micro/transpose.h"
#include "kernels/sizes.h"

#include <string.h>

enum {
  SOME_CHANNELS = ETI_ON_STACK(16, 2),
  NEAR_WEIGHTS = 16 * 1024,  // bytes of weights that stay in the first-level cache
  CHANNEL_STEP = 64,         // blocks of channels are multiples of it
};

// Packs weights as [taps × channels].
static void pack_weights(const eti_conv *c, size_t first, size_t channels, float *panels) {
  for (size_t channel = 0; channel < channels; channel++) {
    float w[ETI_DW_TAPS];
    eti_dw_weights(c, first + channel, w);
    for (size_t t = 0; t < c->n_taps; t++) panels[t * channels + channel] = w[t];
  }
}

// The weights of all channels as [taps × channels], in place or packed once; NULL: there is no
// room.
static const float *whole_weights(const eti_conv *c) {
  if (eti_dw_is_taps_first(c)) return (const float *)(const void *)c->w;
  if (c->ready.panels == NULL || c->ready.way != ETI_CONV_DEPTHWISE) return NULL;
  if (!c->ready.is_packed) pack_weights(c, 0, c->groups, c->ready.panels);
  return c->ready.panels;
}

// ---- pixels read in place

typedef struct pixels_run {
  const eti_conv *c;
  const eti_direct_conv_micro *micro;
  size_t first, channels;  // of them all
  const float *w;          // [taps × w_step]
  size_t w_step;
} pixels_run;

static const float *bias_of(const pixels_run *r) {
  return r->c->bias == NULL ? NULL : (const float *)(const void *)r->c->bias + r->first;
}

// Computes a pixel whose taps may leave the image sideways.
static void run_border_pixel(const pixels_run *r, const float *x, float *out, int64_t y,
                             int64_t col) {
  const eti_conv *const c = r->c;
  const float *taps[ETI_DW_TAPS];
  uint8_t which[ETI_DW_TAPS];
  size_t n_taps = 0;
  for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
    const int64_t iy = y * c->stride[1] - c->padding[1] + ky * c->dilation[1];
    if (iy < 0 || iy >= c->x.sizes[1]) continue;
    for (int64_t kx = 0; kx < c->kernel[2]; kx++) {
      const int64_t ix = col * c->stride[2] - c->padding[2] + kx * c->dilation[2];
      if (ix < 0 || ix >= c->x.sizes[2]) continue;
      which[n_taps] = (uint8_t)(ky * c->kernel[2] + kx);
      taps[n_taps++] = x + iy * c->x.steps[1] + ix * c->x.steps[2];
    }
  }
  r->micro->pixel(out, r->channels, taps, which, r->w, r->w_step, n_taps, bias_of(r), &c->range);
}

// Computes pixels [from, to) of row y, whose taps are all inside sideways.
static void run_inner_pixels(const pixels_run *r, const float *x, float *out, int64_t y,
                             size_t from, size_t to) {
  const eti_conv *const c = r->c;
  const float *taps[ETI_DW_TAPS];
  size_t n_taps = 0, first = 0;
  for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
    const int64_t iy = y * c->stride[1] - c->padding[1] + ky * c->dilation[1];
    if (iy < 0 || iy >= c->x.sizes[1]) continue;
    if (n_taps == 0) first = (size_t)(ky * c->kernel[2]);
    for (int64_t kx = 0; kx < c->kernel[2]; kx++) {
      const int64_t ix = (int64_t)from * c->stride[2] - c->padding[2] + kx * c->dilation[2];
      taps[n_taps++] = x + iy * c->x.steps[1] + ix * c->x.steps[2];
    }
  }
  r->micro->pixels(out + (ptrdiff_t)from * c->out.steps[2], c->out.steps[2], to - from, r->channels,
                   taps, (ptrdiff_t)c->stride[2] * c->x.steps[2], r->w + first * r->w_step,
                   r->w_step, n_taps, bias_of(r), &c->range);
}

// Computes rows [begin, end) of the result for the channels of r.
static void run_channels(const pixels_run *r, size_t begin, size_t end) {
  const eti_conv *const c = r->c;
  const size_t height = (size_t)c->out.sizes[1], width = (size_t)c->out.sizes[2];
  // The first tap is inside from `from` on, the last one before `to`.
  size_t from, to, unused;
  eti_dw_range(c->stride[2], -c->padding[2], c->x.sizes[2], width, &from, &unused);
  eti_dw_range(c->stride[2], (c->kernel[2] - 1) * c->dilation[2] - c->padding[2], c->x.sizes[2],
               width, &unused, &to);
  if (to < from) to = from;
  for (size_t u = begin; u < end; u++) {
    const size_t n = u / height, y = u % height;
    const float *x =
        (const float *)(const void *)c->x.data + (ptrdiff_t)n * c->x.n_step + (ptrdiff_t)r->first;
    float *out = (float *)(uintptr_t)c->out.data + (ptrdiff_t)n * c->out.n_step +
                 (ptrdiff_t)y * c->out.steps[1] + (ptrdiff_t)r->first;
    for (size_t col = 0; col < from; col++)
      run_border_pixel(r, x, out + (ptrdiff_t)col * c->out.steps[2], (int64_t)y, (int64_t)col);
    if (from < to) run_inner_pixels(r, x, out, (int64_t)y, from, to);
    for (size_t col = to; col < width; col++)
      run_border_pixel(r, x, out + (ptrdiff_t)col * c->out.steps[2], (int64_t)y, (int64_t)col);
    if (c->epilogue != NULL)
      eti_dw_epilogue(c, out - (const float *)(const void *)c->out.data, c->out.steps[2], width,
                      r->channels);
  }
}

// Computes rows for a block of channels after the other: all pixels read their weights.
static void run_pixel_rows(void *ctx, size_t begin, size_t end) {
  const pixels_run *const all = ctx;
  const size_t bytes = all->c->n_taps * all->channels * sizeof(float);
  const size_t n_blocks = bytes / NEAR_WEIGHTS + 1;
  const size_t most = eti_round_up((all->channels + n_blocks - 1) / n_blocks, CHANNEL_STEP);
  for (size_t at = 0; at < all->channels; at += most) {
    pixels_run r = *all;
    r.first += at;
    r.w += at;
    r.channels = eti_at_most(all->channels - at, most);
    run_channels(&r, begin, end);
  }
}

// Rows of half the multiply-adds that are worth two threads.
static size_t row_grain(const pixels_run *r) {
  const size_t row = (size_t)r->c->out.sizes[2] * r->channels * r->c->n_taps;
  return ETI_DW_SMALL_RUN / 2 / (row + 1) + 1;
}

// Without room for packed weights it computes some channels at a time. The product cannot replace
// it: it multiplies padding, too, which infinite weights would make NaN.
void eti_dw_pixels_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  const size_t n = c->n_images * (size_t)c->out.sizes[1];
  pixels_run r = {.c = c,
                  .micro = eti_direct_conv_micro_best(),
                  .channels = c->groups,
                  .w = whole_weights(c),
                  .w_step = c->groups};
  *c->epilogue_done = c->epilogue != NULL;
  if (r.w != NULL) {
    et_parallel_for(ctx->pool, run_pixel_rows, &r, n, row_grain(&r));
    return;
  }
  float w[ETI_DW_TAPS * SOME_CHANNELS];
  r.w = w;
  for (; r.first < c->groups; r.first += SOME_CHANNELS) {
    r.w_step = r.channels = eti_at_most(c->groups - r.first, SOME_CHANNELS);
    pack_weights(c, r.first, r.channels, w);
    et_parallel_for(ctx->pool, run_pixel_rows, &r, n, row_grain(&r));
  }
}

// ---- rows widened and padded in scratch

// Layout of a slot: the ring of rows of every slice, a row of zeros, a row of the result, biases,
// and weights if prepare left none.
typedef struct stage {
  size_t channels;          // at a time
  size_t cols, row;         // of a padded row of the input; floats of one
  size_t reach;             // rows of the input that a kernel reaches over
  size_t n_ring, n_floats;  // floats of the ring; of a slot
  bool fits;
} stage;

static stage stage_of(const eti_conv *c) {
  stage s = {.channels = c->groups,
             .cols = (size_t)((c->out.sizes[2] - 1) * c->stride[2] +
                              (c->kernel[2] - 1) * c->dilation[2] + 1),
             .reach = (size_t)((c->kernel[1] - 1) * c->dilation[1]) + 1};
  const uint64_t rows = (uint64_t)s.reach * (uint64_t)c->kernel[0] + 2,
                 each = (uint64_t)s.cols * rows;
  if (each * s.channels > 2 * ETI_DW_FLOATS) {
    const size_t some = (size_t)(2 * ETI_DW_FLOATS / each) / SOME_CHANNELS * SOME_CHANNELS;
    s.channels = some > SOME_CHANNELS ? some : SOME_CHANNELS;
    if (s.channels > c->groups) s.channels = c->groups;
  }
  s.fits = (each + c->n_taps + 1) * s.channels <= ETI_DW_MAX_FLOATS;
  s.row = s.cols * s.channels;
  s.n_ring = s.row * s.reach * (size_t)c->kernel[0];
  s.n_floats = s.n_ring + s.row + ((size_t)c->out.sizes[2] + c->n_taps + 1) * s.channels;
  return s;
}

size_t eti_dw_staged_bytes(const eti_conv *c) {
  const stage s = stage_of(c);
  return s.fits ? eti_dw_slot_bytes(s.n_floats) : 0;
}

typedef struct staged_run {
  const eti_conv *c;
  const eti_direct_conv_micro *micro;
  stage s;
  const float *w;  // whole_weights
  char *scratch;
  size_t n_rows, n_slots;  // rows of the results of all images
} staged_run;

// A part of the channels of one slot.
typedef struct staged_slot {
  const staged_run *r;
  float *ring, *zeros, *out, *bias;
  const float *w;  // [taps × w_step]
  size_t w_step;
  size_t first, channels;
  int64_t next;  // next row of the input to enter the ring
} staged_slot;

static float *row_at(const staged_slot *u, int64_t kz, int64_t y) {
  const stage *const s = &u->r->s;
  return u->ring + ((size_t)kz * s->reach + (size_t)y % s->reach) * s->row;
}

// First element in the input of the slot's channels of row y of slice z.
static ptrdiff_t input_at(const staged_slot *u, size_t n, int64_t z, int64_t y) {
  const eti_image *const x = &u->r->c->x;
  return (ptrdiff_t)n * x->n_step + (ptrdiff_t)z * x->steps[0] + (ptrdiff_t)y * x->steps[1] +
         (ptrdiff_t)u->first * x->c_step;
}

static void fill_row(const staged_slot *u, float *row, ptrdiff_t at) {
  const eti_conv *const c = u->r->c;
  size_t from, to;
  eti_dw_range(1, -c->padding[2], c->x.sizes[2], u->r->s.cols, &from, &to);
  const ptrdiff_t step = c->x.steps[2];
  at += ((ptrdiff_t)from - (ptrdiff_t)c->padding[2]) * step;
  row += from * u->channels;
  if (c->x.c_step == 1 && step == (ptrdiff_t)u->channels) {
    eti_dw_read(c, row, at, (to - from) * u->channels);
    return;
  }
  for (size_t i = from; i < to; i++, at += step, row += u->channels) {
    eti_casts[c->dtype][ET_F32](row, sizeof *row, c->x.data + at * (ptrdiff_t)c->esize,
                                c->x.c_step * (ptrdiff_t)c->esize, u->channels);
  }
}

// Reads rows of the input for row y of slice z of the result, and finds their taps.
static void fill_ring(staged_slot *u, size_t n, int64_t z, int64_t y) {
  const eti_conv *const c = u->r->c;
  const int64_t first = y * c->stride[1] - c->padding[1], after = first + (int64_t)u->r->s.reach;
  const int64_t first_z = z * c->stride[0] - c->padding[0];
  for (int64_t iy = first > u->next ? first : u->next; iy < after && iy < c->x.sizes[1]; iy++) {
    for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
      const int64_t iz = first_z + kz * c->dilation[0];
      if (iz >= 0 && iz < c->x.sizes[0]) fill_row(u, row_at(u, kz, iy), input_at(u, n, iz, iy));
    }
  }
  if (after > u->next) u->next = after;
}

static void point_taps(const staged_slot *u, int64_t z, int64_t y, const float *taps[ETI_DW_TAPS]) {
  const eti_conv *const c = u->r->c;
  size_t t = 0;
  for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
    const int64_t iz = z * c->stride[0] - c->padding[0] + kz * c->dilation[0];
    for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
      const int64_t iy = y * c->stride[1] - c->padding[1] + ky * c->dilation[1];
      const bool inside = iz >= 0 && iz < c->x.sizes[0] && iy >= 0 && iy < c->x.sizes[1];
      const float *const row = inside ? row_at(u, kz, iy) : u->zeros;
      for (int64_t kx = 0; kx < c->kernel[2]; kx++, t++)
        taps[t] = row + (size_t)(kx * c->dilation[2]) * u->channels;
    }
  }
}

// Writes a row of the slot's channels to the result.
static void store_row(const staged_slot *u, ptrdiff_t at) {
  const eti_conv *const c = u->r->c;
  const size_t width = (size_t)c->out.sizes[2];
  const ptrdiff_t step = c->out.steps[2], es = (ptrdiff_t)c->esize;
  if (c->out.c_step != 1) {
    const ptrdiff_t row = (ptrdiff_t)u->channels * es;
    if (c->dtype != ET_F32)
      eti_casts[ET_F32][c->dtype](u->out, es, u->out, sizeof(float), width * u->channels);
    eti_transpose((char *)(uintptr_t)c->out.data + at * es, c->out.c_step * es, u->out, row, width,
                  u->channels, c->esize);
  } else if (step == (ptrdiff_t)u->channels) {
    eti_dw_write(c, at, 1, u->out, width * u->channels);
  } else {
    for (size_t i = 0; i < width; i++)
      eti_dw_write(c, at + (ptrdiff_t)i * step, 1, u->out + i * u->channels, u->channels);
  }
}

static void run_row(const staged_slot *u, size_t n, int64_t z, int64_t y) {
  const eti_conv *const c = u->r->c;
  const ptrdiff_t at = (ptrdiff_t)n * c->out.n_step + (ptrdiff_t)z * c->out.steps[0] +
                       (ptrdiff_t)y * c->out.steps[1] + (ptrdiff_t)u->first * c->out.c_step;
  const size_t width = (size_t)c->out.sizes[2];
  const float *taps[ETI_DW_TAPS];
  point_taps(u, z, y, taps);
  const bool in_place = c->dtype == ET_F32 && c->out.c_step == 1;
  float *const out = in_place ? (float *)(uintptr_t)c->out.data + at : u->out;
  u->r->micro->pixels(out, in_place ? c->out.steps[2] : (ptrdiff_t)u->channels, width, u->channels,
                      taps, (ptrdiff_t)((size_t)c->stride[2] * u->channels), u->w, u->w_step,
                      c->n_taps, u->bias, &c->range);
  if (!in_place) store_row(u, at);
  if (c->epilogue != NULL && in_place) eti_dw_epilogue(c, at, c->out.steps[2], width, u->channels);
}

// Computes rows [begin, end) of the result for the slot's channels.
static void run_rows(staged_slot *u, size_t begin, size_t end) {
  const eti_conv *const c = u->r->c;
  const size_t height = (size_t)c->out.sizes[1], depth = (size_t)c->out.sizes[0];
  for (size_t i = begin; i < end; i++) {
    const size_t y = i % height, z = i / height % depth, n = i / height / depth;
    if (y == 0 || i == begin) u->next = 0;
    fill_ring(u, n, (int64_t)z, (int64_t)y);
    run_row(u, n, (int64_t)z, (int64_t)y);
  }
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const staged_run *const r = ctx;
  const eti_conv *const c = r->c;
  const stage *const s = &r->s;
  for (size_t slot = begin; slot < end; slot++) {
    staged_slot u = {.r = r, .w_step = c->groups};
    u.ring = (float *)(void *)(r->scratch + slot * eti_dw_slot_bytes(s->n_floats));
    u.zeros = u.ring + s->n_ring;
    u.out = u.zeros + s->row;
    u.bias = u.out + (size_t)c->out.sizes[2] * s->channels;
    float *const w = u.bias + s->channels;
    for (; u.first < c->groups; u.first += s->channels) {
      u.channels = c->groups - u.first < s->channels ? c->groups - u.first : s->channels;
      // With fewer channels, rows have another layout.
      memset(u.ring, 0, (s->n_ring + s->row) * sizeof(float));
      for (size_t i = 0; i < u.channels; i++) u.bias[i] = eti_dw_bias(c, u.first + i);
      if (r->w != NULL) {
        u.w = r->w + u.first;
      } else {
        pack_weights(c, u.first, u.channels, w);
        u.w = w;
        u.w_step = u.channels;
      }
      run_rows(&u, slot * r->n_rows / r->n_slots, (slot + 1) * r->n_rows / r->n_slots);
    }
  }
}

bool eti_dw_staged_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  staged_run r = {.c = c,
                  .micro = eti_direct_conv_micro_best(),
                  .s = stage_of(c),
                  .scratch = ctx->scratch,
                  .n_rows = c->n_images * (size_t)(c->out.sizes[0] * c->out.sizes[1])};
  if (!r.s.fits) return false;
  r.n_slots = eti_dw_n_slots(ctx, eti_dw_slot_bytes(r.s.n_floats),
                             c->n_images * c->groups * c->pixels * c->n_taps);
  if (r.n_slots == 0) return false;
  r.w = whole_weights(c);
  *c->epilogue_done = c->epilogue != NULL && c->out.c_step == 1;
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return true;
}
