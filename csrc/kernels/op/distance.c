// distance.c — p-norm distances between rows: _cdist_forward (rows of two matrices, batched) and
// _pdist_forward (all pairs of one). Sixteen rows of b are interleaved in a tile, in pieces, and
// every row of a is compared with them; each pair sums in order, so results do not depend on
// threads. Sums are f64, but Euclidean distances of f32 and half types are summed in f32 by pieces
// of 128, fused. Powers for other p are computed in the tensor's own precision. Relies on the
// cast table and micro/rows/row_distance.h. NaN stays NaN.
#include "kernels/kernel.h"
#include "kernels/micro/rows/row_distance.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

// Entries of the tables that this file calls directly.
ETI_USES(unary, sqrt)
ETI_USES(binary, pow)

typedef struct distance {
  const et_tensor *a, *b, *out;
  double p;
  eti_norm_kind kind;
  bool in_f32;               // squares of f32 and halves
  bool pairs;                // each pair of one matrix once
  size_t n;                  // elements of a row
  ptrdiff_t a_item, b_item;  // bytes between elements of a row
  ptrdiff_t a_batch[ET_MAX_RANK],
      b_batch[ET_MAX_RANK];  // per leading dimension of out; 0 where it repeats
} distance;

static eti_norm_kind kind_of(double p, bool is_f64) {
  if (p == 0.0) return ETI_NORM_ZERO;
  if (p == 1.0) return ETI_NORM_ONE;
  if (p == 2.0) return ETI_NORM_TWO;
  if (isinf(p)) return ETI_NORM_INFINITE;
  return is_f64 ? ETI_NORM_POWER_F64 : ETI_NORM_POWER;
}

// The distance from a sum of powers other than squares.
static double distance_of(const distance *d, double sum) {
  switch (d->kind) {
    case ETI_NORM_POWER:
      return (double)eti_pow_f32((float)sum, (float)(1.0 / d->p));
    case ETI_NORM_POWER_F64:
      return eti_pow_f64(sum, 1.0 / d->p);
    default:
      return sum;
  }
}

static const char *row_at(const et_tensor *t, ptrdiff_t element) {
  return (const char *)t->data + element * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

// Element offsets of one batch in each tensor.
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

// ---- tiles

enum {
  F32_PIECE = 128,                    // elements whose squares are summed in f32
  TILE_PIECE = ETI_ON_STACK(128, 2),  // elements of a tile, a divisor of it
  TILE_ROWS = ETI_ON_STACK(64, 8)     // rows of a that are compared with it
};

typedef union tile {
  float f[TILE_PIECE * ETI_TILE];
  double d[TILE_PIECE * ETI_TILE];
} tile;

static ptrdiff_t row_step(const et_tensor *t) {
  return t->strides[t->rank - 2];
}

// Fills a tile with elements [k, k + n) of rows [j0, j0 + n_j) of b, padded with zeros.
static ETI_OWN_FRAME void fill_tile(const distance *d, const offsets *at, size_t j0, size_t n_j,
                                    size_t k, size_t n, tile *t) {
  const et_dtype type = d->in_f32 ? ET_F32 : ET_F64;
  const size_t item = et_dtype_bytes(type);
  if (n_j < ETI_TILE) memset(t, 0, n * ETI_TILE * item);
  for (size_t j = 0; j < n_j; j++) {
    eti_casts[d->b->dtype][type](
        (char *)t + j * item, (ptrdiff_t)(ETI_TILE * item),
        row_at(d->b, at->b + (ptrdiff_t)(j0 + j) * row_step(d->b)) + (ptrdiff_t)k * d->b_item,
        d->b_item, n);
  }
}

// Reads elements [k, k + n) of row i of a in a type: in place, or in the buffer.
static const void *row_of(const distance *d, const offsets *at, size_t i, size_t k, size_t n,
                          et_dtype type, void *buffer) {
  const char *const from =
      row_at(d->a, at->a + (ptrdiff_t)i * row_step(d->a)) + (ptrdiff_t)k * d->a_item;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes(type);
  if (d->a->dtype == (uint8_t)type && d->a_item == item) return from;
  eti_casts[d->a->dtype][type](buffer, item, from, d->a_item, n);
  return buffer;
}

// A piece of one row, in the type of computation.
typedef union tile_row {
  float f[TILE_PIECE];
  double d[TILE_PIECE];
} tile_row;

// Sums for TILE_ROWS rows of a: in f64, and in f32 those of the current F32_PIECE.
typedef struct tile_sums {
  double d[TILE_ROWS][ETI_TILE];
  float f[TILE_ROWS][ETI_TILE];
} tile_sums;

// True if the sums in f32 are whole.
static bool is_one_piece(const distance *d) {
  return d->in_f32 && d->n > 0 && d->n <= F32_PIECE;
}

// A group of rows of a for a micro-kernel, padded with its last row.
typedef struct group {
  const void *x[ETI_TILE_GROUP];
  tile_row rooms[ETI_TILE_GROUP];
} group;

static void fill_group(const distance *d, const offsets *at, size_t i, size_t n_rows, size_t k,
                       size_t n, group *to) {
  const et_dtype type = d->in_f32 ? ET_F32 : ET_F64;
  if (d->a->dtype == (uint8_t)type && d->a_item == (ptrdiff_t)et_dtype_bytes(type)) {
    const ptrdiff_t step = row_step(d->a) * d->a_item;
    const char *const first = row_at(d->a, at->a) + (ptrdiff_t)k * d->a_item;
    for (size_t g = 0; g < ETI_TILE_GROUP; g++)
      to->x[g] = first + (ptrdiff_t)(i + g < n_rows ? i + g : n_rows - 1) * step;
    return;
  }
  for (size_t g = 0; g < ETI_TILE_GROUP; g++) {
    const size_t row = i + g < n_rows ? i + g : n_rows - 1;
    to->x[g] = row_of(d, at, row, k, n, type, &to->rooms[g]);
  }
}

// Adds squares in f32 within F32_PIECE elements, unless the result is f64.
static ETI_OWN_FRAME void add_squares(const distance *d, const offsets *at, size_t i0, size_t n_i,
                                      size_t k, size_t n, const tile *t, tile_sums *sums) {
  const eti_row_distance_micro *const micro = eti_row_distance_micro_get();
  const bool begins = k % F32_PIECE == 0, ends = (k + n) % F32_PIECE == 0 || k + n == d->n;
  group rows;
  for (size_t i = 0; i < n_i; i += ETI_TILE_GROUP) {
    fill_group(d, at, i0 + i, i0 + n_i, k, n, &rows);
    if (!d->in_f32) {
      micro->squares_f64(sums->d + i, rows.x, t->d, n);
      continue;
    }
    float (*const part)[ETI_TILE] = sums->f + i;
    if (begins) memset(part, 0, ETI_TILE_GROUP * sizeof *part);
    micro->squares(part, rows.x, t->f, n);
    if (is_one_piece(d) || !ends) continue;
    for (size_t g = 0; g < ETI_TILE_GROUP; g++) {
      for (size_t l = 0; l < ETI_TILE; l++) sums->d[i + g][l] += (double)part[g][l];
    }
  }
}

enum { POWERS = ETI_ON_STACK(128, 32) };  // powers at a time, a multiple of ETI_TILE

// Adds powers: sums[l] += |x[k] − tile[16·k + l]|^p, by the loops of pow in the tensor's own
// precision.
static ETI_OWN_FRAME void add_powers(const distance *d, double sums[ETI_TILE], const double *x,
                                     const double *t, size_t n) {
  float narrow[POWERS];
  double wide[POWERS];
  const float p_f32 = (float)d->p;
  const bool in_f32 = d->kind == ETI_NORM_POWER;
  for (size_t at = 0; at < n * ETI_TILE; at += POWERS) {
    const size_t m = n * ETI_TILE - at < POWERS ? n * ETI_TILE - at : POWERS;
    for (size_t i = 0; i < m; i++) wide[i] = fabs(x[(at + i) / ETI_TILE] - t[at + i]);
    if (in_f32) {
      void *const p[3] = {narrow, narrow, (void *)(uintptr_t)&p_f32};
      const ptrdiff_t s[3] = {sizeof *narrow, sizeof *narrow, 0};
      for (size_t i = 0; i < m; i++) narrow[i] = (float)wide[i];
      eti_eltwise_get()->binary.pow(p, s, m, NULL);
      for (size_t i = 0; i < m; i++) wide[i] = (double)narrow[i];
    } else {
      void *const p[3] = {wide, wide, (void *)(uintptr_t)&d->p};
      const ptrdiff_t s[3] = {sizeof *wide, sizeof *wide, 0};
      eti_eltwise_get()->binary_f64.pow(p, s, m, NULL);
    }
    for (size_t i = 0; i < m; i += ETI_TILE) {
      for (size_t l = 0; l < ETI_TILE; l++) sums[l] += wide[i + l];
    }
  }
}

// Adds rows [i0, i0 + n_i) of a, compared with the tile's, to the sums.
static ETI_OWN_FRAME void add_tile(const distance *d, const offsets *at, size_t i0, size_t n_i,
                                   size_t k, size_t n, const tile *t, tile_sums *sums) {
  const eti_row_distance_micro *const micro = eti_row_distance_micro_get();
  if (d->kind == ETI_NORM_TWO) {
    add_squares(d, at, i0, n_i, k, n, t, sums);
    return;
  }
  for (size_t i = 0; i < n_i; i++) {
    tile_row room;
    const double *const x = row_of(d, at, i0 + i, k, n, ET_F64, &room);
    if (d->kind == ETI_NORM_POWER || d->kind == ETI_NORM_POWER_F64) {
      add_powers(d, sums->d[i], x, t->d, n);
    } else {
      micro->add(sums->d[i], x, t->d, n, d->kind);
    }
  }
}

// Computes distances from n sums; squares in f32 give f32 roots, as the result is f32.
static void finish_f32(const distance *d, tile_sums *sums, size_t n) {
  float *const out = sums->f[0];
  void *const p[2] = {out, out};
  const ptrdiff_t s[2] = {sizeof *out, sizeof *out};
  if (!is_one_piece(d)) eti_casts[ET_F64][ET_F32](out, sizeof *out, sums->d[0], sizeof(double), n);
  eti_eltwise_get()->unary.sqrt(p, s, n, NULL);
}

static void finish_f64(const distance *d, double *sums, size_t n) {
  void *const p[2] = {sums, sums};
  const ptrdiff_t s[2] = {sizeof *sums, sizeof *sums};
  if (d->kind == ETI_NORM_TWO) {
    eti_eltwise_get()->unary_f64.sqrt(p, s, n, NULL);
  } else {
    for (size_t i = 0; i < n; i++) sums[i] = distance_of(d, sums[i]);
  }
}

// Stores a whole tile of adjacent f32 distances.
static bool store_roots(const distance *d, const offsets *at, size_t i0, size_t n_i, size_t j0,
                        size_t n_j, const tile_sums *sums) {
  const ptrdiff_t *const steps = d->out->strides + (d->out->rank - 2u);
  if (d->pairs || !is_one_piece(d) || n_j < ETI_TILE || d->out->dtype != ET_F32 || steps[1] != 1)
    return false;
  float *const out = (float *)d->out->data + at->out + (ptrdiff_t)i0 * steps[0] + (ptrdiff_t)j0;
  eti_row_distance_micro_get()->roots(out, steps[0], sums->f, n_i);
  return true;
}

static ETI_OWN_FRAME void store_tile(const distance *d, const offsets *at, size_t i0, size_t n_i,
                                     size_t j0, size_t n_j, tile_sums *sums) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)d->out->dtype);
  const et_dtype type = d->in_f32 ? ET_F32 : ET_F64;
  const ptrdiff_t from_item = (ptrdiff_t)et_dtype_bytes(type);
  const eti_cast_fn cast = eti_casts[type][d->out->dtype];
  if (d->in_f32 && store_roots(d, at, i0, n_i, j0, n_j, sums)) return;
  if (d->in_f32) {
    finish_f32(d, sums, n_i * ETI_TILE);
  } else {
    finish_f64(d, sums->d[0], n_i * ETI_TILE);
  }
  for (size_t i = 0; i < n_i; i++) {
    const size_t row = i0 + i;
    size_t first = 0;  // of pairs, those with j > i count
    if (d->pairs) first = row < j0 ? 0 : row + 1 - j0;
    if (first >= n_j) continue;
    const void *const from = d->in_f32 ? (const void *)&sums->f[i][first] : &sums->d[i][first];
    ptrdiff_t out = 0, step = item;
    if (d->pairs) {
      const size_t n = (size_t)d->a->sizes[0];
      out = (ptrdiff_t)(row * n - row * (row + 1) / 2 + (j0 + first) - row - 1);
    } else {
      const ptrdiff_t *const steps = d->out->strides + (d->out->rank - 2u);
      out = at->out + (ptrdiff_t)row * steps[0] + (ptrdiff_t)j0 * steps[1];
      step = steps[1] * item;
    }
    cast((char *)d->out->data + out * item, step, from, from_item, n_j - first);
  }
}

// Each item is a tile of b in a batch. A tile of short rows is filled once.
static void run_tiles(void *opaque, size_t begin, size_t end) {
  const distance *const d = opaque;
  const size_t n_a = (size_t)d->a->sizes[d->a->rank - 2], n_b = (size_t)d->b->sizes[d->b->rank - 2];
  const size_t n_tiles = (n_b + ETI_TILE - 1) / ETI_TILE;
  tile t;
  for (size_t u = begin; u < end; u++) {
    const offsets at = d->pairs ? (offsets){0} : batch_at(d, u / n_tiles);
    const size_t j0 = u % n_tiles * ETI_TILE, n_j = n_b - j0 < ETI_TILE ? n_b - j0 : ETI_TILE;
    const size_t rows = d->pairs ? j0 + n_j : n_a;
    for (size_t i = 0; i < rows; i += TILE_ROWS) {
      const size_t n_i = rows - i < TILE_ROWS ? rows - i : TILE_ROWS;
      tile_sums sums;
      if (!is_one_piece(d)) memset(sums.d, 0, sizeof sums.d);
      for (size_t k = 0; k < d->n; k += TILE_PIECE) {
        const size_t n = d->n - k < TILE_PIECE ? d->n - k : TILE_PIECE;
        if (i == 0 || d->n > TILE_PIECE) fill_tile(d, &at, j0, n_j, k, n, &t);
        add_tile(d, &at, i, n_i, k, n, &t, &sums);
      }
      store_tile(d, &at, i, n_i, j0, n_j, &sums);
    }
  }
}

static et_status check_rows(const et_kernel_ctx *ctx, const char *op, const et_tensor *t,
                            const et_tensor *out, double p) {
  ET_CHECK(eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF) && t->dtype == out->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point type, got input %s, out %s", op,
           et_dtype_name((et_dtype)t->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(p >= 0.0, ctx->err, ET_INVALID_ARGUMENT, "%s: p: expected 0 or more, got %g", op, p);
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

// Steps of a tensor along each leading dimension of out.
static void set_lead_steps(const et_tensor *t, size_t lead, ptrdiff_t steps[ET_MAX_RANK]) {
  const size_t own = t->rank - 2u;
  for (size_t k = 0; k < own; k++) steps[lead - own + k] = t->sizes[k] == 1 ? 0 : t->strides[k];
}

et_status op_cdist_forward_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *b, *out;
  distance d = {.n = 0};
  int64_t mode = 0;  // a hint for computing, without effect on the result
  bool has_mode;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &b));
  ET_TRY(eti_arg_double(ctx, args, 2, &d.p));
  ET_TRY(eti_arg_optional_int(ctx, args, 3, &has_mode, &mode));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(check_rows(ctx, "cdist", a, out, d.p));
  ET_TRY(check_rows(ctx, "cdist", b, out, d.p));
  ET_CHECK(a->rank >= 2 && b->rank >= 2 && a->sizes[a->rank - 1] == b->sizes[b->rank - 1], ctx->err,
           ET_INVALID_ARGUMENT,
           "cdist: expected rank 2 or more and rows of one length, got ranks %d and %d with rows "
           "of %d and %d elements",
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
  set_lead_steps(a, lead, d.a_batch);
  set_lead_steps(b, lead, d.b_batch);
  d.a = a;
  d.b = b;
  d.out = out;
  d.n = (size_t)a->sizes[a->rank - 1];
  d.a_item = a->strides[a->rank - 1] * (ptrdiff_t)et_dtype_bytes((et_dtype)a->dtype);
  d.b_item = b->strides[b->rank - 1] * (ptrdiff_t)et_dtype_bytes((et_dtype)b->dtype);
  d.kind = kind_of(d.p, out->dtype == ET_F64);
  d.in_f32 = d.kind == ETI_NORM_TWO && out->dtype != ET_F64;
  const size_t n_a = (size_t)shape.sizes[lead], n_b = (size_t)shape.sizes[lead + 1];
  const size_t n_tiles = (n_b + ETI_TILE - 1) / ETI_TILE;
  et_parallel_for(ctx->pool, run_tiles, &d, out->numel / n_a / n_b * n_tiles,
                  grain_of(n_a * ETI_TILE * d.n));
  return ET_OK;
}

et_status op_pdist_forward_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  distance d = {.n = 0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_double(ctx, args, 1, &d.p));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(check_rows(ctx, "pdist", x, out, d.p));
  ET_CHECK(x->rank == 2, ctx->err, ET_INVALID_ARGUMENT, "pdist: input: expected rank 2, got %d",
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
  d.pairs = true;
  d.kind = kind_of(d.p, out->dtype == ET_F64);
  d.in_f32 = d.kind == ETI_NORM_TWO && out->dtype != ET_F64;
  et_parallel_for(ctx->pool, run_tiles, &d, ((size_t)n + ETI_TILE - 1) / ETI_TILE,
                  grain_of((size_t)n * ETI_TILE * d.n / 2));
  return ET_OK;
}
