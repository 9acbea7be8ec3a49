// histogram.c — counting elements by value: histc and histogram (equal or given bins), bincount
// (whole numbers). Bins are found in the arithmetic that eager torch uses, since another rounding
// is another bin; weights add in f64 in logical order. Relies on element.h.
#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

// ---- histc: equal bins, whose position is computed

typedef struct equal_bins {
  double low, high;
  int64_t n;
  bool wide;  // compute in f64; else in f32
} equal_bins;

// Ranges too wide for the arithmetic leave no number, which goes to the first bin.
static int64_t equal_bin(const equal_bins *b, double x) {
  double at;
  if (b->wide) {
    at = (x - b->low) * (double)b->n / (b->high - b->low);
  } else {
    const float distance = (float)x - (float)b->low, span = (float)b->high - (float)b->low;
    at = (double)(distance * (float)b->n / span);
  }
  if (!(at >= 0.0)) return 0;
  return at < (double)b->n ? (int64_t)at : b->n - 1;
}

// The range of the elements, where the caller gives none; an empty one grows by `margin`.
static et_status find_range(const et_kernel_ctx *ctx, const et_tensor *x, bool given, double margin,
                            double *low, double *high) {
  if (!given && x->numel > 0) {
    double least = eti_load_f64(x, 0), most = least;
    for (size_t i = 1; i < x->numel; i++) {  // dense, so that the order does not matter
      const double v = eti_load_f64(x, (ptrdiff_t)i);
      least = v < least || v != v ? v : least;
      most = v > most || v != v ? v : most;
    }
    *low = least;
    *high = most;
  }
  if (*low == *high) {
    *low -= margin;
    *high += margin;
  }
  ET_CHECK(isfinite(*low) && isfinite(*high), ctx->err, ET_INVALID_ARGUMENT,
           "the range from %g to %g is not finite", *low, *high);
  ET_CHECK(*low < *high, ctx->err, ET_INVALID_ARGUMENT, "max (%g) must be larger than min (%g)",
           *high, *low);
  return ET_OK;
}

static et_status check_floats(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *out) {
  ET_CHECK(
      eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && x->dtype == out->dtype && x != out,
      ctx->err, ET_INVALID_ARGUMENT,
      "self is %s, out %s; needs one floating-point type and another tensor",
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status resize_line(const et_kernel_ctx *ctx, et_tensor *out, int64_t n) {
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "%lld bins", (long long)n);
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)n}};
  return eti_resize(ctx, out, &shape);
}

static void add_at(const et_tensor *out, int64_t bin, double weight) {
  eti_store_f64(out, (ptrdiff_t)bin, eti_load_f64(out, (ptrdiff_t)bin) + weight);
}

static void clear(const et_tensor *out) {
  for (size_t i = 0; i < out->numel; i++) eti_store_f64(out, (ptrdiff_t)i, 0.0);
}

// (self, bins, min, max, out)
et_status op_histc_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *out = NULL;
  equal_bins b = {.n = 0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_int(ctx, args, 1, &b.n));
  ET_TRY(eti_arg_double(ctx, args, 2, &b.low));
  ET_TRY(eti_arg_double(ctx, args, 3, &b.high));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(check_floats(ctx, x, out));
  ET_CHECK(b.n > 0, ctx->err, ET_INVALID_ARGUMENT, "bins is %lld, needs at least 1",
           (long long)b.n);
  ET_TRY(find_range(ctx, x, b.low != b.high, 1.0, &b.low, &b.high));
  ET_TRY(resize_line(ctx, out, b.n));
  b.wide = x->dtype == ET_F64;
  clear(out);
  for (size_t i = 0; i < x->numel; i++) {
    const double v = eti_load_f64(x, (ptrdiff_t)i);
    if (v >= b.low && v <= b.high) add_at(out, equal_bin(&b, v), 1.0);
  }
  return ET_OK;
}

// ---- histogram: bins between given edges, found by search

// The bin whose left edge is the last one not above x; the last bin holds its right edge, too.
// Edges that are not sorted, or change because memory overlaps, lead to some bin.
static int64_t bin_between(const et_tensor *edges, double x) {
  int64_t low = 0, high = edges->sizes[0];
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (eti_load_f64(edges, (ptrdiff_t)middle) > x) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == edges->sizes[0]) low--;
  return low == 0 ? 0 : low - 1;
}

static et_status fill_histogram(const et_kernel_ctx *ctx, const et_tensor *x,
                                const et_tensor *weight, bool density, const et_tensor *edges,
                                et_tensor *hist) {
  const int64_t n = edges->sizes[0] - 1;
  ET_TRY(resize_line(ctx, hist, n));
  clear(hist);
  const double first = eti_load_f64(edges, 0), last = eti_load_f64(edges, (ptrdiff_t)n);
  for (size_t i = 0; i < x->numel; i++) {
    const double v = eti_load_f64(x, eti_offset_of(x, i));
    if (!(v >= first && v <= last)) continue;
    const double w = weight == NULL ? 1.0 : eti_load_f64(weight, eti_offset_of(weight, i));
    add_at(hist, bin_between(edges, v), w);
  }
  if (!density) return ET_OK;
  double total = 0.0;
  for (int64_t i = 0; i < n; i++) total += eti_load_f64(hist, (ptrdiff_t)i);
  for (int64_t i = 0; i < n; i++) {
    const double width = eti_load_f64(edges, (ptrdiff_t)i + 1) - eti_load_f64(edges, (ptrdiff_t)i);
    eti_store_f64(hist, (ptrdiff_t)i, eti_load_f64(hist, (ptrdiff_t)i) / (total * width));
  }
  return ET_OK;
}

static et_status read_histogram(const et_kernel_ctx *ctx, et_value *const *args, size_t i_weight,
                                et_tensor *x, et_tensor **weight, bool *density, et_tensor **hist,
                                et_tensor **edges) {
  ET_TRY(eti_arg_optional_tensor(ctx, args, i_weight, weight));
  ET_TRY(eti_arg_bool(ctx, args, i_weight + 1, density));
  ET_TRY(eti_arg_tensor(ctx, args, i_weight + 2, hist));
  ET_TRY(eti_arg_tensor(ctx, args, i_weight + 3, edges));
  ET_TRY(check_floats(ctx, x, *hist));
  ET_TRY(check_floats(ctx, x, *edges));
  ET_CHECK(*weight == NULL || ((*weight)->dtype == x->dtype && eti_same_shape(*weight, x)),
           ctx->err, ET_INVALID_ARGUMENT, "weight needs the dtype and shape of self");
  ET_CHECK(*hist != *edges, ctx->err, ET_INVALID_ARGUMENT, "hist and bin_edges are one tensor");
  return ET_OK;
}

// Edges as torch.linspace makes them: from both ends to the middle, in the type of the elements.
static void space_edges(const et_tensor *edges, double low, double high) {
  const int64_t n = edges->sizes[0];
  const bool wide = edges->dtype == ET_F64;
  const float step_f = ((float)high - (float)low) / (float)(n - 1);
  const double step = wide ? (high - low) / (double)(n - 1) : (double)step_f;
  for (int64_t i = 0; i < n; i++) {
    const bool left = i < n / 2;
    const double steps = (double)(left ? i : n - 1 - i);
    double at = left ? low + step * steps : high - step * steps;
    if (!wide) {
      const float far = step_f * (float)steps;
      at = (double)(left ? (float)low + far : (float)high - far);
    }
    eti_store_f64(edges, (ptrdiff_t)i, at);
  }
}

// (self, bins, range, weight, density, hist, bin_edges)
et_status op_histogram_bin_ct_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *weight = NULL, *hist = NULL, *edges = NULL;
  int64_t bins = 0;
  double range[2] = {0.0, 0.0};
  bool has_range = false, density = false;
  size_t n = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_int(ctx, args, 1, &bins));
  ET_TRY(eti_arg_optional_doubles(ctx, args, 2, &has_range, range, 2, &n));
  ET_TRY(read_histogram(ctx, args, 3, x, &weight, &density, &hist, &edges));
  ET_CHECK(bins > 0 && bins < INT32_MAX && (!has_range || n == 2), ctx->err, ET_INVALID_ARGUMENT,
           "%lld bins and a range of %zu numbers, needs at least 1 and 2", (long long)bins, n);
  if (!has_range && x->numel == 0) range[1] = 1.0;
  ET_TRY(find_range(ctx, x, has_range, 0.5, &range[0], &range[1]));
  ET_TRY(resize_line(ctx, edges, bins + 1));
  space_edges(edges, range[0], range[1]);
  return fill_histogram(ctx, x, weight, density, edges, hist);
}

// (self, bins, weight, density, hist, bin_edges)
et_status op_histogram_bins_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *bins = NULL, *weight = NULL, *hist = NULL, *edges = NULL;
  bool density = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &bins));
  ET_TRY(read_histogram(ctx, args, 2, x, &weight, &density, &hist, &edges));
  ET_CHECK(bins->rank == 1 && bins->sizes[0] >= 2 && bins->dtype == x->dtype, ctx->err,
           ET_INVALID_ARGUMENT, "bins need 2 edges and more, of self's dtype");
  ET_TRY(eti_resize_like(ctx, edges, bins));
  if (edges != bins) eti_copy_bytes(edges->data, bins->data, et_tensor_bytes(bins));
  return fill_histogram(ctx, x, weight, density, edges, hist);
}

// ---- bincount

enum { PIECE = 256 };  // elements that are cast at a time

// A range of x as i64: where it lies, or in the buffer.
static const int64_t *whole_numbers(const et_tensor *x, size_t first, size_t n, int64_t *buffer) {
  const char *const from = eti_element(x, (ptrdiff_t)first);
  if (x->dtype == ET_I64) return (const int64_t *)(const void *)from;
  eti_casts[x->dtype][ET_I64](buffer, 8, from, (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype), n);
  return buffer;
}

// The number of bins: at least `least`, and one for every element.
static et_status count_range(const et_kernel_ctx *ctx, const et_tensor *x, int64_t least,
                             int64_t *size) {
  int64_t buffer[PIECE];
  *size = least;
  for (size_t i = 0; i < x->numel; i += PIECE) {
    const size_t n = x->numel - i < PIECE ? x->numel - i : PIECE;
    const int64_t *const value = whole_numbers(x, i, n, buffer);
    for (size_t j = 0; j < n; j++) {
      ET_CHECK(value[j] >= 0 && value[j] < INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
               "self[%zu] is %lld, needs at least 0 and less than 2^31 - 1", i + j,
               (long long)value[j]);
      if (value[j] >= *size) *size = value[j] + 1;
    }
  }
  return ET_OK;
}

static void count_all(const et_tensor *x, const et_tensor *weights, const et_tensor *out,
                      int64_t size) {
  int64_t buffer[PIECE];
  double weight[PIECE];
  for (size_t i = 0; i < x->numel; i += PIECE) {
    const size_t n = x->numel - i < PIECE ? x->numel - i : PIECE;
    const int64_t *const value = whole_numbers(x, i, n, buffer);
    if (weights != NULL) {
      eti_casts[weights->dtype][ET_F64](weight, 8, eti_element(weights, (ptrdiff_t)i),
                                        (ptrdiff_t)et_dtype_bytes((et_dtype)weights->dtype), n);
    }
    for (size_t j = 0; j < n; j++) {
      const int64_t bin = value[j];
      if (bin < 0 || bin >= size) continue;  // only when memory overlaps
      if (weights == NULL) {
        ((int64_t *)out->data)[bin]++;
      } else if (out->dtype == ET_F32) {
        float *const sum = (float *)out->data + bin;
        *sum = (float)((double)*sum + weight[j]);
      } else {
        ((double *)out->data)[bin] += weight[j];
      }
    }
  }
}

// (self, weights, minlength, out)
et_status op_bincount_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *weights = NULL, *out = NULL;
  int64_t least = 0, size = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 1, &weights));
  ET_TRY(eti_arg_int(ctx, args, 2, &least));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_CHECK(x->rank == 1 && eti_dtype_in((et_dtype)x->dtype, ET_TYPES_INT) && out != x, ctx->err,
           ET_INVALID_ARGUMENT, "self is %s of rank %d, needs integers in one dimension",
           et_dtype_name((et_dtype)x->dtype), (int)x->rank);
  ET_CHECK(weights == NULL || (weights->rank == 1 && weights->numel == x->numel &&
                               eti_dtype_in((et_dtype)weights->dtype, ET_TYPES_REAL_HALF_BOOL)),
           ctx->err, ET_INVALID_ARGUMENT, "weights need the length of self");
  ET_CHECK(least >= 0, ctx->err, ET_INVALID_ARGUMENT, "minlength is %lld", (long long)least);
  ET_CHECK(out->dtype == (weights == NULL            ? ET_I64
                          : weights->dtype == ET_F32 ? ET_F32
                                                     : ET_F64),
           ctx->err, ET_INVALID_ARGUMENT, "out is %s", et_dtype_name((et_dtype)out->dtype));
  ET_TRY(count_range(ctx, x, least, &size));
  ET_TRY(resize_line(ctx, out, size));
  memset(out->data, 0, et_tensor_bytes(out));
  count_all(x, weights, out, size);
  return ET_OK;
}
