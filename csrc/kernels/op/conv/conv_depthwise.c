// conv_depthwise.c — convolutions with one input channel per group, f32 and half types: chooses one
// of three methods.
//   planes  images stored plane by plane: kernels of 3 × 3 and 5 × 5 with strides 1 and 2 read the
//           planes in place (micro/conv/direct_conv.h), half types a widened copy of them
//   rows    other kernels over such images, in up to three dimensions, and small groups of channels
//           (conv_depthwise_rows.c)
//   pixels  channels-last images, and planes of so few pixels that vectors over the channels are
//           faster (conv_depthwise_pixels.c)
// Relies on micro/conv/direct_conv.h; adds bias, then taps in row order, as the product does.
#include "kernels/op/conv/conv_depthwise.h"

#include "kernels/kernel.h"

enum {
  MAX_STRIDE = 8,
  // Planes with fewer pixels are taken as pixels, if the channels fill a vector.
  FEW_PIXELS = 16,
  FEW_INPUTS = 64,
  ENOUGH_CHANNELS = 16,
};

typedef enum dw_kind { DW_NONE, DW_PLANES, DW_ROWS, DW_PIXELS, DW_STAGED } dw_kind;

// True for whole planes that micro/conv/direct_conv.h has a function for.
static bool is_common(const eti_conv *c) {
  const int64_t kernel = c->kernel[1], stride = c->stride[1];
  return (kernel == 3 || kernel == 5) && kernel == c->kernel[2] && stride <= 2 &&
         stride == c->stride[2] && c->dilation[1] == 1 && c->dilation[2] == 1 &&
         c->kernel[0] == 1 && c->padding[0] == 0 && c->out.sizes[1] >= ETI_DIRECT_CONV_PLANE_ROWS &&
         (c->out.steps[2] == 1 || c->out.sizes[2] == 1);
}

// True for planes without rows to vectorise.
static bool is_few(const eti_conv *c) {
  return c->dtype == ET_F32 && c->c_out == 1 && c->groups >= ENOUGH_CHANNELS &&
         c->pixels < FEW_PIXELS && c->x.sizes[0] == 1 &&
         c->x.sizes[1] * c->x.sizes[2] <= FEW_INPUTS;
}

static bool is_in_planes(const eti_conv *c) {
  return c->x.steps[2] == 1 || c->x.sizes[2] == 1;
}

static dw_kind kind_of(const eti_conv *c) {
  if (!eti_dtype_in(c->dtype, ET_TYPES_F32 | ET_TYPES_HALF) || c->transposed || c->stored != NULL ||
      c->groups < 2 || c->n_taps > ETI_DW_TAPS || c->n_taps == 0 || c->pixels == 0) {
    return DW_NONE;
  }
  for (size_t d = 0; d < 3; d++) {
    if (c->stride[d] > MAX_STRIDE || c->dilation[d] > ETI_DW_REACH ||
        c->dilation[d] * c->kernel[d] > ETI_DW_REACH)
      return DW_NONE;
  }
  const bool in_planes = is_in_planes(c), few = in_planes && is_few(c);
  if (c->c_in != 1) {
    return in_planes && c->pixels > ETI_CONV_FEW_PIXELS && eti_dw_takes_groups(c) ? DW_ROWS
                                                                                  : DW_NONE;
  }
  if (in_planes && !few) return is_common(c) ? DW_PLANES : DW_ROWS;
  const bool to_planes = c->out.steps[2] == 1 || c->out.sizes[2] == 1;
  if (few && c->out.c_step != 1 && !to_planes) return DW_ROWS;
  if ((c->x.c_step != 1 && !few) || c->c_out != 1 || (c->out.c_step != 1 && !to_planes))
    return DW_NONE;
  const bool is_flat =
      c->x.sizes[0] == 1 && c->kernel[0] == 1 && c->out.sizes[0] == 1 && c->padding[0] == 0;
  const bool is_last = c->x.c_step == 1 && c->out.c_step == 1;
  return c->dtype == ET_F32 && is_flat && is_last ? DW_PIXELS : DW_STAGED;
}

// ---- planes read in place, or widened

typedef struct planes_run {
  const eti_conv *c;
  eti_direct_conv_plane_fn run;
  size_t n_units, n_slots;
  char *scratch;  // half types
} planes_run;

static size_t n_planes(const eti_conv *c) {
  return c->n_images * c->groups * c->c_out * (size_t)c->out.sizes[0];
}

// Finds the geometry of plane `unit`, and its first elements in the input and in the result.
static eti_direct_conv_plane find_plane(const eti_conv *c, size_t unit, float *w, ptrdiff_t *x,
                                        ptrdiff_t *out) {
  const size_t channels = c->groups * c->c_out, depth = (size_t)c->out.sizes[0];
  const size_t z = unit % depth, channel = unit / depth % channels, n = unit / depth / channels;
  eti_dw_weights(c, channel, w);
  *x = (ptrdiff_t)n * c->x.n_step + (ptrdiff_t)(channel / c->c_out) * c->x.c_step +
       (ptrdiff_t)z * (ptrdiff_t)c->stride[0] * c->x.steps[0];
  *out = (ptrdiff_t)n * c->out.n_step + (ptrdiff_t)channel * c->out.c_step +
         (ptrdiff_t)z * c->out.steps[0];
  return (eti_direct_conv_plane){
      .out_step = c->out.steps[1],
      .x_step = c->x.steps[1],
      .rows = (size_t)c->out.sizes[1],
      .cols = (size_t)c->out.sizes[2],
      .height = (ptrdiff_t)c->x.sizes[1],
      .width = (ptrdiff_t)c->x.sizes[2],
      .top = (ptrdiff_t)c->padding[1],
      .left = (ptrdiff_t)c->padding[2],
      .w = w,
      .bias = eti_dw_bias(c, channel),
      .range = c->range,
  };
}

static void run_planes(void *ctx, size_t begin, size_t end) {
  const planes_run *const r = ctx;
  const eti_conv *const c = r->c;
  for (size_t u = begin; u < end; u++) {
    float w[ETI_DW_TAPS];
    ptrdiff_t x, out;
    eti_direct_conv_plane p = find_plane(c, u, w, &x, &out);
    p.x = (const float *)(const void *)c->x.data + x;
    p.out = (float *)(uintptr_t)c->out.data + out;
    r->run(&p);
    if (c->epilogue != NULL) eti_dw_epilogue(c, out, c->out.steps[1], p.rows, p.cols);
  }
}

// Number of rows of the result that are widened together.
static size_t widened_rows(const eti_conv *c) {
  const size_t height = (size_t)c->out.sizes[1],
               each = (size_t)c->out.sizes[2] + (size_t)(c->x.sizes[2] * c->stride[1]);
  const size_t rows = ETI_DW_FLOATS / each;
  return rows >= height                      ? height
         : rows < ETI_DIRECT_CONV_PLANE_ROWS ? ETI_DIRECT_CONV_PLANE_ROWS
                                             : rows;
}

static size_t widened_floats(const eti_conv *c) {
  const size_t rows = widened_rows(c);
  return rows * (size_t)c->out.sizes[2] +
         ((rows - 1) * (size_t)c->stride[1] + (size_t)c->kernel[1]) * (size_t)c->x.sizes[2];
}

// Computes rows y … y + p.rows of a plane with the geometry p.
static void run_widened_rows(const planes_run *r, eti_direct_conv_plane p, float *stage,
                             ptrdiff_t x, ptrdiff_t out, size_t y) {
  const eti_conv *const c = r->c;
  const ptrdiff_t first = (ptrdiff_t)y * (ptrdiff_t)c->stride[1] - p.top;
  const ptrdiff_t after =
      first + (ptrdiff_t)((p.rows - 1) * (size_t)c->stride[1]) + (ptrdiff_t)c->kernel[1];
  const ptrdiff_t from = first < 0 ? 0 : first, to = after < p.height ? after : p.height;
  // Small planes are whole rows without gaps: one conversion serves all of them.
  const ptrdiff_t n_reads = p.x_step == p.width && from < to ? 1 : to - from;
  const size_t read = (size_t)(n_reads == 1 ? (to - from) * p.width : p.width);
  for (ptrdiff_t i = 0; i < n_reads; i++)
    eti_dw_read(c, stage + i * p.width, x + (from + i) * p.x_step, read);
  p.x = stage;
  p.x_step = p.width;
  p.top = from - first;
  p.height = to - from;
  p.out = stage + ((p.rows - 1) * (size_t)c->stride[1] + (size_t)c->kernel[1]) * (size_t)p.width;
  p.out_step = (ptrdiff_t)p.cols;
  r->run(&p);
  const size_t n_writes = c->out.steps[1] == p.out_step ? 1 : p.rows;
  for (size_t i = 0; i < n_writes; i++) {
    eti_dw_write(c, out + (ptrdiff_t)(y + i) * c->out.steps[1], 1, p.out + i * p.cols,
                 p.rows / n_writes * p.cols);
  }
}

static void run_widened_planes(void *ctx, size_t begin, size_t end) {
  const planes_run *const r = ctx;
  const eti_conv *const c = r->c;
  const size_t height = (size_t)c->out.sizes[1], rows = widened_rows(c);
  for (size_t slot = begin; slot < end; slot++) {
    float *const stage =
        (float *)(void *)(r->scratch + slot * eti_dw_slot_bytes(widened_floats(c)));
    for (size_t u = slot * r->n_units / r->n_slots; u < (slot + 1) * r->n_units / r->n_slots; u++) {
      float w[ETI_DW_TAPS];
      ptrdiff_t x, out;
      eti_direct_conv_plane p = find_plane(c, u, w, &x, &out);
      p.rows = rows;
      // The last rows may be computed twice.
      for (size_t y = 0; y < height; y += rows)
        run_widened_rows(r, p, stage, x, out, height - y < rows ? height - rows : y);
    }
  }
}

static bool run_common(const et_kernel_ctx *ctx, const eti_conv *c) {
  const size_t each = c->pixels * c->n_taps / (size_t)c->out.sizes[0];
  planes_run r = {.c = c,
                  .run = eti_direct_conv_micro_best()->planes[c->kernel[1] == 5][c->stride[1] == 2],
                  .n_units = n_planes(c),
                  .scratch = ctx->scratch};
  if (c->dtype == ET_F32) {
    et_parallel_for(ctx->pool, run_planes, &r, r.n_units, ETI_DW_SMALL_RUN / each + 1);
    *c->epilogue_done = c->epilogue != NULL;
    return true;
  }
  r.n_slots = eti_dw_n_slots(ctx, eti_dw_slot_bytes(widened_floats(c)), r.n_units * each);
  if (r.n_slots == 0) return false;
  et_parallel_for(ctx->pool, run_widened_planes, &r, r.n_slots, 1);
  return true;
}

// ---- entries

bool eti_conv_depthwise_run(const et_kernel_ctx *ctx, const eti_conv *c) {
  switch (kind_of(c)) {
    case DW_PLANES:
      return run_common(ctx, c);
    case DW_ROWS:
      return eti_dw_rows_run(ctx, c);
    case DW_PIXELS:
      eti_dw_pixels_run(ctx, c);
      return true;
    case DW_STAGED:
      // Sizes that prepare did not see may have room for rows only.
      return eti_dw_staged_run(ctx, c) || (is_in_planes(c) && eti_dw_rows_run(ctx, c));
    case DW_NONE:
      break;
  }
  return false;
}

enum { MEASURED_PHASES = 64 };  // more of them only come with strides larger than any kernel

// Scratch per thread of one phase; *fits is false if it would be too much.
static size_t slot_of_phase(const eti_conv *p, bool *fits) {
  const dw_kind kind = kind_of(p);
  size_t bytes = 0;
  if (kind == DW_ROWS || kind == DW_STAGED) {
    bytes = kind == DW_ROWS ? eti_dw_rows_bytes(p) : eti_dw_staged_bytes(p);
    *fits = bytes != 0;
  } else if (kind == DW_PLANES && p->dtype != ET_F32) {
    bytes = eti_dw_slot_bytes(widened_floats(p));
    *fits = bytes <= ETI_DW_MAX_FLOATS * sizeof(float);
  }
  return bytes;
}

et_status eti_conv_depthwise_prepare(et_prepare_ctx *ctx, const eti_conv *c, eti_conv_state *ready,
                                     bool *taken) {
  const size_t n_phases = eti_conv_n_phases(c), threads = ctx->n_threads == 0 ? 1 : ctx->n_threads;
  const eti_conv first = eti_conv_phase(c, 0);
  const dw_kind kind = kind_of(&first);
  *taken = false;
  if (kind == DW_NONE || (kind == DW_PIXELS && c->w == NULL)) return ET_OK;
  size_t most = 0;
  for (size_t i = 0; i < n_phases && i < MEASURED_PHASES; i++) {
    const eti_conv p = eti_conv_phase(c, i);
    bool fits = true;
    const size_t bytes = slot_of_phase(&p, &fits);
    if (!fits) return ET_OK;
    if (bytes > most) most = bytes;
  }
  const bool packs = (kind == DW_PIXELS || kind == DW_STAGED) && c->w != NULL &&
                     (n_phases > 1 || !eti_dw_is_taps_first(&first));
  if (most * threads > ctx->scratch_bytes) ctx->scratch_bytes = most * threads;
  *taken = true;
  if (!packs) return ET_OK;
  ready->way = ETI_CONV_DEPTHWISE;
  ready->panels = et_prepare_alloc(ctx, c->n_taps * c->groups * sizeof(float), 64);
  return et_prepare_status(ctx);
}
