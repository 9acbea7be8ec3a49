// random.c — operators that draw random numbers: rand, randn, randint, randperm, dropout in
// training. Each element uses the number of its position in memory from the call's stream
// (random_stream.h). Relies on micro/random/philox.h; multinomial.c has the other one.
#include "kernels/lib/random_stream.h"

#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"

#include <string.h>

enum { GRAIN = 8192, BLOCK = ETI_PHILOX_BLOCK };

// A number in [0, n): the high half of bits × n, uniform except for less than n / 2^64.
static uint64_t random_below(uint64_t x, uint64_t n) {
  const uint64_t x0 = x & 0xFFFFFFFFu, x1 = x >> 32;
  const uint64_t n0 = n & 0xFFFFFFFFu, n1 = n >> 32;
  const uint64_t low = x0 * n0, a = x1 * n0 + (low >> 32), b = x0 * n1 + (a & 0xFFFFFFFFu);
  return x1 * n1 + (a >> 32) + (b >> 32);
}

// ---- filling an output, in memory order

typedef union values {
  double f64[BLOCK];
  float f32[BLOCK];
  int64_t i64[BLOCK];
} values;

typedef struct fill {
  eti_philox_stream stream;
  et_tensor *out;
  const eti_philox_micro *micro;
  et_dtype via;     // type of the values that make() gives
  unsigned places;  // rand: bits of a number of out's type
  int64_t low;      // randint
  uint64_t range;
  void (*make)(const struct fill *f, const uint64_t *bits, size_t n, values *to);
} fill;

static void make_uniform(const fill *f, const uint64_t *bits, size_t n, values *to) {
  if (f->via == ET_F64) {
    f->micro->uniform_f64(to->f64, bits, n);
  } else {
    f->micro->uniform_f32(to->f32, bits, n, f->places);
  }
}

static void make_normal(const fill *f, const uint64_t *bits, size_t n, values *to) {
  f->micro->normal(to->f64, bits, n);
}

static void make_integer(const fill *f, const uint64_t *bits, size_t n, values *to) {
  for (size_t j = 0; j < n; j++)
    to->i64[j] = (int64_t)((uint64_t)f->low + random_below(bits[j], f->range));
}

static void fill_blocks(void *opaque, size_t begin, size_t end) {
  const fill *f = opaque;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)f->out->dtype),
                  step = (ptrdiff_t)et_dtype_bytes(f->via);
  _Alignas(64) uint64_t bits[BLOCK];
  _Alignas(64) values to;
  for (size_t b = begin; b < end; b++) {
    const size_t first = b * BLOCK, left = f->out->numel - first, n = left < BLOCK ? left : BLOCK;
    const size_t even = n + n % 2;  // normals come in pairs
    f->micro->bits(&f->stream, first, even, bits);
    f->make(f, bits, even, &to);
    eti_casts[f->via][f->out->dtype]((char *)f->out->data + (ptrdiff_t)first * item, item, &to,
                                     step, n);
  }
}

static et_status fill_out(const et_kernel_ctx *ctx, fill *f) {
  f->micro = eti_philox_micro_get();
  ET_TRY(eti_random_open(ctx, &f->stream));
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
                            void (*make)(const fill *, const uint64_t *, size_t, values *)) {
  fill f = {.make = make};
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &f.out));
  const et_dtype dtype = (et_dtype)f.out->dtype;
  ET_CHECK(eti_dtype_in(dtype, ET_TYPES_FLOAT_HALF), ctx->err, ET_NOT_SUPPORTED,
           "%s: out: expected a real dtype, got %s", name, et_dtype_name(dtype));
  // Torch's number of bits: rounding to the type never gives 1.
  f.places = dtype == ET_F64 ? 53 : dtype == ET_F32 ? 24 : dtype == ET_F16 ? 11 : 8;
  f.via = dtype == ET_F64 || make == make_normal ? ET_F64 : ET_F32;
  ET_TRY(shape_out(ctx, args, 0, f.out));
  return fill_out(ctx, &f);
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

// Draws integers from a lower bound (0 if there is only one bound) up to, and without, an upper
// one: arguments i_bound … of `n_bounds`.
static et_status draw_integers(const et_kernel_ctx *ctx, et_value *const *args, size_t i_bound,
                               size_t n_bounds, size_t i_shape, size_t i_out) {
  int64_t low = 0, high = 0;
  if (n_bounds == 2) ET_TRY(eti_arg_int(ctx, args, i_bound, &low));
  ET_TRY(eti_arg_int(ctx, args, i_bound + n_bounds - 1, &high));
  ET_CHECK(low < high, ctx->err, ET_INVALID_ARGUMENT,
           "randint: expected low below high, got %lld and %lld", (long long)low, (long long)high);
  fill f = {
      .make = make_integer, .via = ET_I64, .low = low, .range = (uint64_t)high - (uint64_t)low};
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &f.out));
  ET_TRY(shape_out(ctx, args, i_shape, f.out));
  return fill_out(ctx, &f);
}

// randint(high, size, *, out)
et_status op_randint_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_integers(ctx, args, 0, 1, 1, 2);
}
// randint.low(low, high, size, *, out)
et_status op_randint_low_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_integers(ctx, args, 0, 2, 2, 3);
}
// randint_like(self, high, *, memory_format, out)
et_status op_randint_like_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_integers(ctx, args, 1, 1, 0, 3);
}
// randint_like.low_dtype(self, low, high, *, memory_format, out)
et_status op_randint_like_low_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  return draw_integers(ctx, args, 1, 2, 0, 4);
}

// ---- randperm

static inline __attribute__((always_inline)) void swap_elements(char *a, char *b, size_t item) {
  char held[sizeof(int64_t)];
  memcpy(held, a, item);
  memmove(a, b, item);
  memcpy(b, held, item);
}

// Fisher and Yates' shuffle: element i is exchanged with one of the first i + 1, chosen by number i
// of the stream. A block of choices is made ahead, so that their elements can be prefetched.
static inline __attribute__((always_inline)) void shuffle_elements(const eti_philox_stream *s,
                                                                   char *data, size_t n,
                                                                   const size_t item) {
  const eti_philox_micro *const micro = eti_philox_micro_get();
  _Alignas(64) uint64_t other[BLOCK];
  for (size_t end = n; end > 1;) {
    const size_t count = end < BLOCK ? end : BLOCK, begin = end - count;
    micro->bits(s, begin, count, other);
    for (size_t i = 0; i < count; i++) {
      other[i] = random_below(other[i], begin + i + 1);
#if defined(__GNUC__)
      __builtin_prefetch(data + other[i] * item, 1);
#endif
    }
    for (size_t i = count; i-- > 0;)
      swap_elements(data + (begin + i) * item, data + other[i] * item, item);
    end = begin;
  }
}

// randperm(n, *, out)
et_status op_randperm_out(et_kernel_ctx *ctx, et_value *const *args) {
  int64_t n = 0;
  et_tensor *out = NULL;
  eti_philox_stream s = {0};
  eti_shape shape = {.rank = 1};
  ET_TRY(eti_arg_int(ctx, args, 0, &n));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  const et_dtype dtype = (et_dtype)out->dtype;
  ET_CHECK(eti_dtype_in(dtype, ET_TYPES_REAL_HALF), ctx->err, ET_NOT_SUPPORTED,
           "randperm: not defined for dtype %s", et_dtype_name(dtype));
  ET_TRY(eti_checked_size(ctx, n, "output", &shape.sizes[0]));
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_random_open(ctx, &s));
  const size_t item = et_dtype_bytes(dtype);
  char *data = out->data;
  int64_t places[BLOCK];
  for (size_t first = 0; first < (size_t)n; first += BLOCK) {
    const size_t count = (size_t)n - first < BLOCK ? (size_t)n - first : BLOCK;
    for (size_t i = 0; i < count; i++) places[i] = (int64_t)(first + i);
    eti_casts[ET_I64][dtype](data + first * item, (ptrdiff_t)item, places, sizeof *places, count);
  }
  switch (item) {
    case 8:
      shuffle_elements(&s, data, (size_t)n, 8);
      break;
    case 4:
      shuffle_elements(&s, data, (size_t)n, 4);
      break;
    case 2:
      shuffle_elements(&s, data, (size_t)n, 2);
      break;
    default:
      shuffle_elements(&s, data, (size_t)n, 1);
      break;
  }
  return ET_OK;
}

// ---- dropout

typedef struct dropout {
  eti_philox_stream stream;
  const eti_philox_micro *micro;
  const et_tensor *x;
  et_tensor *out, *mask;
  double p;
  bool in_rows;  // logical order is memory order everywhere
} dropout;

// Casts elements [first, first + n) of the logical order to or from a row of `type`.
static void move_elements(const dropout *d, const et_tensor *t, size_t first, size_t n,
                          uint8_t type, void *row, bool reading) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype),
                  step = (ptrdiff_t)et_dtype_bytes((et_dtype)type);
  const size_t run = d->in_rows ? n : 1;
  for (size_t i = 0; i < n; i += run) {
    char *const there = d->in_rows ? (char *)t->data + (ptrdiff_t)first * item
                                   : eti_element(t, eti_offset_of(t, first + i));
    char *const here = (char *)row + (ptrdiff_t)i * step;
    if (reading) {
      eti_casts[t->dtype][type](here, step, there, item, run);
    } else {
      eti_casts[type][t->dtype](there, item, here, step, run);
    }
  }
}

static void drop_range(void *opaque, size_t begin, size_t end) {
  const dropout *d = opaque;
  const bool is_f64 = d->out->dtype == ET_F64;
  const uint8_t type = is_f64 ? ET_F64 : ET_F32;
  const double scale = d->p >= 1.0 ? 0.0 : 1.0 / (1.0 - d->p);
  const float scale_f32 = (float)scale;
  _Alignas(64) uint64_t bits[BLOCK];
  _Alignas(64) values x;
  uint8_t keeps[BLOCK];
  for (size_t first = begin; first < end; first += BLOCK) {
    const size_t n = end - first < BLOCK ? end - first : BLOCK;
    d->micro->bits(&d->stream, first, n, bits);
    for (size_t i = 0; i < n; i++) keeps[i] = eti_random_unit(bits[i]) >= d->p;
    move_elements(d, d->x, first, n, type, &x, true);
    for (size_t i = 0; i < n && is_f64; i++) x.f64[i] = x.f64[i] * (keeps[i] ? 1.0 : 0.0) * scale;
    for (size_t i = 0; i < n && !is_f64; i++)
      x.f32[i] = x.f32[i] * (keeps[i] ? 1.0f : 0.0f) * scale_f32;
    move_elements(d, d->out, first, n, type, &x, false);
    move_elements(d, d->mask, first, n, ET_B8, keeps, false);
  }
}

// native_dropout(input, p, train?, *, out0, out1): trains if `train` is absent, as in ATen.
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
           "dropout: p: expected 0 to 1, got %g", d.p);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && d.out->dtype == x->dtype &&
               d.mask->dtype == ET_B8,
           ctx->err, ET_NOT_SUPPORTED,
           "dropout: expected one real type and a mask of b8, got %s, %s and %s",
           et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)d.out->dtype),
           et_dtype_name((et_dtype)d.mask->dtype));
  ET_TRY(eti_resize_like(ctx, d.mask, x));
  ET_TRY(eti_resize_like(ctx, d.out, x));
  if (!trains || d.p == 0.0) {  // a copy, and a mask of ones
    if (d.mask->numel > 0) memset(d.mask->data, 1, d.mask->numel);
    return eti_copy_tensor(ctx, d.out, x);
  }
  ET_TRY(eti_random_open(ctx, &d.stream));
  d.micro = eti_philox_micro_get();
  d.in_rows = eti_is_contiguous(x) && eti_is_contiguous(d.out) && eti_is_contiguous(d.mask);
  et_parallel_for(ctx->pool, drop_range, &d, x->numel, GRAIN);
  return ET_OK;
}
