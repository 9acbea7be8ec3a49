// resample.c — upsample_nearest2d and upsample_bilinear2d: resizing of images [N, C, H, W], any
// layout and real type. Positions and weights follow torch's formulas in f32 (f64 for f64); each
// output row is computed from two input rows. Relies on the cast table, and on resize_u8.h for u8
// images. Upstream computes integers, u8 too, in f32 and truncates them; here this is done for
// types that eager does not support.
#include "kernels/lib/resize_u8.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { ROW = ETI_ON_STACK(256, 16) };  // outputs computed at a time

typedef struct resample {
  const char *op;
  const et_tensor *x, *out;
  int64_t in[2], size[2];
  double scale[2];  // input steps per output step
  bool align_corners;
} resample;

// ---- arguments

// Reads the output size: given, or ⌊input · factor⌋; factors also set the scale.
static et_status read_size(const et_kernel_ctx *ctx, et_value *const *args, size_t factors_at,
                           resample *r) {
  int64_t given[2] = {0};
  double factors[2] = {0};
  bool has_size = false, has_factors = false;
  size_t n = 2, n_factors = 2;
  ET_TRY(eti_arg_optional_ints(ctx, args, 1, &has_size, given, 2, &n));
  ET_TRY(eti_arg_optional_doubles(ctx, args, factors_at, &has_factors, factors, 2, &n_factors));
  ET_CHECK(has_size != has_factors, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected either output_size or scale_factors, got %s", r->op,
           has_size ? "both" : "neither");
  ET_CHECK((!has_size || n == 2) && (!has_factors || n_factors == 2), ctx->err, ET_INVALID_ARGUMENT,
           "%s: %s: expected 2 entries, got %zu", r->op, has_size ? "output_size" : "scale_factors",
           has_size ? n : n_factors);
  for (size_t d = 0; d < 2; d++) {
    const double size = has_size ? (double)given[d] : floor((double)r->in[d] * factors[d]);
    ET_CHECK(size >= 1.0 && size <= (double)INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "%s: dimension %zu: expected an output size of 1 or more, got %g", r->op, d + 2, size);
    r->size[d] = (int64_t)size;
    if (r->align_corners) {
      r->scale[d] = r->size[d] > 1 ? (double)(r->in[d] - 1) / (double)(r->size[d] - 1) : 0.0;
    } else {
      r->scale[d] = has_factors && factors[d] > 0.0 ? 1.0 / factors[d]
                                                    : (double)r->in[d] / (double)r->size[d];
    }
  }
  return ET_OK;
}

static et_status read_resample(const et_kernel_ctx *ctx, et_value *const *args, size_t factors_at,
                               size_t out_at, resample *r) {
  et_tensor *x, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, out_at, &out));
  ET_CHECK(x->rank == 4, ctx->err, ET_INVALID_ARGUMENT, "%s: input: expected rank 4, got %d", r->op,
           (int)x->rank);
  ET_CHECK(
      eti_dtype_in((et_dtype)x->dtype, ET_TYPES_REAL_HALF) && x->dtype == out->dtype && out != x,
      ctx->err, ET_INVALID_ARGUMENT,
      "%s: expected one real dtype and another tensor as out, got input %s, out %s", r->op,
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  r->in[0] = x->sizes[2];
  r->in[1] = x->sizes[3];
  ET_CHECK(r->in[0] > 0 && r->in[1] > 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: input: expected spatial dimensions of 1 or more, got 0", r->op);
  ET_TRY(read_size(ctx, args, factors_at, r));
  const eti_shape shape = {
      .rank = 4, .sizes = {x->sizes[0], x->sizes[1], (int32_t)r->size[0], (int32_t)r->size[1]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  r->x = x;
  r->out = out;
  return ET_OK;
}

static char *row_at(const et_tensor *t, size_t plane, int64_t y) {
  const size_t channels = (size_t)t->sizes[1];
  const ptrdiff_t at = (ptrdiff_t)(plane / channels) * t->strides[0] +
                       (ptrdiff_t)(plane % channels) * t->strides[1] + (ptrdiff_t)y * t->strides[2];
  return (char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

// ---- nearest

static int64_t nearest_index(const resample *r, size_t d, int64_t o) {
  const int64_t i = (int64_t)floorf((float)o * (float)r->scale[d]);
  return i < r->in[d] - 1 ? i : r->in[d] - 1;
}

// out[i] = in[from[i]], n elements of `bytes` bytes; steps in bytes.
static void gather_elements(char *out, ptrdiff_t out_step, const char *in, ptrdiff_t in_step,
                            const int32_t *from, size_t n, size_t bytes) {
#define PICK(T)                                   \
  for (size_t i = 0; i < n; i++)                  \
  *(T *)(void *)(out + (ptrdiff_t)i * out_step) = \
      *(const T *)(const void *)(in + (ptrdiff_t)from[i] * in_step)
  switch (bytes) {
    case 1:
      PICK(uint8_t);
      break;
    case 2:
      PICK(uint16_t);
      break;
    case 4:
      PICK(uint32_t);
      break;
    default:
      PICK(uint64_t);
      break;
  }
#undef PICK
}

// Outputs of one input row are grouped: the first row is computed, the others copy it.
static void nearest_rows(void *ctx, size_t begin, size_t end) {
  const resample *const r = ctx;
  const size_t es = et_dtype_bytes((et_dtype)r->x->dtype), height = (size_t)r->size[0];
  const ptrdiff_t in_step = r->x->strides[3] * (ptrdiff_t)es,
                  out_step = r->out->strides[3] * (ptrdiff_t)es;
  for (int64_t x0 = 0; x0 < r->size[1]; x0 += ROW) {
    const size_t n = r->size[1] - x0 < ROW ? (size_t)(r->size[1] - x0) : ROW;
    int32_t from[ROW];
    for (size_t i = 0; i < n; i++) from[i] = (int32_t)nearest_index(r, 1, x0 + (int64_t)i);
    const char *last_in = NULL, *last_out = NULL;
    for (size_t u = begin; u < end; u++) {
      const char *const in = row_at(r->x, u / height, nearest_index(r, 0, (int64_t)(u % height)));
      char *const out =
          row_at(r->out, u / height, (int64_t)(u % height)) + (ptrdiff_t)x0 * out_step;
      if (in == last_in && out_step == (ptrdiff_t)es) {
        memcpy(out, last_out, n * es);
      } else {
        gather_elements(out, out_step, in, in_step, from, n, es);
      }
      last_in = in;
      last_out = out;
    }
  }
}

// ---- channels last: a pixel's channels are copied, or blended, together

static bool channels_last(const resample *r) {
  return r->x->sizes[1] > 1 && r->x->strides[1] == 1 && r->out->strides[1] == 1;
}

// The first channel of a pixel.
static char *pixel_at(const et_tensor *t, size_t image, int64_t y, int64_t x) {
  const ptrdiff_t at = (ptrdiff_t)image * t->strides[0] + (ptrdiff_t)y * t->strides[2] +
                       (ptrdiff_t)x * t->strides[3];
  return (char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

// Each item is a row of pixels: images × height.
static void nearest_pixels(void *ctx, size_t begin, size_t end) {
  const resample *const r = ctx;
  const size_t bytes = (size_t)r->x->sizes[1] * et_dtype_bytes((et_dtype)r->x->dtype);
  const size_t height = (size_t)r->size[0];
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)r->x->dtype),
                  in_step = r->x->strides[3] * es, out_step = r->out->strides[3] * es;
  ptrdiff_t from[ROW];
  for (int64_t x0 = 0; x0 < r->size[1]; x0 += ROW) {
    const size_t n = r->size[1] - x0 < ROW ? (size_t)(r->size[1] - x0) : ROW;
    for (size_t i = 0; i < n; i++)
      from[i] = (ptrdiff_t)nearest_index(r, 1, x0 + (int64_t)i) * in_step;
    for (size_t u = begin; u < end; u++) {
      const int64_t y = (int64_t)(u % height);
      const char *const in = pixel_at(r->x, u / height, nearest_index(r, 0, y), 0);
      char *const out = pixel_at(r->out, u / height, y, x0);
      for (size_t i = 0; i < n; i++)
        eti_copy_bytes(out + (ptrdiff_t)i * out_step, in + from[i], bytes);
    }
  }
}

// ---- bilinear

typedef struct blend {
  int64_t low, high;
  double low_weight, high_weight;
} blend;

// The two input positions of output o, and their weights. Rounded as in torch: to f32 unless the
// images are f64.
static blend blend_of(const resample *r, size_t d, int64_t o, bool wide) {
  double at;
  if (wide) {
    at = r->align_corners ? r->scale[d] * (double)o : r->scale[d] * ((double)o + 0.5) - 0.5;
  } else {
    const float scale = (float)r->scale[d];
    at = (double)(r->align_corners ? scale * (float)o : scale * ((float)o + 0.5f) - 0.5f);
  }
  if (at < 0.0) at = 0.0;
  blend b = {.low = (int64_t)at};
  if (b.low > r->in[d] - 1) b.low = r->in[d] - 1;
  b.high = b.low < r->in[d] - 1 ? b.low + 1 : b.low;
  b.high_weight = at - (double)b.low;
  if (b.high_weight > 1.0) b.high_weight = 1.0;
  b.low_weight = 1.0 - b.high_weight;
  if (!wide) b.low_weight = (double)(1.0f - (float)b.high_weight);
  return b;
}

static double load_element(const char *row, ptrdiff_t step, int64_t x, uint8_t dtype) {
  const char *const at = row + (ptrdiff_t)x * step;
  double value;
  switch (dtype) {
    case ET_F32:
      return (double)*(const float *)(const void *)at;
    case ET_F64:
      return *(const double *)(const void *)at;
    default:
      eti_casts[dtype][ET_F64](&value, 8, at, 0, 1);
      return value;
  }
}

// Interpolates n numbers between four others.
#define BLEND(T)                                                                              \
  static void blend_##T(T *restrict to, const T *const corner[4], const blend *down,          \
                        const blend *across, size_t n) {                                      \
    const T top = (T)down->low_weight, bottom = (T)down->high_weight;                         \
    const T left = (T)across->low_weight, right = (T)across->high_weight;                     \
    const T *const tl = corner[0], *const tr = corner[1], *const bl = corner[2],              \
                   *const br = corner[3];                                                     \
    for (size_t i = 0; i < n; i++)                                                            \
      to[i] = top * (left * tl[i] + right * tr[i]) + bottom * (left * bl[i] + right * br[i]); \
  }
BLEND(float)
BLEND(double)
#undef BLEND

enum { PART = ETI_ON_STACK(2048, 64) };  // f32 elements of a row of pixels widened together

// Widened parts of the two input rows, and outputs between them.
typedef struct wide_parts {
  float in[2][PART], out[PART];
} wide_parts;

// The input rows and columns of an output row.
typedef struct pixel_row {
  char *out;
  const char *in[2];
  ptrdiff_t in_step, out_step;  // bytes from pixel to pixel
  size_t channels;
  blend down;
  const blend *across;
} pixel_row;

static void corners_of(const pixel_row *p, size_t i, const char *corner[4]) {
  for (size_t c = 0; c < 4; c++) {
    const int64_t x = c % 2 == 0 ? p->across[i].low : p->across[i].high;
    corner[c] = p->in[c / 2] + (ptrdiff_t)x * p->in_step;
  }
}

// Blends pixels of f32 or f64 in place.
static void blend_direct(const pixel_row *p, size_t n, bool wide) {
  for (size_t i = 0; i < n; i++) {
    const char *corner[4];
    corners_of(p, i, corner);
    char *const out = p->out + (ptrdiff_t)i * p->out_step;
    if (wide) {
      const double *at[4];
      for (size_t c = 0; c < 4; c++) at[c] = (const double *)(const void *)corner[c];
      blend_double((double *)(void *)out, at, &p->down, &p->across[i], p->channels);
    } else {
      const float *at[4];
      for (size_t c = 0; c < 4; c++) at[c] = (const float *)(const void *)corner[c];
      blend_float((float *)(void *)out, at, &p->down, &p->across[i], p->channels);
    }
  }
}

// Blends pixels of another type: those of a part of the row are widened once, for all outputs that
// use them. Channels are processed ROW at a time if pixels are not adjacent, or have very many.
static void blend_widened(const pixel_row *p, size_t n, et_dtype dtype, wide_parts *parts) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes(dtype), side = (ptrdiff_t)p->channels * es;
  const bool whole = p->in_step == side && p->out_step == side && p->channels <= PART / 2;
  const eti_cast_fn widen = eti_casts[dtype][ET_F32], narrow = eti_casts[ET_F32][dtype];
  const size_t most = whole ? p->channels : ROW;
  for (size_t c0 = 0; c0 < p->channels; c0 += most) {
    const size_t channels = p->channels - c0 < most ? p->channels - c0 : most;
    const size_t room = whole ? PART / channels : 2;  // pixels of a part
    for (size_t i = 0; i < n;) {
      const int64_t first = p->across[i].low;
      size_t end = i + 1;
      while (whole && end < n && end - i < room && p->across[end].high - first + 1 <= (int64_t)room)
        end++;
      const size_t pixels = (size_t)(p->across[end - 1].high - first + 1);
      for (size_t row = 0; row < 2; row++) {
        for (size_t k = 0; k < (whole ? 1 : pixels); k++) {
          const char *const from =
              p->in[row] + ((ptrdiff_t)first + (ptrdiff_t)k) * p->in_step + (ptrdiff_t)c0 * es;
          widen(parts->in[row] + k * channels, 4, from, es, whole ? pixels * channels : channels);
        }
      }
      for (size_t j = i; j < end; j++) {
        const size_t low = (size_t)(p->across[j].low - first) * channels,
                     high = (size_t)(p->across[j].high - first) * channels;
        const float *const at[4] = {parts->in[0] + low, parts->in[0] + high, parts->in[1] + low,
                                    parts->in[1] + high};
        blend_float(parts->out + (j - i) * channels, at, &p->down, &p->across[j], channels);
      }
      narrow(p->out + (ptrdiff_t)i * p->out_step + (ptrdiff_t)c0 * es, es, parts->out, 4,
             (end - i) * channels);
      i = end;
    }
  }
}

static void bilinear_pixels(void *ctx, size_t begin, size_t end) {
  const resample *const r = ctx;
  const et_dtype dtype = (et_dtype)r->x->dtype;
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes(dtype);
  const bool wide = dtype == ET_F64;
  const size_t height = (size_t)r->size[0];
  blend across[ROW];
  wide_parts parts;
  pixel_row p = {.in_step = r->x->strides[3] * es,
                 .out_step = r->out->strides[3] * es,
                 .channels = (size_t)r->x->sizes[1],
                 .across = across};
  for (int64_t x0 = 0; x0 < r->size[1]; x0 += ROW) {
    const size_t n = r->size[1] - x0 < ROW ? (size_t)(r->size[1] - x0) : ROW;
    for (size_t i = 0; i < n; i++) across[i] = blend_of(r, 1, x0 + (int64_t)i, wide);
    for (size_t u = begin; u < end; u++) {
      const size_t image = u / height;
      const int64_t y = (int64_t)(u % height);
      p.down = blend_of(r, 0, y, wide);
      p.in[0] = pixel_at(r->x, image, p.down.low, 0);
      p.in[1] = pixel_at(r->x, image, p.down.high, 0);
      p.out = pixel_at(r->out, image, y, x0);
      if (wide || dtype == ET_F32) {
        blend_direct(&p, n, wide);
      } else {
        blend_widened(&p, n, dtype, &parts);
      }
    }
  }
}

// Widens both input rows of a row of outputs to f32, if they have another type and fit; *from is
// the first position available.
static bool widen_rows(const resample *r, const char *const in[2], const blend *across, size_t n,
                       float rows[2][2 * ROW], int64_t *from) {
  const et_dtype dtype = (et_dtype)r->x->dtype;
  const ptrdiff_t step = r->x->strides[3] * (ptrdiff_t)et_dtype_bytes(dtype);
  const int64_t count = across[n - 1].high - across[0].low + 1;
  *from = across[0].low;
  if (dtype == ET_F32 || dtype == ET_F64 || count > 2 * ROW) return false;
  for (size_t i = 0; i < 2; i++)
    eti_casts[dtype][ET_F32](rows[i], 4, in[i] + (ptrdiff_t)*from * step, step, (size_t)count);
  return true;
}

static void bilinear_rows(void *ctx, size_t begin, size_t end) {
  const resample *const r = ctx;
  const uint8_t dtype = r->x->dtype;
  const bool wide = dtype == ET_F64;
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)dtype), step = r->x->strides[3] * es;
  const size_t height = (size_t)r->size[0], rows = (end - begin);
  double wide_row[ROW];
  float row[ROW];
  for (int64_t x0 = 0; x0 < r->size[1]; x0 += ROW) {
    const size_t n = r->size[1] - x0 < ROW ? (size_t)(r->size[1] - x0) : ROW;
    blend across[ROW];
    for (size_t i = 0; i < n; i++) across[i] = blend_of(r, 1, x0 + (int64_t)i, wide);
    for (size_t u = begin; u < begin + rows; u++) {
      const int64_t y = (int64_t)(u % height);
      const blend down = blend_of(r, 0, y, wide);
      const char *const top = row_at(r->x, u / height, down.low);
      const char *const bottom = row_at(r->x, u / height, down.high);
      const char *const in[2] = {top, bottom};
      float rows_f32[2][2 * ROW];
      int64_t from = 0;
      const bool widened = widen_rows(r, in, across, n, rows_f32, &from);
      for (size_t i = 0; widened && i < n; i++) {
        const size_t left = (size_t)(across[i].low - from), right = (size_t)(across[i].high - from);
        const float lw = (float)across[i].low_weight, hw = (float)across[i].high_weight;
        row[i] = (float)down.low_weight * (lw * rows_f32[0][left] + hw * rows_f32[0][right]) +
                 (float)down.high_weight * (lw * rows_f32[1][left] + hw * rows_f32[1][right]);
      }
      for (size_t i = 0; i < n && !widened; i++) {
        const blend *const a = &across[i];
        const double tl = load_element(top, step, a->low, dtype),
                     tr = load_element(top, step, a->high, dtype);
        const double bl = load_element(bottom, step, a->low, dtype),
                     br = load_element(bottom, step, a->high, dtype);
        if (wide) {
          wide_row[i] = down.low_weight * (a->low_weight * tl + a->high_weight * tr) +
                        down.high_weight * (a->low_weight * bl + a->high_weight * br);
        } else {
          const float lw = (float)a->low_weight, hw = (float)a->high_weight;
          row[i] = (float)down.low_weight * (lw * (float)tl + hw * (float)tr) +
                   (float)down.high_weight * (lw * (float)bl + hw * (float)br);
        }
      }
      char *const out = row_at(r->out, u / height, y) + (ptrdiff_t)x0 * r->out->strides[3] * es;
      if (wide) {
        eti_casts[ET_F64][dtype](out, r->out->strides[3] * es, wide_row, 8, n);
      } else {
        eti_casts[ET_F32][dtype](out, r->out->strides[3] * es, row, 4, n);
      }
    }
  }
}

static et_status run_rows(const et_kernel_ctx *ctx, resample *r, et_range_fn rows,
                          et_range_fn pixels) {
  if (r->out->numel == 0) return ET_OK;
  if (channels_last(r)) {
    const size_t row = (size_t)(r->size[1] * r->x->sizes[1]);
    et_parallel_for(ctx->pool, pixels, r, r->out->numel / row, 1 + 8192 / row);
    return ET_OK;
  }
  et_parallel_for(ctx->pool, rows, r, r->out->numel / (size_t)r->size[1],
                  1 + 8192 / (size_t)r->size[1]);
  return ET_OK;
}

et_status op_upsample_nearest2d_vec_out(et_kernel_ctx *ctx, et_value *const *args) {
  resample r = {.op = "upsample_nearest2d"};
  ET_TRY(read_resample(ctx, args, 2, 3, &r));
  return run_rows(ctx, &r, nearest_rows, nearest_pixels);
}

et_status op_upsample_bilinear2d_vec_out(et_kernel_ctx *ctx, et_value *const *args) {
  resample r = {.op = "upsample_bilinear2d"};
  ET_TRY(eti_arg_bool(ctx, args, 2, &r.align_corners));
  ET_TRY(read_resample(ctx, args, 3, 4, &r));
  if (r.x->dtype == ET_U8 && r.out->numel > 0) {
    const eti_resize_u8 bytes = {.x = r.x,
                                 .out = r.out,
                                 .scale = {r.scale[0], r.scale[1]},
                                 .align_corners = r.align_corners};
    eti_resize_u8_run(ctx, &bytes);
    return ET_OK;
  }
  return run_rows(ctx, &r, bilinear_rows, bilinear_pixels);
}
