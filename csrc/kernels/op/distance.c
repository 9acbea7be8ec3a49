// distance.c — p-norm distances between rows: _cdist_forward (rows of two matrices, batched) and
// _pdist_forward (all pairs of one). Rows are read in pieces of f64 and summed in order, so results
// do not depend on threads; only the powers of an uncommon p are taken in the tensor's own
// precision. Euclidean distances of many rows of f32 and half types are summed in f32 by pieces of
// 128. Relies on the cast table and micro/. NaN stays NaN.
#include "kernels/kernel.h"
#include "kernels/micro/eltwise.h"
#include "kernels/micro/math_f32.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 };  // elements of two rows that are on the stack

typedef struct distance {
  const et_tensor *a, *b, *out;
  double p;
  size_t n;                  // elements of a row
  ptrdiff_t a_item, b_item;  // bytes between elements of a row
  ptrdiff_t a_batch[ET_MAX_RANK],
      b_batch[ET_MAX_RANK];  // per leading dimension of out; 0 where it repeats
} distance;

static double power(const distance *d, double x, double p) {
  return d->out->dtype == ET_F64 ? pow(x, p) : (double)eti_pow_f32((float)x, (float)p);
}

static double add_piece(const distance *d, double sum, const double *a, const double *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const double x = fabs(a[i] - b[i]);
    if (d->p == 2.0) {
      sum += x * x;
    } else if (d->p == 1.0) {
      sum += x;
    } else if (d->p == 0.0) {
      sum += x != 0.0 ? 1.0 : 0.0;
    } else if (isinf(d->p)) {
      sum = x > sum || isnan(x) ? x : sum;
    } else {
      sum += power(d, x, d->p);
    }
  }
  return sum;
}

static double between(const distance *d, const char *a, const char *b) {
  double x[PIECE], y[PIECE], sum = 0.0;
  for (size_t i = 0; i < d->n; i += PIECE) {
    const size_t n = d->n - i < PIECE ? d->n - i : PIECE;
    eti_casts[d->a->dtype][ET_F64](x, 8, a + (ptrdiff_t)i * d->a_item, d->a_item, n);
    eti_casts[d->b->dtype][ET_F64](y, 8, b + (ptrdiff_t)i * d->b_item, d->b_item, n);
    sum = add_piece(d, sum, x, y, n);
  }
  if (d->p == 2.0) return sqrt(sum);
  return d->p == 0.0 || d->p == 1.0 || isinf(d->p) ? sum : power(d, sum, 1.0 / d->p);
}

static void store(const distance *d, ptrdiff_t at, double value) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)d->out->dtype);
  eti_casts[ET_F64][d->out->dtype]((char *)d->out->data + at * item, 0, &value, 0, 1);
}

static const char *row_at(const et_tensor *t, ptrdiff_t element) {
  return (const char *)t->data + element * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

// Elements from the start of the tensors to those of one batch.
typedef struct offsets {
  ptrdiff_t a, b, out;
} offsets;

static offsets batch_at(const distance *d, size_t batch) {
  offsets at = {0};
  for (size_t k = d->out->rank - 2u; k-- > 0;) {
    const ptrdiff_t i = (ptrdiff_t)(batch % (size_t)d->out->sizes[k]);
    batch /= (size_t)d->out->sizes[k];
    at.a += i * d->a_batch[k];
    at.b += i * d->b_batch[k];
    at.out += i * d->out->strides[k];
  }
  return at;
}

// Items are rows of the result: batch × rows of a.
static void cdist_rows(void *opaque, size_t begin, size_t end) {
  const distance *const d = opaque;
  const size_t lead = d->out->rank - 2u;
  const size_t n_a = (size_t)d->out->sizes[lead], n_b = (size_t)d->out->sizes[lead + 1];
  for (size_t i = begin; i < end; i++) {
    const offsets at = batch_at(d, i / n_a);
    const ptrdiff_t a = at.a + (ptrdiff_t)(i % n_a) * d->a->strides[d->a->rank - 2];
    const ptrdiff_t out = at.out + (ptrdiff_t)(i % n_a) * d->out->strides[lead];
    for (size_t j = 0; j < n_b; j++) {
      const ptrdiff_t b = at.b + (ptrdiff_t)j * d->b->strides[d->b->rank - 2];
      store(d, out + (ptrdiff_t)j * d->out->strides[lead + 1],
            between(d, row_at(d->a, a), row_at(d->b, b)));
    }
  }
}

// ---- Euclidean distances that need no f64: sixteen rows of b at a time, element by element side
// by side

enum { TILE = 16, TILE_PIECE = 128, TILE_ROWS = 64 };

// Elements [k, k + n) of rows [j0, j0 + n_j) of b, zeros beside them.
static void fill_tile(const distance *d, const offsets *at, size_t j0, size_t n_j, size_t k,
                      size_t n, float *tile) {
  const ptrdiff_t step = d->b->strides[d->b->rank - 2];
  if (n_j < TILE) memset(tile, 0, n * TILE * sizeof *tile);
  for (size_t j = 0; j < n_j; j++) {
    eti_casts[d->b->dtype][ET_F32](
        tile + j, TILE * sizeof *tile,
        row_at(d->b, at->b + (ptrdiff_t)(j0 + j) * step) + (ptrdiff_t)k * d->b_item, d->b_item, n);
  }
}

// sums[i] += the squares of rows [i0, i0 + n_i) of a against the tile's.
static void add_tile(const distance *d, const offsets *at, size_t i0, size_t n_i, size_t k,
                     size_t n, const float *tile, double sums[][TILE]) {
  const ptrdiff_t step = d->a->strides[d->a->rank - 2];
  float row[TILE_PIECE];
  for (size_t i = 0; i < n_i; i++) {
    const char *const from =
        row_at(d->a, at->a + (ptrdiff_t)(i0 + i) * step) + (ptrdiff_t)k * d->a_item;
    const float *x = (const float *)(const void *)from;
    if (d->a->dtype != ET_F32 || d->a_item != (ptrdiff_t)sizeof *row) {
      eti_casts[d->a->dtype][ET_F32](row, sizeof *row, from, d->a_item, n);
      x = row;
    }
    float part[TILE] = {0.0f};
    eti_eltwise_get()->tile_square_diff(part, x, tile, n);
    for (size_t l = 0; l < TILE; l++) sums[i][l] += (double)part[l];
  }
}

static void store_tile(const distance *d, const offsets *at, size_t i0, size_t n_i, size_t j0,
                       size_t n_j, double sums[][TILE]) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)d->out->dtype);
  const ptrdiff_t *const steps = d->out->strides + (d->out->rank - 2u);
  for (size_t i = 0; i < n_i; i++) {
    for (size_t l = 0; l < TILE; l++) sums[i][l] = sqrt(sums[i][l]);
    const ptrdiff_t out = at->out + (ptrdiff_t)(i0 + i) * steps[0] + (ptrdiff_t)j0 * steps[1];
    eti_casts[ET_F64][d->out->dtype]((char *)d->out->data + out * item, steps[1] * item, sums[i],
                                     sizeof(double), n_j);
  }
}

// Items are batch × tiles of b. A tile of short rows is filled once.
static void cdist_tiles(void *opaque, size_t begin, size_t end) {
  const distance *const d = opaque;
  const size_t lead = d->out->rank - 2u;
  const size_t n_a = (size_t)d->out->sizes[lead], n_b = (size_t)d->out->sizes[lead + 1];
  const size_t n_tiles = (n_b + TILE - 1) / TILE;
  float tile[TILE_PIECE * TILE];
  for (size_t u = begin; u < end; u++) {
    const offsets at = batch_at(d, u / n_tiles);
    const size_t j0 = u % n_tiles * TILE, n_j = n_b - j0 < TILE ? n_b - j0 : TILE;
    for (size_t i = 0; i < n_a; i += TILE_ROWS) {
      const size_t n_i = n_a - i < TILE_ROWS ? n_a - i : TILE_ROWS;
      double sums[TILE_ROWS][TILE] = {{0.0}};
      for (size_t k = 0; k < d->n; k += TILE_PIECE) {
        const size_t n = d->n - k < TILE_PIECE ? d->n - k : TILE_PIECE;
        if (i == 0 || d->n > TILE_PIECE) fill_tile(d, &at, j0, n_j, k, n, tile);
        add_tile(d, &at, i, n_i, k, n, tile, sums);
      }
      store_tile(d, &at, i, n_i, j0, n_j, sums);
    }
  }
}

static et_status check_rows(const et_kernel_ctx *ctx, const char *op, const et_tensor *t,
                            const et_tensor *out, double p) {
  ET_CHECK(eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF) && t->dtype == out->dtype,
           ctx->err, ET_INVALID_ARGUMENT, "%s: input is %s, out %s; needs one floating-point type",
           op, et_dtype_name((et_dtype)t->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(p >= 0.0, ctx->err, ET_INVALID_ARGUMENT, "%s: p is %g, needs 0 or more", op, p);
  ET_CHECK(t != out, ctx->err, ET_INVALID_ARGUMENT, "%s: out is also an input", op);
  return ET_OK;
}

static size_t grain_of(size_t row_cost) {
  return 1 + ETI_GRAIN_CHEAP / (row_cost + 1);
}

static eti_shape batch_of(const et_tensor *t) {
  eti_shape shape = eti_shape_of(t);
  shape.rank -= 2;
  return shape;
}

// How far one step along each leading dimension of out takes a tensor.
static void take_steps(const et_tensor *t, size_t lead, ptrdiff_t steps[ET_MAX_RANK]) {
  const size_t own = t->rank - 2u;
  for (size_t k = 0; k < own; k++) steps[lead - own + k] = t->sizes[k] == 1 ? 0 : t->strides[k];
}

et_status op_cdist_forward_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *b, *out;
  distance d = {.n = 0};
  int64_t mode = 0;  // how to compute, which says nothing about the result
  bool has_mode;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_double(ctx, args, 2, &d.p));
  ET_TRY(eti_arg_optional_int(ctx, args, 3, &has_mode, &mode));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(check_rows(ctx, "cdist", a, out, d.p));
  ET_TRY(check_rows(ctx, "cdist", b, out, d.p));
  ET_CHECK(
      a->rank >= 2 && b->rank >= 2 && a->sizes[a->rank - 1] == b->sizes[b->rank - 1], ctx->err,
      ET_INVALID_ARGUMENT,
      "cdist: ranks %d and %d with rows of %d and %d elements, needs rank 2 or more and equal rows",
      (int)a->rank, (int)b->rank, a->rank > 0 ? (int)a->sizes[a->rank - 1] : 0,
      b->rank > 0 ? (int)b->sizes[b->rank - 1] : 0);
  const eti_shape batch_a = batch_of(a), batch_b = batch_of(b);
  eti_shape shape;
  ET_TRY(eti_broadcast(ctx, &batch_a, &batch_b, &shape));
  const size_t lead = shape.rank;
  shape.sizes[shape.rank++] = a->sizes[a->rank - 2];
  shape.sizes[shape.rank++] = b->sizes[b->rank - 2];
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  take_steps(a, lead, d.a_batch);
  take_steps(b, lead, d.b_batch);
  d.a = a;
  d.b = b;
  d.out = out;
  d.n = (size_t)a->sizes[a->rank - 1];
  d.a_item = a->strides[a->rank - 1] * (ptrdiff_t)et_dtype_bytes((et_dtype)a->dtype);
  d.b_item = b->strides[b->rank - 1] * (ptrdiff_t)et_dtype_bytes((et_dtype)b->dtype);
  const size_t n_b = (size_t)shape.sizes[lead + 1], rows = out->numel / n_b;
  if (d.p == 2.0 && out->dtype != ET_F64) {
    const size_t n_tiles = (n_b + TILE - 1) / TILE, n_a = (size_t)shape.sizes[lead];
    et_parallel_for(ctx->pool, cdist_tiles, &d, rows / n_a * n_tiles, grain_of(n_a * TILE * d.n));
    return ET_OK;
  }
  et_parallel_for(ctx->pool, cdist_rows, &d, rows, grain_of(n_b * d.n));
  return ET_OK;
}

// Items are first rows i; their pairs (i, j > i) lie together in the result.
static void pdist_rows(void *opaque, size_t begin, size_t end) {
  const distance *const d = opaque;
  const size_t n = (size_t)d->a->sizes[0];
  for (size_t i = begin; i < end; i++) {
    const size_t first = i * n - i * (i + 1) / 2;
    for (size_t j = i + 1; j < n; j++) {
      store(d, (ptrdiff_t)(first + j - i - 1),
            between(d, row_at(d->a, (ptrdiff_t)i * d->a->strides[0]),
                    row_at(d->a, (ptrdiff_t)j * d->a->strides[0])));
    }
  }
}

et_status op_pdist_forward_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  distance d = {.n = 0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_double(ctx, args, 1, &d.p));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(check_rows(ctx, "pdist", x, out, d.p));
  ET_CHECK(x->rank == 2, ctx->err, ET_INVALID_ARGUMENT, "pdist: input has rank %d, needs 2",
           (int)x->rank);
  const int64_t n = x->sizes[0], pairs = n * (n - 1) / 2;
  ET_CHECK(pairs <= INT32_MAX, ctx->err, ET_NOT_SUPPORTED,
           "pdist: %lld rows have more than 2^31 pairs", (long long)n);
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)pairs}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  d.a = d.b = x;
  d.out = out;
  d.n = (size_t)x->sizes[1];
  d.a_item = d.b_item = x->strides[1] * (ptrdiff_t)et_dtype_bytes((et_dtype)x->dtype);
  et_parallel_for(ctx->pool, pdist_rows, &d, (size_t)n, grain_of((size_t)n * d.n / 2));
  return ET_OK;
}
