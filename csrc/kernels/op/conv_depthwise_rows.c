// conv_depthwise_rows.c — depthwise convolutions of images stored plane by plane, any kernel, in up
// to three dimensions. A band of the padded planes is copied apart by phase of the stride, so that
// every tap of every output becomes a plain shift and the rows run through as vectors whatever the
// stride:
//
//   plane (py, px) holds padded input (j·sy + py, i·sx + px) at row j, column i; pitch = columns
//   tap (ky, kx) of output (y, x) = plane (ky·dy mod sy, kx·dx mod sx) at [y + ky·dy/sy][x +
//   kx·dx/sx]
//
// Images with depth keep such planes of as many slices as the kernel reaches over, in a ring, and
// planes of zeros for the slices outside. Half types are widened while they are copied. Relies on
// conv_depthwise.h.
#include "kernels/op/conv_depthwise.h"

#include "kernels/kernel.h"

#include <string.h>

enum { FLAT_WIDTH = 64 };  // narrower outputs are computed with their padding, over all rows

// A slot: the ring of slices, zeros where there is depth, the flat result or a row of it, a widened
// row of the input.
typedef struct bands {
  size_t rows;           // output rows per band
  size_t pitch, plane;   // floats per row and per phase plane
  size_t n_floats;       // of all planes of a slice
  size_t reach, n_kept;  // slices that a kernel reaches over; and with the one of zeros
  size_t n_out, n_row;   // floats
  bool flat, fits;
} bands;

static bands bands_of(const eti_conv *c) {
  const size_t sy = (size_t)c->stride[1], sx = (size_t)c->stride[2],
               width = (size_t)c->out.sizes[2];
  const size_t more_rows = (size_t)((c->kernel[1] - 1) * c->dilation[1]) / sy;
  bands b = {.rows = (size_t)c->out.sizes[1],
             .reach = (size_t)((c->kernel[0] - 1) * c->dilation[0]) + 1,
             .flat = width < FLAT_WIDTH || c->out.steps[2] != 1};
  b.n_kept = b.reach + (c->kernel[0] > 1 || c->padding[0] != 0);
  b.pitch = width + (size_t)((c->kernel[2] - 1) * c->dilation[2]) / sx;
  const uint64_t each = (uint64_t)b.pitch * sy * sx * b.n_kept;
  while (b.rows > 1 && (b.rows + more_rows) * each > ETI_DW_FLOATS) b.rows = (b.rows + 1) / 2;
  b.fits = (b.rows + more_rows) * each + width <= ETI_DW_MAX_FLOATS;
  b.plane = (b.rows + more_rows) * b.pitch;
  b.n_floats = b.plane * sy * sx;
  b.n_out = b.flat ? b.rows * b.pitch : c->dtype == ET_F32 ? 0 : width;
  b.n_row = c->dtype == ET_F32 ? 0 : (size_t)c->x.sizes[2];
  return b;
}

static size_t slot_floats(const bands *b) {
  return b->n_floats * b->n_kept + b->n_out + b->n_row;
}

size_t eti_dw_rows_bytes(const eti_conv *c) {
  const bands b = bands_of(c);
  return b.fits ? eti_dw_slot_bytes(slot_floats(&b)) : 0;
}

typedef struct rows_run {
  const eti_conv *c;
  const eti_conv_micro *micro;
  bands b;
  char *scratch;
  size_t n_units, n_slots;
  bool chains;
} rows_run;

// One channel of one image.
typedef struct channel_run {
  const rows_run *r;
  float *slices;       // b.n_kept of b.n_floats, the last one zeros where there is depth
  float *out, *row;    // b.n_out, b.n_row
  ptrdiff_t x, y_out;  // where the channel begins in the input and in the result
  float bias;
  float w[ETI_DW_TAPS];
} channel_run;

// Whether any tap of a dimension falls on this phase of the stride.
static bool is_phase_read(const eti_conv *c, size_t d, int64_t phase) {
  for (int64_t t = 0; t < c->kernel[d]; t++) {
    if (t * c->dilation[d] % c->stride[d] == phase) return true;
  }
  return false;
}

// Columns of one input row, at element `at`, into a row of each phase plane of `planes`.
static void fill_row(const channel_run *u, float *planes, ptrdiff_t at) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const float *row = (const float *)(const void *)c->x.data + at;
  if (c->dtype != ET_F32) {
    eti_dw_read(c, u->row, at, b->n_row);
    row = u->row;
  }
  for (int64_t px = 0; px < c->stride[2]; px++, planes += b->plane) {
    const int64_t shift = px - c->padding[2];
    size_t from, to;
    eti_dw_range(c->stride[2], shift, c->x.sizes[2], b->pitch, &from, &to);
    if (from == to || !is_phase_read(c, 2, px)) continue;
    u->r->micro->copy_rows(planes + from, 0, row + ((int64_t)from * c->stride[2] + shift), 0,
                           (size_t)c->stride[2], 1, to - from);
  }
}

// The same for all rows of f32, which need no widening.
static void fill_rows(const channel_run *u, float *planes, ptrdiff_t at, size_t n_rows) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const ptrdiff_t step = (ptrdiff_t)c->stride[1] * c->x.steps[1];
  if (c->dtype != ET_F32) {
    for (size_t i = 0; i < n_rows; i++, planes += b->pitch, at += step) fill_row(u, planes, at);
    return;
  }
  const float *const rows = (const float *)(const void *)c->x.data + at;
  for (int64_t px = 0; px < c->stride[2]; px++, planes += b->plane) {
    const int64_t shift = px - c->padding[2];
    size_t from, to;
    eti_dw_range(c->stride[2], shift, c->x.sizes[2], b->pitch, &from, &to);
    if (from == to || !is_phase_read(c, 2, px)) continue;
    u->r->micro->copy_rows(planes + from, b->pitch, rows + ((int64_t)from * c->stride[2] + shift),
                           step, (size_t)c->stride[2], n_rows, to - from);
  }
}

// Copies slice z of a band, outputs rows y0 and on, into phase planes; the padding there is zero
// already.
static void fill_slice(const channel_run *u, int64_t z, int64_t y0, float *planes) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const int64_t sy = c->stride[1];
  for (int64_t py = 0; py < sy; py++) {
    size_t from, to;
    const int64_t shift = y0 * sy + py - c->padding[1];
    eti_dw_range(sy, shift, c->x.sizes[1], b->plane / b->pitch, &from, &to);
    if (from == to || !is_phase_read(c, 1, py)) continue;
    fill_rows(u, planes + (size_t)(py * c->stride[2]) * b->plane + from * b->pitch,
              u->x + (ptrdiff_t)z * c->x.steps[0] +
                  (ptrdiff_t)((int64_t)from * sy + shift) * c->x.steps[1],
              to - from);
  }
}

// Slice z of the padded input lies in the ring; outside of the input are zeros.
static float *slice_at(const channel_run *u, int64_t z) {
  const bands *const b = &u->r->b;
  const bool inside = z >= 0 && z < u->r->c->x.sizes[0];
  return u->slices + (inside ? (size_t)z % b->reach : b->n_kept - 1) * b->n_floats;
}

static void point_taps(const channel_run *u, int64_t first_z, const float *taps[ETI_DW_TAPS]) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  size_t t = 0;
  for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
    const float *const planes = slice_at(u, first_z + kz * c->dilation[0]);
    for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
      for (int64_t kx = 0; kx < c->kernel[2]; kx++, t++) {
        const int64_t y = ky * c->dilation[1], x = kx * c->dilation[2];
        const size_t phase = (size_t)((y % c->stride[1]) * c->stride[2] + x % c->stride[2]);
        taps[t] = planes + phase * b->plane + (size_t)(y / c->stride[1]) * b->pitch +
                  (size_t)(x / c->stride[2]);
      }
    }
  }
}

// `rows` rows of the result, of which the first begins at element `at`.
static void run_band(const channel_run *u, int64_t first_z, ptrdiff_t at, size_t rows) {
  const eti_conv *const c = u->r->c;
  const eti_conv_micro *const micro = u->r->micro;
  const bands *const b = &u->r->b;
  const size_t width = (size_t)c->out.sizes[2];
  float *const out = (float *)(uintptr_t)c->out.data + at;
  const ptrdiff_t step = c->out.steps[1];
  const float *taps[ETI_DW_TAPS];
  point_taps(u, first_z, taps);
  if (b->flat) {
    micro->row(u->out, (rows - 1) * b->pitch + width, taps, u->w, c->n_taps, u->bias, &c->range);
    if (c->dtype == ET_F32 && (c->out.steps[2] == 1 || width == 1)) {
      micro->copy_rows(out, (size_t)step, u->out, (ptrdiff_t)b->pitch, 1, rows, width);
      return;
    }
    for (size_t y = 0; y < rows; y++)
      eti_dw_write(c, at + (ptrdiff_t)y * step, c->out.steps[2], u->out + y * b->pitch, width);
    return;
  }
  for (size_t y = 0; y < rows; y++) {
    float *const row = c->dtype == ET_F32 ? out + (ptrdiff_t)y * step : u->out;
    micro->row(row, width, taps, u->w, c->n_taps, u->bias, &c->range);
    if (c->dtype != ET_F32) eti_dw_write(c, at + (ptrdiff_t)y * step, 1, row, width);
    for (size_t t = 0; t < c->n_taps; t++) taps[t] += b->pitch;
  }
}

// Rows y and on of all slices of the result.
static void run_bands(const channel_run *u, size_t y) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const size_t height = (size_t)c->out.sizes[1], rows = height - y < b->rows ? height - y : b->rows;
  int64_t next = 0;  // the first slice that is not in the ring, nor passed over
  for (int64_t z = 0; z < c->out.sizes[0]; z++) {
    const int64_t first = z * c->stride[0] - c->padding[0], after = first + (int64_t)b->reach;
    for (int64_t s = first > next ? first : next; s < after && s < c->x.sizes[0]; s++) {
      float *const planes = slice_at(u, s);
      if (b->rows < height) memset(planes, 0, b->n_floats * sizeof(float));
      fill_slice(u, s, (int64_t)y, planes);
    }
    if (after > next) next = after;
    const ptrdiff_t at = u->y_out + (ptrdiff_t)z * c->out.steps[0] + (ptrdiff_t)y * c->out.steps[1];
    run_band(u, first, at, rows);
    if (u->r->chains) eti_dw_chain(c, at, c->out.steps[1], rows, (size_t)c->out.sizes[2]);
  }
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const rows_run *const r = ctx;
  const eti_conv *const c = r->c;
  const size_t channels = c->groups * c->c_out, kept = r->b.n_floats * r->b.n_kept;
  for (size_t slot = begin; slot < end; slot++) {
    channel_run u = {.r = r};
    u.slices = (float *)(void *)(r->scratch + slot * eti_dw_slot_bytes(slot_floats(&r->b)));
    u.out = u.slices + kept;
    u.row = u.out + r->b.n_out;
    memset(u.slices, 0, kept * sizeof(float));
    for (size_t i = slot * r->n_units / r->n_slots; i < (slot + 1) * r->n_units / r->n_slots; i++) {
      const size_t n = i / channels, channel = i % channels;
      eti_dw_weights(c, channel, u.w);
      u.bias = eti_dw_bias(c, channel);
      u.x = (ptrdiff_t)n * c->x.n_step + (ptrdiff_t)(channel / c->c_out) * c->x.c_step;
      u.y_out = (ptrdiff_t)n * c->out.n_step + (ptrdiff_t)channel * c->out.c_step;
      for (size_t y = 0; y < (size_t)c->out.sizes[1]; y += r->b.rows) run_bands(&u, y);
    }
  }
}

bool eti_dw_rows_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  rows_run r = {.c = c,
                .micro = eti_conv_micro_best(),
                .b = bands_of(c),
                .scratch = ctx->scratch,
                .n_units = c->n_images * c->groups * c->c_out};
  if (!r.b.fits) return false;
  r.n_slots =
      eti_dw_n_slots(ctx, eti_dw_slot_bytes(slot_floats(&r.b)), r.n_units * c->pixels * c->n_taps);
  if (r.n_slots == 0) return false;
  *c->chained = r.chains = c->chain != NULL && (c->out.steps[2] == 1 || c->out.sizes[2] == 1);
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return true;
}
