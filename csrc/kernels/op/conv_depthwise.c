// conv_depthwise.c — convolutions with one input channel per group, f32, one or two dimensions.
// Images stored plane by plane: kernels of 3 × 3 and 5 × 5 with strides 1 and 2 read the planes
// where they lie (micro/conv.h). For others a band of the padded plane is copied apart by phase of
// the stride, so that every tap of every output becomes a plain shift and the rows run through as
// vectors whatever the stride:
//
//   plane (py, px) holds padded input (j·sy + py, i·sx + px) at row j, column i; pitch = columns
//   tap (ky, kx) of output (y, x) = plane (ky·dy mod sy, kx·dx mod sx) at [y + ky·dy/sy][x +
//   kx·dx/sx]
//
// Channels-last images: vectors run over the channels, padding taps are left out.
// Relies on micro/conv.h; adds bias, then taps in row order, as the product would.
#include "kernels/op/conv.h"

#include "kernels/kernel.h"
#include "kernels/micro/conv.h"

#include <string.h>

enum {
  MAX_TAPS = 128,  // one chunk of a product
  MAX_REACH = 4096,
  MAX_STRIDE = 8,
  BAND_FLOATS = 64 * 1024,
  MAX_BAND_FLOATS = 1024 * 1024,
  SOME_CHANNELS = 16,
  FLAT_WIDTH = 64,  // narrower outputs are computed with their padding, in one run over all rows
};

typedef enum dw_kind { DW_NONE, DW_PLANES, DW_ROWS, DW_PIXELS } dw_kind;

// Whole planes that micro/conv.h has a function for.
static bool is_common(const eti_conv *c) {
  const int64_t kernel = c->kernel[1], stride = c->stride[1];
  return (kernel == 3 || kernel == 5) && kernel == c->kernel[2] && stride <= 2 &&
         stride == c->stride[2] && c->dilation[1] == 1 && c->dilation[2] == 1 &&
         c->out.sizes[1] >= ETI_CONV_PLANE_ROWS && (c->out.steps[2] == 1 || c->out.sizes[2] == 1);
}

static dw_kind kind_of(const eti_conv *c) {
  if (c->dtype != ET_F32 || c->transposed || c->c_in != 1 || c->groups < 2 ||
      c->n_taps > MAX_TAPS || c->n_taps == 0 || c->pixels == 0) {
    return DW_NONE;
  }
  if (c->x.sizes[0] != 1 || c->kernel[0] != 1 || c->out.sizes[0] != 1 || c->padding[0] != 0)
    return DW_NONE;
  for (size_t d = 1; d < 3; d++) {
    if (c->stride[d] > MAX_STRIDE || c->dilation[d] > MAX_REACH ||
        c->dilation[d] * c->kernel[d] > MAX_REACH)
      return DW_NONE;
  }
  if (c->x.steps[2] == 1 || c->x.sizes[2] == 1) return is_common(c) ? DW_PLANES : DW_ROWS;
  return c->x.c_step == 1 && c->out.c_step == 1 && c->c_out == 1 ? DW_PIXELS : DW_NONE;
}

// ---- plane by plane

static void gather_weights(const eti_conv *c, size_t channel, float *w) {
  const float *src = (const float *)(const void *)c->w +
                     (ptrdiff_t)(channel / c->c_out) * c->w_group_step +
                     (ptrdiff_t)(channel % c->c_out) * c->w_out_step;
  for (int64_t y = 0; y < c->kernel[1]; y++) {
    for (int64_t x = 0; x < c->kernel[2]; x++) *w++ = src[y * c->w_steps[1] + x * c->w_steps[2]];
  }
}

typedef struct plane {
  const float *x;
  float *out;
  float bias;
  float w[MAX_TAPS];
} plane;

static void find_plane(const eti_conv *c, size_t unit, plane *p) {
  const size_t channels = c->groups * c->c_out, n = unit / channels, channel = unit % channels;
  gather_weights(c, channel, p->w);
  p->bias = c->bias == NULL ? 0.0f : ((const float *)(const void *)c->bias)[channel];
  p->x = (const float *)(const void *)c->x.data + (ptrdiff_t)n * c->x.n_step +
         (ptrdiff_t)(channel / c->c_out) * c->x.c_step;
  p->out = (float *)(uintptr_t)c->out.data + (ptrdiff_t)n * c->out.n_step +
           (ptrdiff_t)channel * c->out.c_step;
}

// Chains rows of the result that are done: of n elements, `step` apart.
static void chain_rows(const eti_conv *c, float *rows, ptrdiff_t step, size_t n_rows, size_t n) {
  const size_t at = (size_t)(rows - (const float *)(const void *)c->result);
  eti_chain_rows(c->chain, rows, (size_t)step, at, n_rows, n);
}

// ---- planes read where they lie

static void run_common(void *ctx, size_t begin, size_t end) {
  const eti_conv *const c = ctx;
  const eti_conv_plane_fn run = eti_conv_micro_best()->planes[c->kernel[1] == 5][c->stride[1] == 2];
  for (size_t u = begin; u < end; u++) {
    plane p;
    find_plane(c, u, &p);
    run(&(eti_conv_plane){
        .out = p.out,
        .x = p.x,
        .out_step = c->out.steps[1],
        .x_step = c->x.steps[1],
        .rows = (size_t)c->out.sizes[1],
        .cols = (size_t)c->out.sizes[2],
        .height = (ptrdiff_t)c->x.sizes[1],
        .width = (ptrdiff_t)c->x.sizes[2],
        .top = (ptrdiff_t)c->padding[1],
        .left = (ptrdiff_t)c->padding[2],
        .w = p.w,
        .bias = p.bias,
        .range = c->range,
    });
    if (c->chain != NULL)
      chain_rows(c, p.out, c->out.steps[1], (size_t)c->out.sizes[1], (size_t)c->out.sizes[2]);
  }
}

// ---- planes copied by phases

typedef struct bands {
  size_t rows;              // output rows per band
  size_t pitch, plane;      // floats per row and per phase plane
  size_t n_floats, n_flat;  // of all planes; of the output with its padding
  bool flat;
} bands;

static bands bands_of(const eti_conv *c) {
  const size_t sy = (size_t)c->stride[1], sx = (size_t)c->stride[2],
               width = (size_t)c->out.sizes[2];
  const size_t more_rows = (size_t)((c->kernel[1] - 1) * c->dilation[1]) / sy;
  bands b = {.rows = (size_t)c->out.sizes[1], .flat = width < FLAT_WIDTH || c->out.steps[2] != 1};
  b.pitch = width + (size_t)((c->kernel[2] - 1) * c->dilation[2]) / sx;
  while (b.rows > 1 && (b.rows + more_rows) * b.pitch * sy * sx > BAND_FLOATS)
    b.rows = (b.rows + 1) / 2;
  b.plane = (b.rows + more_rows) * b.pitch;
  b.n_floats = b.plane * sy * sx;
  b.n_flat = b.flat ? b.rows * b.pitch : 0;
  return b;
}

static size_t slot_bytes(const bands *b) {
  return ((b->n_floats + b->n_flat) * sizeof(float) + 63) / 64 * 64;
}

// First and one-past-last index i ≥ 0, < n, for which 0 ≤ i·step + shift < size.
static void valid_range(int64_t step, int64_t shift, int64_t size, size_t n, size_t *from,
                        size_t *to) {
  int64_t lo = shift >= 0 ? 0 : (-shift + step - 1) / step;
  int64_t hi = size - shift <= 0 ? 0 : (size - 1 - shift) / step + 1;
  if (hi > (int64_t)n) hi = (int64_t)n;
  if (lo > hi) lo = hi;
  *from = (size_t)lo;
  *to = (size_t)hi;
}

// Copies one channel's band, outputs rows y0 and on, into the phase planes; the padding there is
// zero already.
static void fill_planes(const eti_conv *c, const eti_conv_micro *micro, const bands *b,
                        const float *x, int64_t y0, float *planes) {
  const int64_t sy = c->stride[1], sx = c->stride[2];
  for (int64_t py = 0; py < sy; py++) {
    size_t row0, row1;
    const int64_t y_shift = y0 * sy + py - c->padding[1];
    valid_range(sy, y_shift, c->x.sizes[1], b->plane / b->pitch, &row0, &row1);
    for (int64_t px = 0; px < sx && row0 < row1; px++) {
      size_t col0, col1;
      const int64_t x_shift = px - c->padding[2];
      valid_range(sx, x_shift, c->x.sizes[2], b->pitch, &col0, &col1);
      if (col0 == col1) continue;
      const ptrdiff_t row_step = c->x.steps[1];
      const float *src =
          x + ((ptrdiff_t)row0 * sy + y_shift) * row_step + ((ptrdiff_t)col0 * sx + x_shift);
      float *dst = planes + (size_t)(py * sx + px) * b->plane + row0 * b->pitch + col0;
      micro->copy_rows(dst, b->pitch, src, (ptrdiff_t)sy * row_step, (size_t)sx, row1 - row0,
                       col1 - col0);
    }
  }
}

static void point_taps(const eti_conv *c, const bands *b, const float *planes,
                       const float *taps[MAX_TAPS]) {
  size_t t = 0;
  for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
    for (int64_t kx = 0; kx < c->kernel[2]; kx++, t++) {
      const int64_t y = ky * c->dilation[1], x = kx * c->dilation[2];
      const size_t phase = (size_t)((y % c->stride[1]) * c->stride[2] + x % c->stride[2]);
      taps[t] = planes + phase * b->plane + (size_t)(y / c->stride[1]) * b->pitch +
                (size_t)(x / c->stride[2]);
    }
  }
}

static void run_band(const eti_conv *c, const eti_conv_micro *micro, const bands *b, const float *w,
                     float bias, float *planes, float *out, size_t rows) {
  const size_t width = (size_t)c->out.sizes[2];
  const float *taps[MAX_TAPS];
  point_taps(c, b, planes, taps);
  if (b->flat) {
    const float *flat = planes + b->n_floats;
    micro->row(planes + b->n_floats, (rows - 1) * b->pitch + width, taps, w, c->n_taps, bias,
               &c->range);
    if (c->out.steps[2] == 1 || width == 1) {
      micro->copy_rows(out, (size_t)c->out.steps[1], flat, (ptrdiff_t)b->pitch, 1, rows, width);
      return;
    }
    for (size_t y = 0; y < rows; y++, flat += b->pitch, out += c->out.steps[1]) {
      for (size_t x = 0; x < width; x++) out[(ptrdiff_t)x * c->out.steps[2]] = flat[x];
    }
    return;
  }
  for (size_t y = 0; y < rows; y++) {
    micro->row(out + (ptrdiff_t)y * c->out.steps[1], width, taps, w, c->n_taps, bias, &c->range);
    for (size_t t = 0; t < c->n_taps; t++) taps[t] += b->pitch;
  }
}

typedef struct planes_run {
  const eti_conv *c;
  const eti_conv_micro *micro;
  bands b;
  char *scratch;
  size_t n_units, n_slots;
  bool chains;
} planes_run;

static void run_planes(void *ctx, size_t begin, size_t end) {
  const planes_run *const r = ctx;
  const eti_conv *const c = r->c;
  const size_t height = (size_t)c->out.sizes[1];
  for (size_t slot = begin; slot < end; slot++) {
    float *const planes = (float *)(void *)(r->scratch + slot * slot_bytes(&r->b));
    memset(planes, 0, r->b.n_floats * sizeof(float));
    for (size_t u = slot * r->n_units / r->n_slots; u < (slot + 1) * r->n_units / r->n_slots; u++) {
      plane p;
      find_plane(c, u, &p);
      for (size_t y = 0; y < height; y += r->b.rows) {
        const size_t rows = height - y < r->b.rows ? height - y : r->b.rows;
        if (r->b.rows < height) memset(planes, 0, r->b.n_floats * sizeof(float));
        fill_planes(c, r->micro, &r->b, p.x, (int64_t)y, planes);
        float *const band = p.out + (ptrdiff_t)y * c->out.steps[1];
        run_band(c, r->micro, &r->b, p.w, p.bias, planes, band, rows);
        if (r->chains) chain_rows(c, band, c->out.steps[1], rows, (size_t)c->out.sizes[2]);
      }
    }
  }
}

// ---- pixel by pixel, over channels

typedef struct pixels_run {
  const eti_conv *c;
  const eti_conv_micro *micro;
  size_t first, channels;  // of them all
  const float *w;          // [taps × channels]
} pixels_run;

static void pack_pixel_weights(const eti_conv *c, size_t first, size_t channels, float *panels) {
  for (size_t channel = 0; channel < channels; channel++) {
    float w[MAX_TAPS];
    gather_weights(c, first + channel, w);
    for (size_t t = 0; t < c->n_taps; t++) panels[t * channels + channel] = w[t];
  }
}

static const float *bias_of(const pixels_run *r) {
  return r->c->bias == NULL ? NULL : (const float *)(const void *)r->c->bias + r->first;
}

// A pixel whose taps may leave the image sideways. Runs of valid taps are adjacent in the weights
// within a row of the kernel; each run continues from what is in out.
static void run_border_pixel(const pixels_run *r, const float *x, float *out, int64_t y,
                             int64_t col) {
  const eti_conv *const c = r->c;
  const size_t channels = r->channels;
  const float *bias = bias_of(r);
  const float *taps[MAX_TAPS];
  bool started = false;
  for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
    const int64_t iy = y * c->stride[1] - c->padding[1] + ky * c->dilation[1];
    if (iy < 0 || iy >= c->x.sizes[1]) continue;
    size_t n_taps = 0, first = 0;
    for (int64_t kx = 0; kx < c->kernel[2]; kx++) {
      const int64_t ix = col * c->stride[2] - c->padding[2] + kx * c->dilation[2];
      if (ix < 0 || ix >= c->x.sizes[2]) continue;
      if (n_taps == 0) first = (size_t)(ky * c->kernel[2] + kx);
      taps[n_taps++] = x + iy * c->x.steps[1] + ix * c->x.steps[2];
    }
    if (n_taps == 0) continue;
    r->micro->pixels(out, 0, 1, channels, taps, 0, r->w + first * channels, channels, n_taps,
                     started ? out : bias, &ETI_UNBOUNDED);
    started = true;
  }
  r->micro->pixels(out, 0, 1, channels, taps, 0, r->w, channels, 0, started ? out : bias,
                   &c->range);
}

// Pixels [from, to) of row y, all of whose taps lie inside sideways.
static void run_inner_pixels(const pixels_run *r, const float *x, float *out, int64_t y,
                             size_t from, size_t to) {
  const eti_conv *const c = r->c;
  const float *taps[MAX_TAPS];
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
                   taps, (ptrdiff_t)c->stride[2] * c->x.steps[2], r->w + first * r->channels,
                   r->channels, n_taps, bias_of(r), &c->range);
}

static void run_pixel_rows(void *ctx, size_t begin, size_t end) {
  const pixels_run *const r = ctx;
  const eti_conv *const c = r->c;
  const size_t height = (size_t)c->out.sizes[1], width = (size_t)c->out.sizes[2];
  // The first tap is inside from `from` on, the last one before `to`.
  size_t from, to, unused;
  valid_range(c->stride[2], -c->padding[2], c->x.sizes[2], width, &from, &unused);
  valid_range(c->stride[2], (c->kernel[2] - 1) * c->dilation[2] - c->padding[2], c->x.sizes[2],
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
    if (c->chain != NULL) chain_rows(c, out, c->out.steps[2], width, r->channels);
  }
}

// Without room for packed weights some channels at a time, because products, which multiply padding
// too, would make a NaN of it with infinite weights.
static void run_pixels(const et_kernel_ctx *ctx, const eti_conv *c) {
  const size_t n = c->n_images * (size_t)c->out.sizes[1];
  pixels_run r = {.c = c, .micro = eti_conv_micro_best(), .channels = c->groups};
  if (c->ready.panels != NULL && c->ready.way == ETI_CONV_DEPTHWISE) {
    if (!c->ready.is_packed) pack_pixel_weights(c, 0, c->groups, c->ready.panels);
    r.w = c->ready.panels;
    et_parallel_for(ctx->pool, run_pixel_rows, &r, n, 2);
    return;
  }
  float w[MAX_TAPS * SOME_CHANNELS];
  r.w = w;
  for (; r.first < c->groups; r.first += SOME_CHANNELS) {
    r.channels = c->groups - r.first < SOME_CHANNELS ? c->groups - r.first : SOME_CHANNELS;
    pack_pixel_weights(c, r.first, r.channels, w);
    et_parallel_for(ctx->pool, run_pixel_rows, &r, n, 2);
  }
}

// ---- entries

enum { SMALL_RUN = 64 * 1024 };  // multiply-adds that are not worth a second thread

bool eti_conv_depthwise_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  const dw_kind kind = kind_of(c);
  if (kind == DW_PIXELS) {
    run_pixels(ctx, c);
    *c->chained = c->chain != NULL;
    return true;
  }
  const size_t n_units = c->n_images * c->groups * c->c_out, each_plane = c->pixels * c->n_taps;
  if (kind == DW_PLANES) {
    et_parallel_for(ctx->pool, run_common, (void *)(uintptr_t)c, n_units,
                    SMALL_RUN / each_plane + 1);
    *c->chained = c->chain != NULL;
    return true;
  }
  if (kind != DW_ROWS) return false;
  planes_run r = {
      .c = c, .micro = eti_conv_micro_best(), .b = bands_of(c), .scratch = ctx->scratch};
  const size_t each = slot_bytes(&r.b);
  if (ctx->scratch_bytes < each) return false;
  *c->chained = r.chains = c->chain != NULL && (c->out.steps[2] == 1 || c->out.sizes[2] == 1);
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads,
               room = ctx->scratch_bytes / each;
  r.n_units = n_units;
  r.n_slots = room < threads ? room : threads;
  if (n_units * each_plane < SMALL_RUN) r.n_slots = 1;
  if (r.n_slots == 1) {
    run_planes(&r, 0, 1);
  } else {
    et_parallel_for(ctx->pool, run_planes, &r, r.n_slots, 1);
  }
  return true;
}

enum { MEASURED_PHASES = 64 };  // more of them only come with strides larger than any kernel

et_status eti_conv_depthwise_prepare(et_prepare_ctx *ctx, const eti_conv *c, bool *taken) {
  const size_t n_phases = eti_conv_n_phases(c);
  const eti_conv first = eti_conv_phase(c, 0);
  const dw_kind kind = kind_of(&first);
  *taken = false;
  if (kind == DW_PLANES || kind == DW_ROWS) {
    for (size_t i = 0; i < n_phases && i < MEASURED_PHASES; i++) {
      const eti_conv p = eti_conv_phase(c, i);
      if (kind_of(&p) != DW_ROWS) continue;
      const bands b = bands_of(&p);
      if (b.n_floats > MAX_BAND_FLOATS) return ET_OK;
      const size_t bytes = slot_bytes(&b) * (ctx->n_threads == 0 ? 1 : ctx->n_threads);
      if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
    }
    *taken = true;
  } else if (kind == DW_PIXELS && c->w != NULL) {
    *taken = true;
    eti_conv_state *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(eti_conv_state));
    void *const panels = et_prepare_alloc(ctx, c->n_taps * c->groups * sizeof(float), 64);
    if (state == NULL || panels == NULL) return et_prepare_status(ctx);
    *state = (eti_conv_state){.way = ETI_CONV_DEPTHWISE, .panels = panels};
    ctx->state = state;
  }
  return ET_OK;
}
