// multinomial.c — indices drawn by weight, with replacement and without. Numbers come from the
// call's stream (random_stream.h), so a draw is a function of its position. Uses no memory: sums of
// parts of a row lead to the part of a sample, and samples without replacement are found several at
// a time. Relies on micro/random/philox.h.
#include "kernels/kernel.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"
#include "kernels/lib/random_stream.h"

#include <float.h>
#include <math.h>

enum {
  BLOCK = ETI_PHILOX_BLOCK,
  ARRIVALS = 32,
  PART = 64,
  PARTS = 512,
  MARKS = ETI_ON_STACK(PARTS, 32)  // sums of parts that are kept; those between are added again
};

typedef struct weights {
  const et_tensor *t;
  ptrdiff_t base, stride;
  size_t n, n_possible;  // weights; those above 0, counted if samples are distinct
  bool is_distinct;
  size_t part;          // elements of a part: PART, or a multiple if parts were too many
  double sum;           // of all
  double until[MARKS];  // sums up to the end of every span
} weights;

static size_t count_of_parts(const weights *w) {
  return (w->n - 1) / w->part + 1;
}

// Parts between two sums that are kept.
static size_t span_of(const weights *w) {
  return MARKS == PARTS ? 1 : (count_of_parts(w) - 1) / MARKS + 1;
}

// Reads weights [first, first + n) as doubles; n ≤ BLOCK.
static void load_weights(const weights *w, size_t first, size_t n, double *to) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)w->t->dtype);
  const char *from = (const char *)w->t->data + (w->base + (ptrdiff_t)first * w->stride) * item;
  eti_casts[w->t->dtype][ET_F64](to, sizeof *to, from, w->stride * item, n);
}

static et_status check_weights(const et_kernel_ctx *ctx, const double *p, size_t first, size_t n) {
  const eti_row_reduce_micro *const m = eti_row_reduce_micro_get();
  double least = p[0], most = p[0];
  m->min_f64.rows(&least, p, 0, n, 1, NULL);
  m->max_f64.rows(&most, p, 0, n, 1, NULL);
  if (least >= 0.0 && most <= DBL_MAX) return ET_OK;
  for (size_t i = 0; i < n; i++) {
    ET_CHECK(isfinite(p[i]) && p[i] >= 0.0, ctx->err, ET_INVALID_ARGUMENT,
             "multinomial: weight %zu: expected a finite number of 0 or more, got %g", first + i,
             p[i]);
  }
  return ET_OK;
}

// Adds up parts [first, first + n / part) of the elements in p.
static void sum_parts(weights *w, const double *p, size_t first, size_t n) {
  const eti_row_reduce_micro *const m = eti_row_reduce_micro_get();
  double sums[BLOCK / PART] = {0.0};
  const size_t whole = n / PART, span = span_of(w);
  m->sum_f64.rows(sums, p, PART, PART, whole, NULL);
  if (whole * PART < n) m->sum_f64.rows(sums + whole, p + whole * PART, 0, n % PART, 1, NULL);
  for (size_t i = 0; i * PART < n; i++) {
    const size_t part = (first + i * PART) / w->part;
    w->sum += sums[i];
    w->until[part / span] = w->sum;
  }
}

// Sizes of parts and blocks are multiples of PART elements.
static et_status sum_weights(const et_kernel_ctx *ctx, weights *w) {
  double p[BLOCK];
  w->n_possible = 0;
  w->sum = 0.0;
  for (size_t i = 0; i < w->n; i += BLOCK) {
    const size_t n = w->n - i < BLOCK ? w->n - i : BLOCK;
    load_weights(w, i, n, p);
    ET_TRY(check_weights(ctx, p, i, n));
    for (size_t j = 0; j < n && w->is_distinct; j++) w->n_possible += p[j] > 0.0;
    sum_parts(w, p, i, n);
  }
  ET_CHECK(w->sum > 0.0, ctx->err, ET_INVALID_ARGUMENT, "multinomial: all %zu weights are 0", w->n);
  return ET_OK;
}

// ---- with replacement

// Adds a part to the sum before it, as sum_parts did.
static double sum_until(const weights *w, size_t part, double before) {
  const size_t begin = part * w->part, end = w->n - begin < w->part ? w->n : begin + w->part;
  double p[BLOCK];
  for (size_t first = begin; first < end; first += PART) {
    const size_t n = end - first < PART ? end - first : PART;
    double sum = 0.0;
    load_weights(w, first, n, p);
    eti_row_reduce_micro_get()->sum_f64.rows(&sum, p, 0, n, 1, NULL);
    before += sum;
  }
  return before;
}

static size_t pick_index(const weights *w, double unit) {
  const size_t n_parts = count_of_parts(w), span = span_of(w), n_marks = (n_parts - 1) / span + 1;
  const double sum = w->until[n_marks - 1], target = unit * sum;
  size_t low = 0;
  // Finds the first part that ends beyond the target; if rounding made the target the whole sum,
  // the part that ends there. Its weight is above 0. First its span, then the part of it.
  for (size_t high = n_marks - 1; low < high;) {
    const size_t middle = low + (high - low) / 2;
    if (w->until[middle] > target || w->until[middle] == sum) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  double before = low == 0 ? 0.0 : w->until[low - 1];
  size_t part = low * span;
  const size_t in_span = low + 1 < n_marks ? span : n_parts - part;
  for (const size_t last_part = part + in_span - 1; part < last_part; part++) {
    const double until = sum_until(w, part, before);
    if (until > target || until == sum) break;
    before = until;
  }
  const size_t begin = part * w->part, end = w->n - begin < w->part ? w->n : begin + w->part;
  double p[BLOCK], left = target - before;
  size_t last = begin;
  for (size_t first = begin; first < end; first += BLOCK) {
    const size_t n = end - first < BLOCK ? end - first : BLOCK;
    load_weights(w, first, n, p);
    for (size_t j = 0; j < n; j++) {
      if (p[j] <= 0.0) continue;
      last = first + j;
      if (left < p[j]) return last;
      left -= p[j];
    }
  }
  return last;  // rounding may leave a remainder
}

// ---- without

typedef struct arrival {
  double time;
  size_t j;
} arrival;

static bool is_before(arrival a, arrival b) {
  return a.time < b.time || (a.time == b.time && a.j < b.j);
}

static void insert_arrival(arrival *all, size_t count, arrival one) {
  for (; count > 0 && is_before(one, all[count - 1]); count--) all[count] = all[count - 1];
  all[count] = one;
}

// Draws without replacement are in the order in which independent exponential clocks ring, with
// rate p for weight p. The clocks are functions of the stream, so only the last one to ring is
// remembered: the next clocks after it, up to ARRIVALS, are found in one pass.
static ETI_OWN_FRAME size_t next_arrivals(const weights *w, const eti_philox_stream *s,
                                          uint64_t first, arrival last, arrival *all) {
  const eti_philox_micro *const micro = eti_philox_micro_get();
  _Alignas(64) uint64_t bits[BLOCK];
  _Alignas(64) double time[BLOCK], p[BLOCK];
  size_t count = 0;
  for (size_t at = 0; at < w->n; at += BLOCK) {
    const size_t n = w->n - at < BLOCK ? w->n - at : BLOCK;
    micro->bits(s, first + at, n, bits);
    micro->exponential(time, bits, n);
    load_weights(w, at, n, p);
    for (size_t j = 0; j < n; j++) {
      const arrival one = {time[j] / p[j], at + j};
      if (p[j] <= 0.0 || !is_before(last, one)) continue;
      if (count == ARRIVALS && !is_before(one, all[count - 1])) continue;
      if (count < ARRIVALS) count++;
      insert_arrival(all, count - 1, one);
    }
  }
  return count;
}

static void draw_distinct(const weights *w, const eti_philox_stream *s, uint64_t first,
                          size_t n_samples, int64_t *out, ptrdiff_t stride) {
  arrival all[ARRIVALS], last = {-1.0, 0};
  for (size_t k = 0; k < n_samples;) {
    const size_t count = next_arrivals(w, s, first, last, all);
    for (size_t i = 0; i < count && k < n_samples; i++, k++)
      out[(ptrdiff_t)k * stride] = (int64_t)all[i].j;
    if (count == 0) return;  // impossible with as many weights above 0 as samples
    last = all[count - 1];
  }
}

static void draw_any(const weights *w, const eti_philox_stream *s, uint64_t first, size_t n_samples,
                     int64_t *out, ptrdiff_t stride) {
  uint64_t bits[BLOCK];
  for (size_t k = 0; k < n_samples; k += BLOCK) {
    const size_t n = n_samples - k < BLOCK ? n_samples - k : BLOCK;
    eti_philox_micro_get()->bits(s, first + k, n, bits);
    for (size_t i = 0; i < n; i++)
      out[(ptrdiff_t)(k + i) * stride] = (int64_t)pick_index(w, eti_random_unit(bits[i]));
  }
}

static et_status draw_row(const et_kernel_ctx *ctx, weights *w, const eti_philox_stream *s,
                          size_t row, size_t n_samples, int64_t *out, ptrdiff_t stride) {
  ET_TRY(sum_weights(ctx, w));
  ET_CHECK(!w->is_distinct || n_samples <= w->n_possible, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: %zu samples without replacement from %zu weights above 0", n_samples,
           w->n_possible);
  if (w->is_distinct) {
    draw_distinct(w, s, (uint64_t)row * w->n, n_samples, out, stride);
  } else {
    draw_any(w, s, (uint64_t)row * n_samples, n_samples, out, stride);
  }
  return ET_OK;
}

// multinomial(self, num_samples, replacement, *, generator, out)
et_status op_multinomial_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self, *out;
  int64_t n_samples = 0;
  bool replacement = false;
  eti_philox_stream s = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &n_samples));
  ET_TRY(eti_arg_bool(ctx, args, 2, &replacement));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_CHECK(self->rank == 1 || self->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: weights: expected rank 1 or 2, got %u", (unsigned)self->rank);
  ET_CHECK(eti_dtype_in((et_dtype)self->dtype, ET_TYPES_FLOAT_HALF) && out->dtype == ET_I64,
           ctx->err, ET_NOT_SUPPORTED,
           "multinomial: expected real weights and out of i64, got %s and %s",
           et_dtype_name((et_dtype)self->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(n_samples > 0, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: expected 1 sample or more, got %lld", (long long)n_samples);
  eti_shape shape = eti_shape_of(self);
  const size_t dim = shape.rank - 1, n_rows = dim == 1 ? (size_t)shape.sizes[0] : 1;
  ET_TRY(eti_checked_size(ctx, n_samples, "output", &shape.sizes[dim]));
  weights w = {.t = self,
               .stride = self->strides[dim],
               .n = (size_t)self->sizes[dim],
               .is_distinct = !replacement};
  w.part = PART * (w.n <= PART * PARTS ? 1 : (w.n - 1) / (PART * PARTS) + 1);
  const ptrdiff_t row_stride = dim == 1 ? self->strides[0] : 0;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_random_open(ctx, &s));
  for (size_t row = 0; row < n_rows; row++) {
    w.base = (ptrdiff_t)row * row_stride;
    int64_t *to = (int64_t *)out->data + (dim == 1 ? (ptrdiff_t)row * out->strides[0] : 0);
    ET_TRY(draw_row(ctx, &w, &s, row, (size_t)n_samples, to, out->strides[dim]));
  }
  return ET_OK;
}
