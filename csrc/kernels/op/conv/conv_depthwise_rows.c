// conv_depthwise_rows.c — depthwise convolutions of images stored plane by plane, any kernel, in up
// to three dimensions. A band of the padded planes is split by phase of the stride, so that every
// tap of every output is a plain shift and rows are vectorised for all strides:
//
//   plane (py, px) holds padded input (j·sy + py, i·sx + px) at row j, column i; pitch = columns
//   tap (ky, kx) of output (y, x) = plane (ky·dy mod sy, kx·dx mod sx)
//                                   at [y + ky·dy/sy][x + kx·dx/sx]
//
// Images with depth keep such planes of as many slices as the kernel reaches over, in a ring, and
// planes of zeros for the slices outside. Half types are widened while they are copied. Small
// groups of channels use the same method, some rows of the result at a time: k runs over taps, then
// channels. Relies on conv_depthwise.h.
#include "kernels/op/conv/conv_depthwise.h"

#include "kernels/kernel.h"

#include <string.h>

enum { FLAT_WIDTH = 64 };  // narrower outputs are computed with their padding, over all rows

// Layout of a slot: the ring of slices with all input channels of a group each, and zeros if there
// is depth; the flat result or one of its rows, for each of n_rows channels; a widened row of the
// input; for groups, the weights [channels of the result / n_rows][k][n_rows].
typedef struct bands {
  size_t rows;               // output rows per band
  size_t pitch, plane;       // floats per row and per phase plane
  size_t n_floats;           // of all planes of a slice
  size_t reach, n_kept;      // slices that a kernel reaches over; and with the one of zeros
  size_t n_slice;            // floats of a slice: n_floats of each channel
  size_t n_rows;             // channels of the result at a time: 1, of groups ETI_DIRECT_CONV_ROWS
  size_t n_out, n_row, n_w;  // floats
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
  b.n_rows = c->c_in == 1 ? 1 : ETI_DIRECT_CONV_ROWS;
  b.pitch = width + (size_t)((c->kernel[2] - 1) * c->dilation[2]) / sx;
  const uint64_t each = (uint64_t)b.pitch * sy * sx * b.n_kept * c->c_in;
  while (b.rows > 1 && (b.rows + more_rows) * each > ETI_DW_FLOATS) b.rows = (b.rows + 1) / 2;
  b.fits = (b.rows + more_rows) * each + width <= ETI_DW_MAX_FLOATS;
  b.plane = (b.rows + more_rows) * b.pitch;
  b.n_floats = b.plane * sy * sx;
  b.n_slice = b.n_floats * c->c_in;
  b.n_out = b.flat ? b.rows * b.pitch : c->dtype == ET_F32 && b.n_rows == 1 ? 0 : width;
  b.n_w = b.n_rows == 1 ? 0 : (c->c_out + b.n_rows - 1) / b.n_rows * b.n_rows * c->k;
  b.n_row = c->dtype == ET_F32 ? 0 : (size_t)c->x.sizes[2];
  return b;
}

static size_t slot_floats(const bands *b) {
  return b->n_slice * b->n_kept + b->n_out * b->n_rows + b->n_row + b->n_w;
}

size_t eti_dw_rows_bytes(const eti_conv *c) {
  const bands b = bands_of(c);
  return b.fits ? eti_dw_slot_bytes(slot_floats(&b)) : 0;
}

typedef struct rows_run {
  const eti_conv *c;
  const eti_direct_conv_micro *micro;
  bands b;
  char *scratch;
  size_t n_units, n_slots;
  bool has_epilogue;
} rows_run;

enum { MAX_TAPS = ETI_ON_STACK(ETI_GEMM_CHUNK, ETI_DW_TAPS), MAX_CHANNELS = 16 };

// One channel, or group of channels, of one image.
typedef struct channel_run {
  const rows_run *r;
  float *slices;         // b.n_kept of b.n_slice, the last one zeros where there is depth
  float *out, *row, *w;  // b.n_out of each of b.n_rows, b.n_row, weights
  ptrdiff_t x, y_out;    // its first elements in the input and in the result
  float bias[MAX_CHANNELS];
  float one[ETI_DW_TAPS];  // weights of a single channel
} channel_run;

// True if some tap of a dimension is on this phase of the stride.
static bool is_phase_read(const eti_conv *c, size_t d, int64_t phase) {
  for (int64_t t = 0; t < c->kernel[d]; t++) {
    if (t * c->dilation[d] % c->stride[d] == phase) return true;
  }
  return false;
}

// Copies one input row, at element `at`, into a row of each phase plane of `planes`.
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

// Fills all rows of f32, which need no widening.
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

// Copies a band of the slice at element `at`, for outputs from row y0 on, into phase planes; their
// padding is zero already.
static void fill_slice(const channel_run *u, ptrdiff_t at, int64_t y0, float *planes) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const int64_t sy = c->stride[1];
  for (int64_t py = 0; py < sy; py++) {
    size_t from, to;
    const int64_t shift = y0 * sy + py - c->padding[1];
    eti_dw_range(sy, shift, c->x.sizes[1], b->plane / b->pitch, &from, &to);
    if (from == to || !is_phase_read(c, 1, py)) continue;
    fill_rows(u, planes + (size_t)(py * c->stride[2]) * b->plane + from * b->pitch,
              at + (ptrdiff_t)((int64_t)from * sy + shift) * c->x.steps[1], to - from);
  }
}

// Finds slice z of the padded input in the ring; slices outside of the input are zeros.
static float *slice_at(const channel_run *u, int64_t z) {
  const bands *const b = &u->r->b;
  const bool inside = z >= 0 && z < u->r->c->x.sizes[0];
  return u->slices + (inside ? (size_t)z % b->reach : b->n_kept - 1) * b->n_slice;
}

static void point_taps(const channel_run *u, int64_t first_z, const float *taps[MAX_TAPS]) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  for (int64_t kz = 0; kz < c->kernel[0]; kz++) {
    const float *const planes = slice_at(u, first_z + kz * c->dilation[0]);
    for (int64_t ky = 0; ky < c->kernel[1]; ky++) {
      for (int64_t kx = 0; kx < c->kernel[2]; kx++) {
        const int64_t y = ky * c->dilation[1], x = kx * c->dilation[2];
        const size_t phase = (size_t)((y % c->stride[1]) * c->stride[2] + x % c->stride[2]);
        const float *const tap = planes + phase * b->plane + (size_t)(y / c->stride[1]) * b->pitch +
                                 (size_t)(x / c->stride[2]);
        for (size_t i = 0; i < c->c_in; i++) *taps++ = tap + i * b->n_floats;
      }
    }
  }
}

// Computes n elements of the channels from o on; their rows are b.n_out apart.
static void compute_row(const channel_run *u, size_t o, const float *const *taps, float *out,
                        size_t n) {
  const eti_conv *const c = u->r->c;
  if (u->r->b.n_rows == 1) {
    u->r->micro->row(out, n, taps, u->one, c->k, u->bias[0], &c->range);
  } else {
    u->r->micro->rows(out, u->r->b.n_out, n, taps, u->w + o * c->k, c->k, u->bias + o, &c->range);
  }
}

// Writes `rows` computed rows of one channel to the result, from element `at` on.
static void store_rows(const channel_run *u, const float *src, ptrdiff_t at, size_t rows) {
  const eti_conv *const c = u->r->c;
  const size_t width = (size_t)c->out.sizes[2], pitch = u->r->b.pitch;
  if (c->dtype == ET_F32 && (c->out.steps[2] == 1 || width == 1)) {
    u->r->micro->copy_rows((float *)(uintptr_t)c->out.data + at, (size_t)c->out.steps[1], src,
                           (ptrdiff_t)pitch, 1, rows, width);
    return;
  }
  for (size_t y = 0; y < rows; y++, at += c->out.steps[1], src += pitch)
    eti_dw_write(c, at, c->out.steps[2], src, width);
}

// Computes `rows` rows of n channels from o on, from element `at` on.
static void run_band(const channel_run *u, size_t o, size_t n, const float *taps[MAX_TAPS],
                     ptrdiff_t at, size_t rows) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const size_t width = (size_t)c->out.sizes[2];
  if (b->flat) {
    compute_row(u, o, taps, u->out, (rows - 1) * b->pitch + width);
    for (size_t i = 0; i < n; i++)
      store_rows(u, u->out + i * b->n_out, at + (ptrdiff_t)i * c->out.c_step, rows);
    return;
  }
  for (size_t y = 0; y < rows; y++, at += c->out.steps[1]) {
    if (b->n_out == 0) {
      compute_row(u, o, taps, (float *)(uintptr_t)c->out.data + at, width);
    } else {
      compute_row(u, o, taps, u->out, width);
      for (size_t i = 0; i < n; i++)
        store_rows(u, u->out + i * b->n_out, at + (ptrdiff_t)i * c->out.c_step, 1);
    }
    for (size_t t = 0; t < c->k; t++) taps[t] += b->pitch;
  }
  for (size_t t = 0; t < c->k; t++) taps[t] -= rows * b->pitch;
}

// Computes rows from y on of all slices of the result.
static void run_bands(const channel_run *u, size_t y) {
  const eti_conv *const c = u->r->c;
  const bands *const b = &u->r->b;
  const size_t height = (size_t)c->out.sizes[1], rows = height - y < b->rows ? height - y : b->rows;
  const size_t n_out = b->n_rows == 1 ? 1 : c->c_out;
  int64_t next = 0;  // next slice to enter the ring
  for (int64_t z = 0; z < c->out.sizes[0]; z++) {
    const int64_t first = z * c->stride[0] - c->padding[0], after = first + (int64_t)b->reach;
    for (int64_t s = first > next ? first : next; s < after && s < c->x.sizes[0]; s++) {
      float *const planes = slice_at(u, s);
      if (b->rows < height) memset(planes, 0, b->n_slice * sizeof(float));
      for (size_t i = 0; i < c->c_in; i++) {
        fill_slice(u, u->x + (ptrdiff_t)s * c->x.steps[0] + (ptrdiff_t)i * c->x.c_step, (int64_t)y,
                   planes + i * b->n_floats);
      }
    }
    if (after > next) next = after;
    const ptrdiff_t at = u->y_out + (ptrdiff_t)z * c->out.steps[0] + (ptrdiff_t)y * c->out.steps[1];
    const float *taps[MAX_TAPS];
    point_taps(u, first, taps);
    for (size_t o = 0; o < n_out; o += b->n_rows) {
      const size_t n = n_out - o < b->n_rows ? n_out - o : b->n_rows;
      run_band(u, o, n, taps, at + (ptrdiff_t)o * c->out.c_step, rows);
    }
    for (size_t o = 0; o < n_out && u->r->has_epilogue; o++) {
      eti_dw_epilogue(c, at + (ptrdiff_t)o * c->out.c_step, c->out.steps[1], rows,
                      (size_t)c->out.sizes[2]);
    }
  }
}

// Packs the weights of a group as [channels of the result / n_rows][k][n_rows], padded with zeros.
static void pack_group(const eti_conv *c, size_t group, size_t n_rows, float *w) {
  const ptrdiff_t es = (ptrdiff_t)c->esize;
  for (size_t o = 0; o < c->c_out; o++) {
    float *to = w + o / n_rows * n_rows * c->k + o % n_rows;
    for (size_t t = 0; t < c->n_taps; t++, to += c->c_in * n_rows) {
      const ptrdiff_t x = (ptrdiff_t)(t % (size_t)c->kernel[2]),
                      zy = (ptrdiff_t)(t / (size_t)c->kernel[2]);
      const ptrdiff_t y = zy % (ptrdiff_t)c->kernel[1], z = zy / (ptrdiff_t)c->kernel[1];
      const ptrdiff_t at = (ptrdiff_t)group * c->w_group_step + (ptrdiff_t)o * c->w_out_step +
                           z * c->w_steps[0] + y * c->w_steps[1] + x * c->w_steps[2];
      eti_casts[c->dtype][ET_F32](to, (ptrdiff_t)(n_rows * sizeof *to), c->w + at * es,
                                  c->w_in_step * es, c->c_in);
    }
  }
}

// Runs unit i of all images: a channel of the result, or a group of them.
static void run_unit(channel_run *u, size_t i) {
  const eti_conv *const c = u->r->c;
  const bool is_group = c->c_in > 1;
  const size_t per_image = is_group ? c->groups : c->groups * c->c_out, n = i / per_image;
  const size_t group = is_group ? i % per_image : i % per_image / c->c_out;
  const size_t first = is_group ? group * c->c_out : i % per_image;
  if (is_group) {
    pack_group(c, group, u->r->b.n_rows, u->w);
  } else {
    eti_dw_weights(c, first, u->one);
  }
  for (size_t o = 0; o < (is_group ? c->c_out : 1); o++) u->bias[o] = eti_dw_bias(c, first + o);
  u->x = (ptrdiff_t)n * c->x.n_step + (ptrdiff_t)(group * c->c_in) * c->x.c_step;
  u->y_out = (ptrdiff_t)n * c->out.n_step + (ptrdiff_t)first * c->out.c_step;
  for (size_t y = 0; y < (size_t)c->out.sizes[1]; y += u->r->b.rows) run_bands(u, y);
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const rows_run *const r = ctx;
  const size_t kept = r->b.n_slice * r->b.n_kept;
  for (size_t slot = begin; slot < end; slot++) {
    channel_run u = {.r = r};
    u.slices = (float *)(void *)(r->scratch + slot * eti_dw_slot_bytes(slot_floats(&r->b)));
    u.out = u.slices + kept;
    u.row = u.out + r->b.n_out * r->b.n_rows;
    u.w = u.row + r->b.n_row;
    memset(u.slices, 0, kept * sizeof(float));
    memset(u.w, 0, r->b.n_w * sizeof(float));
    for (size_t i = slot * r->n_units / r->n_slots; i < (slot + 1) * r->n_units / r->n_slots; i++)
      run_unit(&u, i);
  }
}

// True for groups of few channels, whose products would fill no tile.
bool eti_dw_takes_groups(const eti_conv *c) {
  return c->c_in > 1 && c->c_out <= MAX_CHANNELS && c->k <= MAX_TAPS && c->n_taps > 1;
}

bool eti_dw_rows_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  rows_run r = {.c = c,
                .micro = eti_direct_conv_micro_best(),
                .b = bands_of(c),
                .scratch = ctx->scratch,
                .n_units = c->n_images * c->groups * (c->c_in == 1 ? c->c_out : 1)};
  if (!r.b.fits) return false;
  r.n_slots = eti_dw_n_slots(ctx, eti_dw_slot_bytes(slot_floats(&r.b)),
                             c->n_images * c->groups * c->c_out * c->pixels * c->k);
  if (r.n_slots == 0) return false;
  *c->epilogue_done = r.has_epilogue =
      c->epilogue != NULL && (c->out.steps[2] == 1 || c->out.sizes[2] == 1);
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return true;
}
