// histogram.c — counting elements by value: histc and histogram (equal or given bins), bincount
// (whole numbers). Bins are computed in the arithmetic of eager torch, since another rounding gives
// another bin; weights add in f64 in logical order. Relies on element.h and cast.h.
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

// ---- finding bins

enum {
  PIECE = ETI_ON_STACK(256, 64),          // elements cast at a time
  BINS_AT_ONCE = ETI_ON_STACK(512, 128),  // counters on the stack
  MAX_COUNTED = 65536                     // bins for which every thread gets counters of its own
};

typedef struct binning {
  int64_t n;
  double low, high;        // the outer edges, in the type of the elements
  const et_tensor *edges;  // NULL: bins of equal widths
  bool is_wide;            // computed in f64; else in f32
  bool is_equal;           // edges are of equal widths, but for rounding
} binning;

// Ranges too wide for the arithmetic give no number, which goes to the first bin; elements outside
// get bin -1.
#define EQUAL_BINS(name, type)                                                                  \
  static void name(const binning *b, const type *x, size_t n, int32_t *bin) {                   \
    const type low = (type)b->low, high = (type)b->high, span = high - low, count = (type)b->n; \
    const int32_t last = (int32_t)b->n - 1;                                                     \
    for (size_t i = 0; i < n; i++) {                                                            \
      const type at = (x[i] - low) * count / span;                                              \
      const int32_t k = !(at >= 0) ? 0 : at < count ? (int32_t)at : last;                       \
      bin[i] = x[i] >= low && x[i] <= high ? (k < last ? k : last) : -1;                        \
    }                                                                                           \
  }
EQUAL_BINS(equal_bins_f32, float)
EQUAL_BINS(equal_bins_f64, double)
#undef EQUAL_BINS

static double edge_at(const et_tensor *edges, int64_t i) {
  if (edges->dtype == ET_F32) return (double)((const float *)edges->data)[i];
  if (edges->dtype == ET_F64) return ((const double *)edges->data)[i];
  return eti_load_f64(edges, (ptrdiff_t)i);
}

// The bin with the last left edge that is not above x; the last bin includes its right edge. Edges
// that are not sorted, or change because memory overlaps, give some bin.
static int32_t bin_between(const binning *b, double x) {
  int64_t low = 0, n = b->n;  // the bin is one of n from low on
  while (n > 1) {
    const int64_t half = n / 2;
    low += edge_at(b->edges, low + half) <= x ? half : 0;
    n -= half;
  }
  return (int32_t)low;
}

// The bin of x, searched from a nearby bin.
static int32_t bin_near(const binning *b, double x, int32_t bin) {
  while (bin > 0 && edge_at(b->edges, bin) > x) bin--;
  while (bin + 1 < b->n && edge_at(b->edges, bin + 1) <= x) bin++;
  return bin;
}

static void find_bins(const binning *b, const et_tensor *x, size_t first, size_t n, int32_t *bin) {
  double buffer[PIECE];
  const void *const from = eti_element(x, (ptrdiff_t)first), *values = from;
  const et_dtype as = b->is_wide ? ET_F64 : ET_F32;
  if (x->dtype != as) {
    values = buffer;
    eti_casts[x->dtype][as](buffer, (ptrdiff_t)et_dtype_bytes(as), from,
                            (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype), n);
  }
  if (b->is_wide) {
    equal_bins_f64(b, values, n, bin);
  } else {
    equal_bins_f32(b, values, n, bin);
  }
  for (size_t i = 0; b->edges != NULL && i < n; i++) {
    if (bin[i] < 0) continue;
    const double v = b->is_wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
    bin[i] = b->is_equal ? bin_near(b, v, bin[i]) : bin_between(b, v);
  }
}

// ---- counting: in whole numbers, so that neither the order nor the number of threads matters

typedef struct counting {
  const binning *bins;
  const et_tensor *x;
  uint64_t *counts;  // of each slot, for n bins from the first on
  size_t first, n, n_slots;
} counting;

static void count_slots(void *ctx, size_t begin, size_t end) {
  const counting *const c = ctx;
  int32_t bin[PIECE];
  for (size_t s = begin; s < end; s++) {
    uint64_t *const counts = c->counts + s * c->n;
    const size_t limit =
        c->x->numel / c->n_slots * (s + 1) + (s + 1 == c->n_slots ? c->x->numel % c->n_slots : 0);
    memset(counts, 0, c->n * sizeof *counts);
    for (size_t i = c->x->numel / c->n_slots * s; i < limit; i += PIECE) {
      const size_t n = limit - i < PIECE ? limit - i : PIECE;
      find_bins(c->bins, c->x, i, n, bin);
      for (size_t j = 0; j < n; j++) {
        const size_t at = (size_t)bin[j] - c->first;
        if (at < c->n) counts[at]++;
      }
    }
  }
}

static void count_elements(const et_kernel_ctx *ctx, const binning *b, const et_tensor *x,
                           const et_tensor *out) {
  uint64_t few[BINS_AT_ONCE];
  const size_t n = (size_t)b->n, room = ctx->scratch_bytes / sizeof *few,
               threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads,
               useful = 1 + x->numel / ETI_GRAIN_MATH;
  counting c = {
      .bins = b, .x = x, .counts = few, .n = n < BINS_AT_ONCE ? n : BINS_AT_ONCE, .n_slots = 1};
  if (room >= n) {
    c.counts = ctx->scratch;
    c.n = n;
    c.n_slots = threads < room / n ? threads : room / n;
    if (c.n_slots > useful) c.n_slots = useful;
    if (c.n_slots == 0) c.n_slots = 1;
  }
  for (; c.first < n; c.first += c.n) {
    if (c.n > n - c.first) c.n = n - c.first;
    et_parallel_for(ctx->pool, count_slots, &c, c.n_slots, 1);
    for (size_t i = 0; i < c.n; i++) {
      uint64_t sum = 0;
      for (size_t s = 0; s < c.n_slots; s++) sum += c.counts[s * c.n + i];
      eti_store_f64(out, (ptrdiff_t)(c.first + i), (double)sum);
    }
  }
}

// Requests counters for every thread; without them bins are counted few at a time.
et_status eti_prepare_histogram(et_prepare_ctx *ctx, et_value *const *args) {
  const et_value *const bins = args[1];
  const int64_t n = bins->tag == ET_TENSOR ? (int64_t)bins->as.tensor->numel
                    : bins->tag == ET_INT  ? bins->as.i
                                           : 0;
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads;
  if (n <= 0 || n > MAX_COUNTED) return ET_OK;
  const size_t bytes = (size_t)n * threads * sizeof(uint64_t);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}

// ---- ranges and results

// The range of the elements, if none is given; an empty one grows by `margin`.
static et_status find_range(const et_kernel_ctx *ctx, const et_tensor *x, bool given, double margin,
                            double *low, double *high) {
  double v[PIECE];
  const ptrdiff_t step = (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype);
  for (size_t i = 0; !given && i < x->numel; i += PIECE) {  // dense: the order does not matter
    const size_t n = x->numel - i < PIECE ? x->numel - i : PIECE;
    eti_casts[x->dtype][ET_F64](v, 8, eti_element(x, (ptrdiff_t)i), step, n);
    if (i == 0) *low = *high = v[0];
    for (size_t j = 0; j < n; j++) {
      *low = v[j] < *low || v[j] != v[j] ? v[j] : *low;
      *high = v[j] > *high || v[j] != v[j] ? v[j] : *high;
    }
  }
  if (*low == *high) {
    *low -= margin;
    *high += margin;
  }
  ET_CHECK(isfinite(*low) && isfinite(*high), ctx->err, ET_INVALID_ARGUMENT,
           "the range from %g to %g is not finite", *low, *high);
  ET_CHECK(*low < *high, ctx->err, ET_INVALID_ARGUMENT, "expected max above min, got %g and %g",
           *high, *low);
  return ET_OK;
}

static et_status check_floats(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *out) {
  ET_CHECK(
      eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && x->dtype == out->dtype && x != out,
      ctx->err, ET_INVALID_ARGUMENT,
      "expected one floating-point type and another tensor as out, got self %s, out %s",
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status resize_line(const et_kernel_ctx *ctx, et_tensor *out, int64_t n) {
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "%lld bins are too many",
           (long long)n);
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)n}};
  return eti_resize(ctx, out, &shape);
}

// (self, bins, min, max, out)
et_status op_histc_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *out = NULL;
  binning b = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_int(ctx, args, 1, &b.n));
  ET_TRY(eti_arg_double(ctx, args, 2, &b.low));
  ET_TRY(eti_arg_double(ctx, args, 3, &b.high));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(check_floats(ctx, x, out));
  ET_CHECK(b.n > 0, ctx->err, ET_INVALID_ARGUMENT, "bins: expected 1 or more, got %lld",
           (long long)b.n);
  ET_TRY(find_range(ctx, x, b.low != b.high, 1.0, &b.low, &b.high));
  ET_TRY(resize_line(ctx, out, b.n));
  b.is_wide = x->dtype == ET_F64;
  count_elements(ctx, &b, x, out);
  return ET_OK;
}

// ---- histogram: bins between edges

// Weights add in f64, in logical order, to numbers of the result's type.
static void add_weights(const binning *b, const et_tensor *x, const et_tensor *weight,
                        const et_tensor *hist) {
  for (size_t i = 0; i < hist->numel; i++) eti_store_f64(hist, (ptrdiff_t)i, 0.0);
  for (size_t i = 0; i < x->numel; i++) {
    const double v = eti_load_f64(x, eti_offset_of(x, i));
    if (!(v >= b->low && v <= b->high)) continue;
    const ptrdiff_t bin = bin_between(b, v);
    const double w = eti_load_f64(weight, eti_offset_of(weight, i));
    eti_store_f64(hist, bin, eti_load_f64(hist, bin) + w);
  }
}

static et_status fill_histogram(const et_kernel_ctx *ctx, const et_tensor *x,
                                const et_tensor *weight, bool density, const et_tensor *edges,
                                bool is_equal, et_tensor *hist) {
  const int64_t n = edges->sizes[0] - 1;
  const binning b = {.n = n,
                     .low = edge_at(edges, 0),
                     .high = edge_at(edges, n),
                     .edges = edges,
                     .is_wide = x->dtype == ET_F64,
                     .is_equal = is_equal};
  ET_TRY(resize_line(ctx, hist, n));
  if (weight != NULL) {
    add_weights(&b, x, weight, hist);
  } else {
    count_elements(ctx, &b, x, hist);
  }
  if (!density) return ET_OK;
  double total = 0.0;
  for (int64_t i = 0; i < n; i++) total += eti_load_f64(hist, (ptrdiff_t)i);
  for (int64_t i = 0; i < n; i++) {
    const double width = edge_at(edges, i + 1) - edge_at(edges, i);
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
  char needed[ETI_TENSOR_TEXT], found[ETI_TENSOR_TEXT];
  ET_CHECK(*weight == NULL || ((*weight)->dtype == x->dtype && eti_same_shape(*weight, x)),
           ctx->err, ET_INVALID_ARGUMENT, "weight: expected %s, as self, got %s",
           eti_tensor_text(x, needed), eti_tensor_text(*weight, found));
  ET_CHECK(*hist != *edges, ctx->err, ET_INVALID_ARGUMENT, "hist and bin_edges are one tensor");
  return ET_OK;
}

// Edges as in torch.linspace: from both ends to the middle, in the type of the elements.
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
  ET_CHECK(bins > 0 && bins < INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "bins: expected 1 to 2^31 - 2, got %lld", (long long)bins);
  ET_CHECK(!has_range || n == 2, ctx->err, ET_INVALID_ARGUMENT,
           "range: expected 2 numbers, got %zu", n);
  if (!has_range && x->numel == 0) range[1] = 1.0;
  ET_TRY(find_range(ctx, x, has_range, 0.5, &range[0], &range[1]));
  ET_TRY(resize_line(ctx, edges, bins + 1));
  space_edges(edges, range[0], range[1]);
  return fill_histogram(ctx, x, weight, density, edges, true, hist);
}

// (self, bins, weight, density, hist, bin_edges)
et_status op_histogram_bins_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x = NULL, *bins = NULL, *weight = NULL, *hist = NULL, *edges = NULL;
  bool density = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &bins));
  ET_TRY(read_histogram(ctx, args, 2, x, &weight, &density, &hist, &edges));
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(bins->rank == 1 && bins->sizes[0] >= 2 && bins->dtype == x->dtype, ctx->err,
           ET_INVALID_ARGUMENT, "bins: expected 2 edges or more of %s, as self, got %s",
           et_dtype_name((et_dtype)x->dtype), eti_tensor_text(bins, found));
  ET_TRY(eti_resize_like(ctx, edges, bins));
  if (edges != bins) eti_copy_bytes(edges->data, bins->data, et_tensor_bytes(bins));
  return fill_histogram(ctx, x, weight, density, edges, false, hist);
}

// ---- bincount

// Reads a range of x as i64: in place, or in the buffer.
static const int64_t *whole_numbers(const et_tensor *x, size_t first, size_t n, int64_t *buffer) {
  const char *const from = eti_element(x, (ptrdiff_t)first);
  if (x->dtype == ET_I64) return (const int64_t *)(const void *)from;
  eti_casts[x->dtype][ET_I64](buffer, 8, from, (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype), n);
  return buffer;
}

// Number of bins: at least `least`, and enough for every element.
static et_status count_range(const et_kernel_ctx *ctx, const et_tensor *x, int64_t least,
                             int64_t *size) {
  int64_t buffer[PIECE];
  *size = least;
  for (size_t i = 0; i < x->numel; i += PIECE) {
    const size_t n = x->numel - i < PIECE ? x->numel - i : PIECE;
    const int64_t *const value = whole_numbers(x, i, n, buffer);
    for (size_t j = 0; j < n; j++) {
      ET_CHECK(value[j] >= 0 && value[j] < INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
               "self[%zu]: expected 0 or more and less than 2^31 - 1, got %lld", i + j,
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
           ET_INVALID_ARGUMENT, "self: expected integers in one dimension, got %s of rank %d",
           et_dtype_name((et_dtype)x->dtype), (int)x->rank);
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(weights == NULL || (weights->rank == 1 && weights->numel == x->numel &&
                               eti_dtype_in((et_dtype)weights->dtype, ET_TYPES_REAL_HALF_BOOL)),
           ctx->err, ET_INVALID_ARGUMENT,
           "weights: expected %zu real numbers or bools, as many as self has, got %s", x->numel,
           eti_tensor_text(weights, found));
  ET_CHECK(least >= 0, ctx->err, ET_INVALID_ARGUMENT, "minlength: expected 0 or more, got %lld",
           (long long)least);
  ET_CHECK(out->dtype == (weights == NULL            ? ET_I64
                          : weights->dtype == ET_F32 ? ET_F32
                                                     : ET_F64),
           ctx->err, ET_INVALID_ARGUMENT, "out is %s", et_dtype_name((et_dtype)out->dtype));
  ET_TRY(count_range(ctx, x, least, &size));
  ET_TRY(resize_line(ctx, out, size));
  if (out->numel > 0) memset(out->data, 0, et_tensor_bytes(out));
  count_all(x, weights, out, size);
  return ET_OK;
}
