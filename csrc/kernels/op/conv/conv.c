// conv.c — aten::convolution in one, two and three dimensions: grouped, dilated, transposed, any
// layout. Every convolution is a product per image and group: weights [c_out × K] times patches
// [K × pixels], with K over taps (z, y, x), then input channels; patches are gathered block by
// block during the product. It has two layouts:
//   by pixel    rows are output channels, columns pixels: images stored plane by plane
//   by channel  rows are pixels, columns output channels: channels-last images, and planes that
//               are worth transposing to channels-last
// conv_pack.c packs weights and patches into panels. A transposed convolution runs as several plain
// ones (conv_phases.c, and conv_nonfinite.c for weights that are not finite); depthwise
// convolutions of floats are direct (conv_depthwise.c). All methods add in the same order: bias,
// then K ascending, in the chunks of gemm.h.
#include "kernels/op/conv/conv.h"

#include "kernels/kernel.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/lib/packed_weight.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"

#include <string.h>

#define CONV_TYPES ET_TYPES_REAL_HALF

// ---- reading the arguments

// Reads a list of 1 or `spatial` integers into the last `spatial` of three.
static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           size_t spatial, const char *what, int64_t least, int64_t fill,
                           int64_t out[3]) {
  for (size_t d = 0; d < 3; d++) out[d] = fill;
  return eti_arg_spatial(ctx, args, i, "convolution", what, spatial, least, false, out);
}

static eti_image image_of(const et_tensor *t, size_t spatial) {
  eti_image im = {
      .data = t->data, .sizes = {1, 1, 1}, .n_step = t->strides[0], .c_step = t->strides[1]};
  for (size_t d = 0; d < spatial; d++) {
    im.sizes[3 - spatial + d] = t->sizes[2 + d];
    im.steps[3 - spatial + d] = t->strides[2 + d];
  }
  return im;
}

static et_status check_types(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *w,
                             const et_tensor *bias, const et_tensor *out) {
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, CONV_TYPES), ctx->err, ET_NOT_SUPPORTED,
           "convolution: dtype %s is not supported", et_dtype_name((et_dtype)x->dtype));
  ET_CHECK(
      x->dtype == w->dtype && x->dtype == out->dtype && (bias == NULL || bias->dtype == x->dtype),
      ctx->err, ET_INVALID_ARGUMENT,
      "convolution: expected one dtype for all, got input %s, weight %s, bias %s, out %s",
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)w->dtype),
      bias == NULL ? "absent" : et_dtype_name((et_dtype)bias->dtype),
      et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status read_channels(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *w,
                               const et_tensor *bias, int64_t groups, eti_conv *c) {
  ET_CHECK(groups >= 1 && groups <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: groups: expected 1 or more, got %lld", (long long)groups);
  const int64_t outer = w->sizes[0], inner = w->sizes[1];
  const int64_t all_in = c->transposed ? outer : inner * groups,
                all_out = c->transposed ? inner * groups : outer;
  ET_CHECK(outer % groups == 0 && all_in == x->sizes[1], ctx->err, ET_INVALID_ARGUMENT,
           "convolution: expected input of %lld channels for a weight of %lld x %lld channels and "
           "groups %lld, got %d",
           (long long)all_in, (long long)outer, (long long)inner, (long long)groups,
           (int)x->sizes[1]);
  ET_CHECK(all_out <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: expected at most %ld output channels, got %lld", (long)INT32_MAX,
           (long long)all_out);
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(bias == NULL || (bias->rank == 1 && bias->sizes[0] == all_out), ctx->err,
           ET_INVALID_ARGUMENT,
           "convolution: bias: expected one entry for each of %lld output channels, got %s",
           (long long)all_out, eti_tensor_text(bias, found));
  c->groups = (size_t)groups;
  c->c_in = (size_t)(all_in / groups);
  // Without input channels ATen has no output channels, for any weights.
  c->c_out = all_in == 0 && !c->transposed ? 0 : (size_t)(all_out / groups);
  const size_t o = c->transposed ? 1 : 0;
  c->w_out_step = w->strides[o];
  c->w_in_step = w->strides[1 - o];
  c->w_group_step = w->strides[0] * (ptrdiff_t)(c->transposed ? c->c_in : c->c_out);
  return ET_OK;
}

static et_status output_shape(const et_kernel_ctx *ctx, const eti_conv *c,
                              const int64_t output_padding[3], size_t spatial, eti_shape *shape) {
  shape->rank = spatial + 2;
  shape->sizes[0] = (int32_t)c->n_images;
  shape->sizes[1] = (int32_t)(c->c_out * c->groups);
  for (size_t d = 3 - spatial; d < 3; d++) {
    const int64_t reach = c->dilation[d] * (c->kernel[d] - 1) + 1, in = c->x.sizes[d];
    int64_t size;
    if (c->transposed) {
      size = (in - 1) * c->stride[d] - 2 * c->padding[d] + reach + output_padding[d];
    } else {
      const int64_t room = in + 2 * c->padding[d] - reach;
      size = room < 0 ? -1 : room / c->stride[d] + 1;
    }
    ET_CHECK(size >= 0 && size <= INT32_MAX && c->kernel[d] > 0 && in >= 0, ctx->err,
             ET_INVALID_ARGUMENT,
             "convolution: input size %lld and kernel size %lld (padding %lld, dilation %lld) give "
             "no valid output size",
             (long long)in, (long long)c->kernel[d], (long long)c->padding[d],
             (long long)c->dilation[d]);
    shape->sizes[2 + d - (3 - spatial)] = (int32_t)size;
  }
  return ET_OK;
}

et_status eti_conv_read(const et_kernel_ctx *ctx, et_value *const *args, eti_conv *c) {
  et_tensor *x, *w, *bias, *out;
  int64_t groups = 0, output_padding[3];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &bias));
  ET_TRY(eti_arg_tensor(ctx, args, 9, &out));
  ET_CHECK(w->rank >= 3 && w->rank <= 5 && x->rank == w->rank, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: expected rank 3, 4 or 5 for both, got input %d and weight %d",
           (int)x->rank, (int)w->rank);
  const size_t spatial = w->rank - 2u;
  ET_TRY(check_types(ctx, x, w, bias, out));
  ET_TRY(read_list(ctx, args, 3, spatial, "stride", 1, 1, c->stride));
  ET_TRY(read_list(ctx, args, 4, spatial, "padding", 0, 0, c->padding));
  ET_TRY(read_list(ctx, args, 5, spatial, "dilation", 1, 1, c->dilation));
  ET_TRY(eti_arg_bool(ctx, args, 6, &c->transposed));
  ET_TRY(read_list(ctx, args, 7, spatial, "output_padding", 0, 0, output_padding));
  ET_TRY(eti_arg_int(ctx, args, 8, &groups));
  ET_TRY(read_channels(ctx, x, w, bias, groups, c));
  c->dtype = (et_dtype)x->dtype;
  c->esize = et_dtype_bytes(c->dtype);
  c->x_dtype = c->dtype;
  c->x_esize = c->esize;
  c->x = image_of(x, spatial);
  c->n_images = (size_t)x->sizes[0];
  c->w = w->data;
  c->bias = bias == NULL ? NULL : bias->data;
  const eti_image kernel = image_of(w, spatial);
  memcpy(c->kernel, kernel.sizes, sizeof c->kernel);
  memcpy(c->w_steps, kernel.steps, sizeof c->w_steps);
  eti_shape shape;
  ET_TRY(output_shape(ctx, c, output_padding, spatial, &shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  c->out = image_of(out, spatial);
  c->n_taps = (size_t)(c->kernel[0] * c->kernel[1] * c->kernel[2]);
  c->k = c->n_taps * c->c_in;
  c->pixels = (size_t)(c->out.sizes[0] * c->out.sizes[1] * c->out.sizes[2]);
  if (c->stored == NULL) return ET_OK;
  ET_CHECK(!c->transposed, ctx->err, ET_NOT_SUPPORTED,
           "convolution: packed weights: expected transposed False, got True");
  return eti_packed_weight_check(ctx, "convolution", c->stored, c->groups, c->c_out, c->k);
}

// ---- layouts

// True if the product can read the input in place, without gathering patches.
static bool is_pointwise(const eti_conv *c) {
  for (size_t d = 0; d < 3; d++) {
    if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0 ||
        c->out.sizes[d] != c->x.sizes[d])
      return false;
  }
  return true;
}

static eti_conv_way best_way(const eti_conv *c) {
  const bool by_planes = c->out.c_step != 1 || c->out.steps[2] == 1;
  if (c->stored != NULL || !by_planes || c->ready.stage == ETI_CONV_TO_PIXELS ||
      (c->pixels <= ETI_CONV_FEW_PIXELS && c->c_out >= ETI_CONV_FEW_CHANNELS))
    return ETI_CONV_BY_CHANNEL;
  return ETI_CONV_BY_PIXEL;
}

// ---- bias and output of blocks that cannot be written in place

static void load_bias(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                      size_t n) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize;
  const ptrdiff_t src_es = (ptrdiff_t)c->esize;
  const bool by_channel = g->b.pack == eti_conv_pack_weights;
  const size_t first = g->job % c->groups * c->c_out + (by_channel ? j : i);
  const char *const bias = c->bias + (ptrdiff_t)first * src_es;
  for (size_t r = 0; r < m; r++) {
    eti_casts[c->dtype][g->kernel->dtype]((char *)tile + r * step * es, (ptrdiff_t)es,
                                          by_channel ? bias : bias + (ptrdiff_t)r * src_es,
                                          by_channel ? src_es : 0, n);
  }
}

// Stores pixels of outputs without one step between pixels: runs of pixels of one row, or pixel by
// pixel if pixels are the tile's rows.
static void store_pixels(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const eti_conv *const c = g->ctx;
  const eti_image *const out = &c->out;
  const ptrdiff_t es = (ptrdiff_t)g->kernel->esize, out_es = (ptrdiff_t)c->esize;
  const eti_cast_fn cast = eti_casts[g->kernel->dtype][c->dtype];
  const bool by_channel = g->b.pack == eti_conv_pack_weights;
  const size_t first_pixel = by_channel ? i : j, n_pixels = by_channel ? m : n;
  const ptrdiff_t first_channel = (ptrdiff_t)((by_channel ? j : i) + g->job % c->groups * c->c_out);
  char *const image =
      (char *)(uintptr_t)out->data +
      ((ptrdiff_t)(g->job / c->groups) * out->n_step + first_channel * out->c_step) * out_es;
  for (size_t p = 0, count; p < n_pixels; p += count) {
    const int64_t pixel = (int64_t)(first_pixel + p), row = pixel / out->sizes[2];
    const int64_t left = out->sizes[2] - pixel % out->sizes[2];
    const ptrdiff_t at = (ptrdiff_t)(row / out->sizes[1]) * out->steps[0] +
                         (ptrdiff_t)(row % out->sizes[1]) * out->steps[1] +
                         (ptrdiff_t)(pixel % out->sizes[2]) * out->steps[2];
    count = by_channel ? 1 : n_pixels - p < (size_t)left ? n_pixels - p : (size_t)left;
    if (by_channel) {
      cast(image + at * out_es, out->c_step * out_es, (char *)tile + (ptrdiff_t)(p * step) * es, es,
           n);
      continue;
    }
    for (size_t r = 0; r < m; r++) {
      cast(image + (at + (ptrdiff_t)r * out->c_step) * out_es, out->steps[2] * out_es,
           (char *)tile + (ptrdiff_t)(r * step + p) * es, es, count);
    }
  }
}

// ---- the product of one image and group

static void use_patches(const eti_conv *c, eti_gemm *g, bool as_a) {
  ptrdiff_t step;
  const ptrdiff_t at = (ptrdiff_t)(g->job / c->groups) * c->x.n_step +
                       (ptrdiff_t)(g->job % c->groups * c->c_in) * c->x.c_step;
  if (is_pointwise(c) && eti_conv_pixel_step(&c->x, &step)) {
    const eti_gemm_view view = {.data = c->x.data + at * (ptrdiff_t)c->x_esize,
                                .dtype = (uint8_t)c->x_dtype,
                                .row_step = step,
                                .k_step = c->x.c_step};
    if (as_a) {
      eti_gemm_use_a_view(g, view);
    } else {
      eti_gemm_use_b_view(g, view);
    }
    return;
  }
  const size_t height = as_a ? eti_gemm_a_most(g->kernel, g->m) : g->kernel->nr;
  *(as_a ? &g->a : &g->b) = (eti_gemm_operand){.height = height, .pack = eti_conv_pack_patches};
  const bool is_packed = c->stored != NULL || c->ready.panels != NULL;
  size_t row_room;
  const size_t segment = eti_conv_segment(c, &row_room);
  if (as_a && c->x.c_step == 1 && is_packed && c->ready.zeros != NULL && c->k > 0 && segment > 0 &&
      c->k <= segment * ETI_GEMM_MAX_SEGMENTS && c->x_esize == g->kernel->esize) {
    g->a = (eti_gemm_operand){.height = eti_gemm_rows_height(g->kernel, g->m),
                              .pack = eti_conv_pack_patches,
                              .point = eti_conv_point_pixels,
                              .segment = segment,
                              .row_room = row_room,
                              .head = c->head,
                              .tail = c->tail};
  }
}

static void use_weights(const eti_conv *c, eti_gemm *g, bool as_a) {
  if (c->stored != NULL) {
    g->b = eti_packed_weight_operand(g->kernel, c->w, g->job % c->groups, c->c_out, c->k);
    g->b.pack = eti_conv_pack_weights;  // names the weights; nothing is packed
    return;
  }
  const size_t height = c->ready.panels != NULL ? c->ready.height
                        : as_a                  ? eti_gemm_a_height(g->kernel, c->c_out)
                                                : g->kernel->nr;
  eti_gemm_operand *const o = as_a ? &g->a : &g->b;
  *o = (eti_gemm_operand){.height = height,
                          .panel_step = height * c->k,
                          .k_step = height,
                          .pack = eti_conv_pack_weights};
  if (c->ready.panels != NULL) {
    const size_t each = eti_gemm_packed_elements(c->c_out, height, c->k);
    o->data = (const char *)c->ready.panels + g->job % c->groups * each * g->kernel->esize;
  }
}

static void use_output(const eti_conv *c, eti_gemm *g, bool by_channel) {
  ptrdiff_t step = 0;
  const ptrdiff_t at = (ptrdiff_t)(g->job / c->groups) * c->out.n_step +
                       (ptrdiff_t)(g->job % c->groups * c->c_out) * c->out.c_step;
  if (eti_conv_pixel_step(&c->out, &step)) {
    eti_gemm_use_c_view(g, (eti_gemm_view){
                               .data = c->out.data + at * (ptrdiff_t)c->esize,
                               .dtype = (uint8_t)c->dtype,
                               .row_step = by_channel ? step : c->out.c_step,
                               .k_step = by_channel ? c->out.c_step : step,
                           });
  } else {
    g->c = NULL;
    g->store = store_pixels;
  }
  g->init = ETI_GEMM_ZERO;
  if (c->bias != NULL && c->dtype == (et_dtype)g->kernel->dtype) {
    g->init = by_channel ? ETI_GEMM_COLS : ETI_GEMM_ROWS;
    g->bias = c->bias + g->job % c->groups * c->c_out * c->esize;
  } else if (c->bias != NULL) {
    g->c = NULL;
    g->init = ETI_GEMM_KEEP;
    g->load = load_bias;
  }
}

// Applies the epilogue to a finished block of the result, row by row. The position of a block in a
// tile buffer is unknown.
static void finish_epilogue(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m,
                            size_t j, size_t n) {
  const eti_conv *const c = g->ctx;
  float *const rows = tile;
  (void)i, (void)j;
  const size_t at = g->c == NULL ? 0 : (size_t)(rows - (const float *)(const void *)c->result);
  eti_epilogue_rows(c->epilogue, rows, step, at, m, n);
}

static void describe_job(const void *ctx, size_t i, eti_gemm *g) {
  const eti_conv *const c = ctx;
  const bool by_channel = c->ready.way == ETI_CONV_BY_CHANNEL;
  (void)i;  // g->job
  use_weights(c, g, !by_channel);
  use_patches(c, g, by_channel);
  if (by_channel) eti_gemm_prefer_rows(g);
  use_output(c, g, by_channel);
  g->range = c->is_limited ? &c->range : NULL;
  const bool is_placed = g->c != NULL;
  const bool fits = c->epilogue != NULL && (is_placed || c->epilogue->epilogue->n_tensors == 0);
  g->finish = fits ? finish_epilogue : NULL;
}

// Describes the weights to eti_conv_pack_weights, which reads the group only.
static void describe_weights(const void *ctx, size_t i, eti_gemm *g) {
  (void)ctx, (void)i, (void)g;
}

static eti_acc acc_of(et_dtype dtype) {
  if (eti_dtype_in(dtype, ET_TYPES_INT)) return dtype == ET_I64 ? ETI_ACC_I64 : ETI_ACC_I32;
  return dtype == ET_F64 ? ETI_ACC_F64 : ETI_ACC_F32;
}

static eti_gemm shape_of(const eti_conv *c) {
  const bool by_channel = c->ready.way == ETI_CONV_BY_CHANNEL;
  return (eti_gemm){
      .kernel = eti_gemm_kernel_for(acc_of(c->dtype)),
      .m = by_channel ? c->pixels : c->c_out,
      .n = by_channel ? c->c_out : c->pixels,
      .k = c->k,
      .ctx = c,
  };
}

// ---- run and prepare

// Bytes of the packed weights of all groups; 0 when there are none or that overflows.
static size_t panel_bytes(const eti_conv *c, size_t height) {
  const size_t each = eti_gemm_packed_elements(c->c_out, height, c->k);
  size_t bytes;
  return __builtin_mul_overflow(each * eti_gemm_kernel_for(acc_of(c->dtype))->esize, c->groups,
                                &bytes)
             ? 0
             : bytes;
}

// Bytes of zeros that padding is read from: those of the longest segment.
static size_t zeros_bytes(const eti_conv *c) {
  const size_t taps = c->c_in < ETI_CONV_LONG_SEGMENT ? (size_t)c->kernel[2] : 1;
  return c->c_in * taps * eti_gemm_kernel_for(acc_of(c->dtype))->esize;
}

// Runs the product of a convolution or of a rectangle of it.
static void run_part(const et_kernel_ctx *ctx, eti_conv *c) {
  const eti_gemm shape = shape_of(c);
  if (c->ready.is_finite) {
    eti_conv_padding_taps(c, &c->head, &c->tail);
    c->head *= c->c_in;
    c->tail *= c->c_in;
  }
  eti_gemm_run(ctx->pool, &shape, c->n_images * c->groups, describe_job, c, ctx->scratch,
               ctx->scratch_bytes);
}

// Runs rectangles of the result, if that is faster. They are not always in place, as operands of
// an epilogue must be.
static __attribute__((noinline)) bool run_rectangles(const et_kernel_ctx *ctx, const eti_conv *c) {
  eti_conv_bands bands;
  const size_t n_parts = eti_conv_split(c, &bands);
  if (n_parts == 1) return false;
  const bool is_late = c->epilogue != NULL && c->epilogue->epilogue->n_tensors > 0;
  if (is_late) *c->epilogue_done = false;
  for (size_t i = 0; i < n_parts; i++) {
    eti_conv part = eti_conv_part(c, &bands, i);
    if (is_late) part.epilogue = NULL;
    run_part(ctx, &part);
  }
  return true;
}

static __attribute__((noinline)) void run_product(const et_kernel_ctx *ctx, eti_conv *c) {
  if (c->ready.way == ETI_CONV_DEPTHWISE) c->ready = (eti_conv_state){.way = best_way(c)};
  const eti_gemm shape = shape_of(c);
  eti_gemm first = shape;
  const bool is_asked = c->epilogue != NULL || c->ready.is_finite;
  if (is_asked && c->n_images * c->groups > 0) describe_job(c, 0, &first);
  if (c->epilogue != NULL) *c->epilogue_done = first.finish != NULL;
  if (c->ready.panels != NULL && !c->ready.is_packed) {
    eti_gemm_pack_all(ctx->pool, &shape, c->groups, describe_weights, c, eti_conv_pack_weights,
                      c->ready.panels, c->c_out, c->ready.height);
    if (c->ready.zeros != NULL) memset(c->ready.zeros, 0, zeros_bytes(c));
  }
  const bool reads_rows = c->ready.is_finite && first.a.point != NULL;
  if (!reads_rows || !run_rectangles(ctx, c)) run_part(ctx, c);
}

// Runs the phases of a convolution, with packed weights or without.
static void run_phases(const et_kernel_ctx *ctx, eti_conv c, size_t n_phases) {
  for (size_t i = 0; i < n_phases; i++) {
    eti_conv p = eti_conv_phase(&c, i);
    const bool depthwise = p.ready.way == ETI_CONV_DEPTHWISE;
    if (!eti_conv_depthwise_run(ctx, &p)) run_product(ctx, &p);
    if (c.ready.panels != NULL) {
      c.ready.panels = (char *)c.ready.panels + (depthwise ? p.n_taps * p.groups * sizeof(float)
                                                           : panel_bytes(&p, c.ready.height));
    }
  }
}

// Runs images one by one, each copied to scratch.
static void run_staged(const et_kernel_ctx *ctx, const eti_conv *c, size_t n_phases) {
  const size_t bytes = eti_conv_staged_bytes(c);
  et_kernel_ctx rest = *ctx;
  rest.scratch = (char *)ctx->scratch + bytes;
  rest.scratch_bytes = ctx->scratch_bytes - bytes;
  bool is_packed = c->ready.is_packed;
  for (size_t n = 0; n < c->n_images; n++) {
    eti_conv one = *c;
    one.n_images = 1;
    one.ready.is_packed = is_packed;
    one.x.data += (ptrdiff_t)(n * c->x_esize) * c->x.n_step;
    one.out.data += (ptrdiff_t)(n * c->esize) * c->out.n_step;
    eti_conv_stage_image(ctx, c->ready.stage, &one);
    run_phases(&rest, one, n_phases);
    is_packed = true;
  }
}

// Looks for weights that are not finite, once, when a run could leave some out. Those of a
// transposed convolution that comes here are finite.
static void check_weights(const eti_conv *c, eti_conv_state *state) {
  if (state->is_checked || !(c->transposed || eti_conv_leaves_out(c))) return;
  state->is_finite = c->transposed || !eti_conv_has_nonfinite_weights(c);
  state->is_checked = true;
}

// The epilogue is applied by the only phase, or over the whole result at the end.
void eti_conv_run(const et_kernel_ctx *ctx, eti_conv *c, const eti_epilogue_call *epilogue,
                  const et_tensor *out) {
  eti_conv_state *const state = ctx->state;
  const size_t n_phases = eti_conv_n_phases(c);
  bool is_done = false;
  c->epilogue = n_phases == 1 ? epilogue : NULL;
  c->epilogue_done = &is_done;
  c->result = out->data;
  // Packed weights were checked before they were packed.
  if (c->transposed && (state == NULL || !state->is_packed) && eti_conv_has_nonfinite_weights(c)) {
    eti_conv_nonfinite_run(ctx, c);
    if (epilogue != NULL) eti_epilogue_all(ctx->pool, epilogue, out, out);
    return;
  }
  if (state != NULL && (c->stored != NULL || state->panels != NULL)) {
    check_weights(c, state);
    c->ready = *state;
    if (c->stored != NULL) c->ready.way = ETI_CONV_BY_CHANNEL;
  } else if (n_phases > 0) {
    const eti_conv first = eti_conv_phase(c, 0);
    c->ready.way = best_way(&first);
  }
  if (c->ready.stage != ETI_CONV_IN_PLACE && c->ready.stage == eti_conv_stage_of(c) &&
      c->n_images > 0 && ctx->scratch_bytes >= eti_conv_staged_bytes(c)) {
    run_staged(ctx, c, n_phases);
  } else {
    run_phases(ctx, *c, n_phases);
  }
  c->epilogue_done = NULL;
  if (state != NULL) state->is_packed = state->panels != NULL;
  if (epilogue != NULL && !is_done) eti_epilogue_all(ctx->pool, epilogue, out, out);
}

et_status op_convolution_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_conv c = {.range = ETI_CLAMP_NONE};
  ET_TRY(eti_conv_read(ctx, args, &c));
  const et_tensor *const out = args[9]->as.tensor;
  ET_TRY(eti_conv_follow(ctx, ctx->state, out, &c));
  eti_conv_run(ctx, &c, NULL, out);
  return ET_OK;
}

static size_t product_bytes(const eti_conv *c, bool is_dynamic, size_t n_threads) {
  eti_gemm g = shape_of(c);
  describe_job(c, 0, &g);
  return eti_gemm_work_bytes(&g, is_dynamic, n_threads);
}

// Work memory for the products of a phase. Tensors without data are described with the address of
// the phase.
static size_t phase_bytes(eti_conv *phase, bool is_dynamic, size_t n_threads) {
  if (phase->n_images == 0 || phase->groups == 0) return 0;
  char *const any = (char *)phase;
  phase->out.data = any;
  if (phase->ready.stage != ETI_CONV_IN_PLACE) {
    eti_conv_use_stage(phase->ready.stage, any, phase);
  } else {
    phase->x.data = any;
  }
  if (phase->bias != NULL) phase->bias = any;
  if (phase->stored != NULL) phase->w = any;
  size_t most = product_bytes(phase, is_dynamic, n_threads);
  eti_conv_bands bands;
  const size_t n_parts = eti_conv_split(phase, &bands);
  for (size_t i = 0; i < n_parts && n_parts > 1; i++) {
    const eti_conv part = eti_conv_part(phase, &bands, i);
    most = eti_at_least(most, product_bytes(&part, is_dynamic, n_threads));
  }
  return most;
}

// Work memory for the products of all phases in the way of `ready`, with room for a staged image.
// Not inlined: its copy of the convolution leaves the stack when it returns.
static __attribute__((noinline)) size_t work_bytes(const eti_conv *c, const eti_conv_state *ready,
                                                   bool is_dynamic, size_t n_threads) {
  size_t most = 0;
  for (size_t i = 0; i < eti_conv_n_phases(c); i++) {
    eti_conv phase = eti_conv_phase(c, i);
    phase.ready = *ready;
    if (c->w != NULL || c->stored != NULL) phase.ready.panels = phase.ready.zeros = &phase;
    const size_t bytes = phase_bytes(&phase, is_dynamic, n_threads);
    if (bytes > most) most = bytes;
  }
  return most + (ready->stage != ETI_CONV_IN_PLACE ? eti_conv_staged_bytes(c) : 0);
}

// Claims scratch, and room for the panels of known weights.
static et_status claim_panels(et_prepare_ctx *ctx, const eti_conv *c, bool is_dynamic,
                              eti_conv_state *ready) {
  eti_conv first = eti_conv_phase(c, 0);
  const bool known = c->w != NULL || c->stored != NULL;
  const eti_conv_stage stage = eti_conv_stage_of(&first);
  if (known && stage == eti_conv_stage_of(c)) first.ready.stage = stage;
  first.ready.way = best_way(&first);
  ready->stage = first.ready.stage;
  ready->way = first.ready.way;
  const eti_gemm g = shape_of(&first);
  const bool by_channel = ready->way == ETI_CONV_BY_CHANNEL;
  if (known) ready->height = by_channel ? g.kernel->nr : eti_gemm_a_height(g.kernel, c->c_out);
  const size_t work = work_bytes(c, ready, is_dynamic, ctx->n_threads);
  if (work > ctx->scratch_bytes) ctx->scratch_bytes = work;
  if (!known) return ET_OK;
  const size_t bytes = panel_bytes(c, ready->height);  // the phases divide the taps
  if (bytes == 0) return ET_OK;
  if (c->stored == NULL) ready->panels = et_prepare_alloc(ctx, bytes, 64);
  // Converted pixels cannot be read in place.
  const bool in_place =
      by_channel && (c->esize == g.kernel->esize || ready->stage != ETI_CONV_IN_PLACE);
  if (in_place) ready->zeros = et_prepare_alloc(ctx, zeros_bytes(c), 64);
  if (c->stored != NULL && ready->zeros != NULL) memset(ready->zeros, 0, zeros_bytes(c));
  return et_prepare_status(ctx);
}

et_status eti_conv_prepare(et_prepare_ctx *ctx, et_value *const *args, const et_tensor *stored,
                           eti_conv_state ready) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_conv c = {.range = ETI_CLAMP_NONE, .stored = stored};
  if (!ctx->is_minimal) ET_TRY(eti_conv_read(&k, args, &c));
  if (!ctx->is_minimal && eti_conv_n_phases(&c) > 0) {
    bool taken = false;
    ET_TRY(eti_conv_depthwise_prepare(ctx, &c, &ready, &taken));
    const bool is_dynamic = (args[9]->as.tensor->flags & ET_TENSOR_DYNAMIC) != 0;
    if (!taken) ET_TRY(claim_panels(ctx, &c, is_dynamic, &ready));
  }
  eti_conv_state *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(eti_conv_state));
  if (state == NULL) return et_prepare_status(ctx);
  *state = ready;
  ctx->state = state;
  return ET_OK;
}

et_status prepare_convolution_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_conv_prepare(ctx, args, NULL, (eti_conv_state){.panels = NULL});
}
