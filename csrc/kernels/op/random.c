// random.c — operators that draw: rand, randn, randint, randperm, multinomial, dropout in training.
// Numbers come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): a function of the method's seed, the number of the drawing call, and the element's
// place in memory. So threads and machines do not matter, and a run can be repeated. The sequence
// is not torch's; the distributions are.
#include "kernels/kernel.h"
#include "kernels/micro/math_f32.h"
#include "kernels/move.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 8192 };

// ---- Philox

typedef struct stream {
  uint64_t seed, call;
} stream;

typedef struct draw {
  uint32_t w[4];
} draw;

static et_status open_stream(const et_kernel_ctx *ctx, stream *s) {
  ET_CHECK(ctx->random != NULL, ctx->err, ET_INVALID_STATE,
           "a random operator needs the random state of a method, and ctx->random is NULL");
  *s = (stream){ctx->random->seed, ctx->random->calls++};
  return ET_OK;
}

// Block `at` of the stream: 128 random bits.
static draw draw_block(const stream *s, uint64_t at) {
  uint32_t c[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)s->call,
                   (uint32_t)(s->call >> 32)};
  uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (draw){{c[0], c[1], c[2], c[3]}};
}

static uint64_t draw_u64(const stream *s, uint64_t i) {
  const draw d = draw_block(s, i / 2);
  const size_t at = (size_t)(i % 2) * 2;
  return (uint64_t)d.w[at + 1] << 32 | d.w[at];
}

// In [0, 1), a multiple of 2^-53.
static double draw_unit(const stream *s, uint64_t i) {
  return (double)(draw_u64(s, i) >> 11) * 0x1p-53;
}

// In [0, n): the high half of bits × n, off the uniform by less than n / 2^64.
static uint64_t draw_below(const stream *s, uint64_t i, uint64_t n) {
  const uint64_t x = draw_u64(s, i), x0 = x & 0xFFFFFFFFu, x1 = x >> 32;
  const uint64_t n0 = n & 0xFFFFFFFFu, n1 = n >> 32;
  const uint64_t low = x0 * n0, a = x1 * n0 + (low >> 32), b = x0 * n1 + (a & 0xFFFFFFFFu);
  return x1 * n1 + (a >> 32) + (b >> 32);
}

// Two independent standard normals out of 128 bits (Box and Muller). 1 - u lies in (0, 1].
static void draw_normals(const draw *d, double out[2]) {
  const double u = (double)(((uint64_t)d->w[1] << 32 | d->w[0]) >> 11) * 0x1p-53;
  const double v = (double)(((uint64_t)d->w[3] << 32 | d->w[2]) >> 11) * 0x1p-53;
  const double r = sqrt(-2.0 * eti_log_d(1.0 - u));
  uint64_t quadrant;
  const double angle = eti_angle_d(v * 0x1.921fb54442d18p+2, &quadrant);
  out[0] = r * eti_sin_quadrant(angle, quadrant + 1u);
  out[1] = r * eti_sin_quadrant(angle, quadrant);
}

// ---- filling an output, in memory order

enum { BLOCK = 128 };

typedef struct fill {
  stream stream;
  et_tensor *out;
  eti_cast_fn cast;  // from f64 or i64
  double unit;       // rand: the step between two numbers of out's type
  int64_t low;       // randint
  uint64_t range;
  void (*make)(const struct fill *f, uint64_t first, size_t n, void *block);
} fill;

// Multiples of the type's step, so that rounding to it never gives 1: as torch has it, 24 bits for
// f32, 11 for f16, 8 for bf16.
static void make_uniform(const fill *f, uint64_t first, size_t n, void *block) {
  double *values = block;
  for (size_t j = 0; j < n; j++)
    values[j] = floor(draw_unit(&f->stream, first + j) / f->unit) * f->unit;
}

static void make_normal(const fill *f, uint64_t first, size_t n, void *block) {
  double *values = block;
  for (size_t j = 0; j < n; j += 2) {  // first is even
    const draw d = draw_block(&f->stream, (first + j) / 2);
    double pair[2];
    draw_normals(&d, pair);
    values[j] = pair[0];
    if (j + 1 < n) values[j + 1] = pair[1];
  }
}

static void make_integer(const fill *f, uint64_t first, size_t n, void *block) {
  int64_t *values = block;
  for (size_t j = 0; j < n; j++)
    values[j] = (int64_t)((uint64_t)f->low + draw_below(&f->stream, first + j, f->range));
}

static void fill_blocks(void *opaque, size_t begin, size_t end) {
  const fill *f = opaque;
  const size_t item = et_dtype_bytes((et_dtype)f->out->dtype);
  union {
    double d[BLOCK];
    int64_t i[BLOCK];
  } block;
  for (size_t b = begin; b < end; b++) {
    const size_t first = b * BLOCK, left = f->out->numel - first, n = left < BLOCK ? left : BLOCK;
    f->make(f, first, n, &block);
    f->cast((char *)f->out->data + first * item, (ptrdiff_t)item, &block, sizeof(double), n);
  }
}

static et_status fill_out(const et_kernel_ctx *ctx, fill *f, et_dtype via) {
  f->cast = eti_casts[via][f->out->dtype];
  ET_TRY(open_stream(ctx, &f->stream));
  et_parallel_for(ctx->pool, fill_blocks, f, (f->out->numel + BLOCK - 1) / BLOCK, GRAIN / BLOCK);
  return ET_OK;
}

// Resizes out to the list of sizes in argument i, or to the shape of the tensor there.
static et_status shape_out(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           et_tensor *out) {
  if (args[i]->tag == ET_TENSOR) return eti_resize_like(ctx, out, args[i]->as.tensor);
  int64_t sizes[ET_MAX_RANK];
  eti_shape shape;
  ET_TRY(eti_arg_ints(ctx, args, i, sizes, ET_MAX_RANK, &shape.rank));
  for (size_t d = 0; d < shape.rank; d++)
    ET_TRY(eti_checked_size(ctx, sizes[d], "output", &shape.sizes[d]));
  return eti_resize(ctx, out, &shape);
}

static et_status draw_reals(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                            const char *name,
                            void (*make)(const fill *, uint64_t, size_t, void *)) {
  fill f = {.make = make};
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &f.out));
  const et_dtype dtype = (et_dtype)f.out->dtype;
  ET_CHECK(eti_dtype_in(dtype, ET_TYPES_FLOAT_HALF), ctx->err, ET_NOT_SUPPORTED,
           "%s draws real numbers, and out is %s", name, et_dtype_name(dtype));
  f.unit = dtype == ET_F64   ? 0x1p-53
           : dtype == ET_F32 ? 0x1p-24
           : dtype == ET_F16 ? 0x1p-11
                             : 0x1p-8;
  ET_TRY(shape_out(ctx, args, 0, f.out));
  return fill_out(ctx, &f, ET_F64);
}

// rand(size, *, out), rand_like(self, *, memory_format, out), and so for randn.
et_status op_rand_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_reals(ctx, args, 1, "rand", make_uniform);
}
et_status op_rand_like_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_reals(ctx, args, 2, "rand_like", make_uniform);
}
et_status op_randn_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_reals(ctx, args, 1, "randn", make_normal);
}
et_status op_randn_like_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_reals(ctx, args, 2, "randn_like", make_normal);
}

static et_status draw_integers(const et_kernel_ctx *ctx, et_value *const *args, int64_t low,
                               int64_t high, size_t i_shape, size_t i_out) {
  fill f = {.make = make_integer, .low = low, .range = (uint64_t)high - (uint64_t)low};
  ET_CHECK(low < high, ctx->err, ET_INVALID_ARGUMENT,
           "randint: from %lld up to but without %lld there is no integer", (long long)low,
           (long long)high);
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &f.out));
  ET_TRY(shape_out(ctx, args, i_shape, f.out));
  return fill_out(ctx, &f, ET_I64);
}

// randint(high, size, *, out)
et_status op_randint_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t high = 0;
  ET_TRY(eti_arg_int(ctx, args, 0, &high));
  return draw_integers(ctx, args, 0, high, 1, 2);
}

// randint.low(low, high, size, *, out)
et_status op_randint_low_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t low = 0, high = 0;
  ET_TRY(eti_arg_int(ctx, args, 0, &low));
  ET_TRY(eti_arg_int(ctx, args, 1, &high));
  return draw_integers(ctx, args, low, high, 2, 3);
}

// randint_like(self, high, *, memory_format, out)
et_status op_randint_like_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t high = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &high));
  return draw_integers(ctx, args, 0, high, 0, 3);
}

// randint_like.low_dtype(self, low, high, *, memory_format, out)
et_status op_randint_like_low_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t low = 0, high = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &low));
  ET_TRY(eti_arg_int(ctx, args, 2, &high));
  return draw_integers(ctx, args, low, high, 0, 4);
}

// ---- randperm

static void swap_elements(char *a, char *b, size_t item) {
  char held[sizeof(int64_t)];
  memcpy(held, a, item);
  memmove(a, b, item);
  memcpy(b, held, item);
}

// randperm(n, *, out): Fisher and Yates' shuffle.
et_status op_randperm_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t n = 0;
  et_tensor *out = NULL;
  stream s = {0};
  eti_shape shape = {.rank = 1};
  ET_TRY(eti_arg_int(ctx, args, 0, &n));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  const et_dtype dtype = (et_dtype)out->dtype;
  ET_CHECK(eti_dtype_in(dtype, ET_TYPES_REAL_HALF), ctx->err, ET_NOT_SUPPORTED,
           "randperm gives no %s", et_dtype_name(dtype));
  ET_TRY(eti_checked_size(ctx, n, "output", &shape.sizes[0]));
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(open_stream(ctx, &s));
  const size_t item = et_dtype_bytes(dtype);
  char *data = out->data;
  for (int64_t i = 0; i < n; i++) eti_casts[ET_I64][dtype](data + (size_t)i * item, 0, &i, 0, 1);
  for (uint64_t i = (uint64_t)n; i-- > 1;) {
    const uint64_t j = draw_below(&s, i, i + 1);
    swap_elements(data + i * item, data + j * item, item);
  }
  return ET_OK;
}

// ---- multinomial

static double element_at(const et_tensor *t, ptrdiff_t at) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  double value;
  eti_casts[t->dtype][ET_F64](&value, 0, (const char *)t->data + at * item, 0, 1);
  return value;
}

typedef struct weights {
  const et_tensor *t;
  ptrdiff_t base, stride;
  size_t n, n_possible;
  double sum;
} weights;

static et_status weigh(const et_kernel_ctx *ctx, weights *w) {
  w->sum = 0.0;
  w->n_possible = 0;
  for (size_t j = 0; j < w->n; j++) {
    const double p = element_at(w->t, w->base + (ptrdiff_t)j * w->stride);
    ET_CHECK(isfinite(p) && p >= 0.0, ctx->err, ET_INVALID_ARGUMENT,
             "multinomial: weight %zu is %g, needs a finite number of at least 0", j, p);
    w->sum += p;
    w->n_possible += p > 0.0;
  }
  ET_CHECK(w->sum > 0.0, ctx->err, ET_INVALID_ARGUMENT, "multinomial: all %zu weights are 0", w->n);
  return ET_OK;
}

static size_t pick_with_replacement(const weights *w, double unit) {
  double left = unit * w->sum;
  size_t last = 0;
  for (size_t j = 0; j < w->n; j++) {
    const double p = element_at(w->t, w->base + (ptrdiff_t)j * w->stride);
    if (p <= 0.0) continue;
    last = j;
    if (left < p) return j;
    left -= p;
  }
  return last;  // rounding left a crumb over
}

typedef struct arrival {
  double time;
  size_t j;
} arrival;

// Draws without replacement are the order in which independent exponential clocks ring, the one of
// weight p at rate p. The clocks are functions of the stream, so nothing is remembered but the last
// to ring.
static arrival next_arrival(const weights *w, const stream *s, uint64_t first, arrival last) {
  arrival best = {(double)INFINITY, w->n};
  for (size_t j = 0; j < w->n; j++) {
    const double p = element_at(w->t, w->base + (ptrdiff_t)j * w->stride);
    if (p <= 0.0) continue;
    const double time = -eti_log_d(1.0 - draw_unit(s, first + j)) / p;
    const bool is_later = time > last.time || (time == last.time && j > last.j);
    if (is_later && (time < best.time || best.j == w->n)) best = (arrival){time, j};
  }
  return best;
}

static et_status draw_row(const et_kernel_ctx *ctx, weights *w, const stream *s, size_t row,
                          size_t n_samples, bool replacement, int64_t *out, ptrdiff_t stride) {
  ET_TRY(weigh(ctx, w));
  ET_CHECK(replacement || n_samples <= w->n_possible, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: %zu samples without replacement from %zu weights above 0", n_samples,
           w->n_possible);
  arrival last = {-1.0, 0};
  for (size_t k = 0; k < n_samples; k++) {
    if (replacement) {
      last.j = pick_with_replacement(w, draw_unit(s, (uint64_t)row * n_samples + k));
    } else {
      last = next_arrival(w, s, (uint64_t)row * w->n, last);
    }
    out[(ptrdiff_t)k * stride] = (int64_t)last.j;
  }
  return ET_OK;
}

// multinomial(self, num_samples, replacement, *, generator, out)
et_status op_multinomial_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self, *out;
  int64_t n_samples = 0;
  bool replacement = false;
  stream s = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &n_samples));
  ET_TRY(eti_arg_bool(ctx, args, 2, &replacement));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_CHECK(self->rank == 1 || self->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: the weights have rank %u, need 1 or 2", (unsigned)self->rank);
  ET_CHECK(eti_dtype_in((et_dtype)self->dtype, ET_TYPES_FLOAT_HALF) && out->dtype == ET_I64,
           ctx->err, ET_NOT_SUPPORTED, "multinomial from %s to %s: needs real weights, i64 out",
           et_dtype_name((et_dtype)self->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(n_samples > 0, ctx->err, ET_INVALID_ARGUMENT,
           "multinomial: %lld samples, needs at least 1", (long long)n_samples);
  eti_shape shape = eti_shape_of(self);
  const size_t dim = shape.rank - 1, n_rows = dim == 1 ? (size_t)shape.sizes[0] : 1;
  ET_TRY(eti_checked_size(ctx, n_samples, "output", &shape.sizes[dim]));
  weights w = {.t = self, .stride = self->strides[dim], .n = (size_t)self->sizes[dim]};
  const ptrdiff_t row_stride = dim == 1 ? self->strides[0] : 0;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(open_stream(ctx, &s));
  for (size_t row = 0; row < n_rows; row++) {
    w.base = (ptrdiff_t)row * row_stride;
    int64_t *to = (int64_t *)out->data + (dim == 1 ? (ptrdiff_t)row * out->strides[0] : 0);
    ET_TRY(draw_row(ctx, &w, &s, row, (size_t)n_samples, replacement, to, out->strides[dim]));
  }
  return ET_OK;
}

// ---- dropout

typedef struct dropout {
  stream stream;
  const et_tensor *x;
  et_tensor *out, *mask;
  double p;
} dropout;

// Where element `i` of the logical order lies.
static ptrdiff_t offset_of(const et_tensor *t, size_t i) {
  ptrdiff_t at = 0;
  for (size_t d = t->rank; d-- > 0;) {
    const size_t size = (size_t)t->sizes[d];
    at += (ptrdiff_t)(i % size) * t->strides[d];
    i /= size;
  }
  return at;
}

static void drop_range(void *opaque, size_t begin, size_t end) {
  const dropout *d = opaque;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)d->out->dtype);
  const eti_cast_fn store = eti_casts[ET_F64][d->out->dtype];
  const bool is_f64 = d->out->dtype == ET_F64;
  const double scale = d->p >= 1.0 ? 0.0 : 1.0 / (1.0 - d->p);
  for (size_t i = begin; i < end; i++) {
    const bool keep = draw_unit(&d->stream, i) >= d->p;
    const double x = element_at(d->x, offset_of(d->x, i)) * (keep ? 1.0 : 0.0);
    const double y = is_f64 ? x * scale : (double)((float)x * (float)scale);
    store((char *)d->out->data + offset_of(d->out, i) * item, 0, &y, 0, 1);
    ((uint8_t *)d->mask->data)[offset_of(d->mask, i)] = keep;
  }
}

// native_dropout(input, p, train?, *, out0, out1): without `train` given it trains, as in ATen.
et_status op_native_dropout_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x;
  dropout d = {.p = 0.0};
  bool trains = true;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_double(ctx, args, 1, &d.p));
  if (args[2]->tag != ET_NONE) ET_TRY(eti_arg_bool(ctx, args, 2, &trains));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &d.out));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &d.mask));
  d.x = x;
  ET_CHECK(d.p >= 0.0 && d.p <= 1.0, ctx->err, ET_INVALID_ARGUMENT,
           "dropout: p is %g, needs 0 to 1", d.p);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && d.out->dtype == x->dtype &&
               d.mask->dtype == ET_B8,
           ctx->err, ET_NOT_SUPPORTED,
           "dropout: %s to %s with a mask of %s, needs one real type, b8",
           et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)d.out->dtype),
           et_dtype_name((et_dtype)d.mask->dtype));
  ET_TRY(eti_resize_like(ctx, d.mask, x));
  ET_TRY(eti_resize_like(ctx, d.out, x));
  if (!trains || d.p == 0.0) {  // a copy, and a mask of ones
    if (d.mask->numel > 0) memset(d.mask->data, 1, d.mask->numel);
    return eti_copy_tensor(ctx, d.out, x);
  }
  ET_TRY(open_stream(ctx, &d.stream));
  et_parallel_for(ctx->pool, drop_range, &d, x->numel, GRAIN);
  return ET_OK;
}
