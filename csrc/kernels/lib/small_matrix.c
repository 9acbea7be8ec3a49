// small_matrix.c — see small_matrix.h.
#include "kernels/lib/small_matrix.h"

#include "kernels/lib/args.h"
#include "kernels/lib/iter.h"
#include "kernels/lib/promote.h"
#include "kernels/micro/convert/cast.h"

eti_shape eti_batch_of(const et_tensor *t, size_t less) {
  eti_shape shape = eti_shape_of(t);
  shape.rank -= less < shape.rank ? less : shape.rank;
  return shape;
}

char *eti_matrix_at(const et_tensor *t, const eti_shape *batch, size_t i, size_t less) {
  ptrdiff_t at = 0;
  const size_t rank = t->rank - less;
  for (size_t d = batch->rank; d-- > 0; i /= (size_t)batch->sizes[d]) {
    const size_t from_end = batch->rank - d;
    if (from_end > rank || t->sizes[rank - from_end] == 1) continue;
    at += (ptrdiff_t)(i % (size_t)batch->sizes[d]) * t->strides[rank - from_end];
  }
  return (char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

typedef struct layout {
  size_t rows, columns;
  ptrdiff_t row, column;  // steps in bytes
} layout;

static layout layout_of(const et_tensor *t, bool is_vector, bool transposed) {
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  const size_t last = t->rank - 1u;
  layout l = {(size_t)t->sizes[last], 1, t->strides[last] * bytes, 0};
  if (!is_vector)
    l = (layout){(size_t)t->sizes[last - 1], (size_t)t->sizes[last], t->strides[last - 1] * bytes,
                 t->strides[last] * bytes};
  if (transposed) l = (layout){l.columns, l.rows, l.column, l.row};
  // Adjacent rows are converted in one call.
  if (l.rows > 1 && l.row == l.column * (ptrdiff_t)l.columns)
    l = (layout){1, l.rows * l.columns, 0, l.column};
  return l;
}

void eti_matrix_load(const et_tensor *t, const eti_shape *batch, size_t i, bool is_vector,
                     bool transposed, double *to) {
  const layout l = layout_of(t, is_vector, transposed);
  const char *const from = eti_matrix_at(t, batch, i, is_vector ? 1 : 2);
  const eti_cast_fn load = eti_casts[t->dtype][ET_F64];
  for (size_t r = 0; r < l.rows && l.columns > 0; r++)
    load(to + r * l.columns, (ptrdiff_t)sizeof(double), from + (ptrdiff_t)r * l.row, l.column,
         l.columns);
}

void eti_matrix_store(const et_tensor *t, const eti_shape *batch, size_t i, bool is_vector,
                      bool transposed, const double *from) {
  const layout l = layout_of(t, is_vector, transposed);
  char *const to = eti_matrix_at(t, batch, i, is_vector ? 1 : 2);
  const eti_cast_fn store = eti_casts[ET_F64][t->dtype];
  for (size_t r = 0; r < l.rows && l.columns > 0; r++)
    store(to + (ptrdiff_t)r * l.row, l.column, from + r * l.columns, (ptrdiff_t)sizeof(double),
          l.columns);
}

void eti_number_store(const et_tensor *t, const eti_shape *batch, size_t i, double x) {
  eti_casts[ET_F64][t->dtype](eti_matrix_at(t, batch, i, 0), 0, &x, 0, 1);
}

void eti_row_store(const et_tensor *t, const eti_shape *batch, size_t i, const double *from,
                   size_t n) {
  const ptrdiff_t step = t->strides[t->rank - 1u] * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  if (n > 0)
    eti_casts[ET_F64][t->dtype](eti_matrix_at(t, batch, i, 1), step, from,
                                (ptrdiff_t)sizeof(double), n);
}

// Stores pivots; LAPACK counts rows from 1.
void eti_pivots_store(const et_tensor *t, const eti_shape *batch, size_t i, const int32_t *pivots,
                      size_t n) {
  char *const to = eti_matrix_at(t, batch, i, 1);
  for (size_t k = 0; k < n; k++)
    *(int32_t *)(void *)(to + (ptrdiff_t)k * t->strides[t->rank - 1u] * 4) = pivots[k] + 1;
}

et_status eti_matrix_resize(const et_kernel_ctx *ctx, et_tensor *out, const eti_shape *batch,
                            size_t rank, size_t rows, size_t columns) {
  eti_shape shape = *batch;
  ET_CHECK(shape.rank + rank <= ET_MAX_RANK, ctx->err, ET_NOT_SUPPORTED,
           "expected results of rank %d or less, got %zu", ET_MAX_RANK, shape.rank + rank);
  if (rank > 0) shape.sizes[shape.rank++] = (int32_t)rows;
  if (rank > 1) shape.sizes[shape.rank++] = (int32_t)columns;
  return eti_resize(ctx, out, &shape);
}

et_status eti_matrix_arg(const et_kernel_ctx *ctx, et_value *const *args, size_t i, const char *op,
                         bool square, et_tensor **out) {
  et_tensor *t;
  ET_TRY(eti_arg_tensor(ctx, args, i, &t));
  ET_CHECK(eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT), ctx->err, ET_NOT_SUPPORTED,
           "%s: expected f32 or f64, got %s", op, et_dtype_name((et_dtype)t->dtype));
  ET_CHECK(t->rank >= 2, ctx->err, ET_INVALID_ARGUMENT, "%s: expected rank 2 or more, got %d", op,
           (int)t->rank);
  const int32_t rows = t->sizes[t->rank - 2u], columns = t->sizes[t->rank - 1u];
  ET_CHECK(!square || rows == columns, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected square matrices, got %d by %d", op, (int)rows, (int)columns);
  ET_CHECK(rows <= ETI_MATRIX_SIDE && columns <= ETI_MATRIX_SIDE, ctx->err, ET_NOT_SUPPORTED,
           "%s: expected matrices of at most %d rows and columns, got %d by %d", op,
           ETI_MATRIX_SIDE, (int)rows, (int)columns);
  *out = t;
  return ET_OK;
}

et_status eti_arg_result(const et_kernel_ctx *ctx, et_value *const *args, size_t i, et_dtype dtype,
                         et_tensor **out) {
  et_tensor *t;
  ET_TRY(eti_arg_tensor(ctx, args, i, &t));
  ET_CHECK(t->dtype == (uint8_t)dtype, ctx->err, ET_INVALID_ARGUMENT,
           "argument %zu: expected a result of %s, got %s", i, et_dtype_name(dtype),
           et_dtype_name((et_dtype)t->dtype));
  *out = t;
  return ET_OK;
}

#define LINE 64u  // bytes

typedef struct matrix_run {
  eti_matrix_fn fn;
  void *job;
  size_t count, n_slots, slot;  // a slot of cache lines
  char *scratch;
} matrix_run;

static void run_on_stack(void *ctx, size_t begin, size_t end) {
  const matrix_run *const r = ctx;
  _Alignas(64) double work[ETI_MATRIX_STACK / sizeof(double)];
  for (size_t i = begin; i < end; i++) r->fn(r->job, i, work);
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const matrix_run *const r = ctx;
  for (size_t s = begin; s < end; s++) {
    double *const work = (double *)(void *)(r->scratch + s * r->slot * LINE);
    for (size_t i = r->count * s / r->n_slots; i < r->count * (s + 1) / r->n_slots; i++)
      r->fn(r->job, i, work);
  }
}

// Number of cache lines of n numbers.
static size_t lines_of(size_t n) {
  return n / (LINE / sizeof(double)) + 1;
}

et_status eti_matrix_run(const et_kernel_ctx *ctx, size_t count, size_t n, eti_matrix_fn fn,
                         void *job) {
  matrix_run r = {.fn = fn, .job = job, .count = count, .slot = lines_of(n)};
  if (n <= ETI_MATRIX_STACK / sizeof(double)) {
    et_parallel_for(ctx->pool, run_on_stack, &r, count, 1 + ETI_GRAIN_MATH / (n + 1));
    return ET_OK;
  }
  const size_t fit = ctx->scratch_bytes / LINE / r.slot;
  ET_CHECK(fit > 0 || count == 0, ctx->err, ET_OUT_OF_RESOURCES,
           "matrices: expected %zu bytes of scratch, got %zu; prepare requests them", r.slot * LINE,
           ctx->scratch_bytes);
  r.scratch = ctx->scratch;
  r.n_slots = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  if (r.n_slots > fit) r.n_slots = fit;
  if (r.n_slots > 0) et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return ET_OK;
}

size_t eti_first_failed(const et_tensor *info, const eti_shape *batch, size_t count, size_t *at) {
  for (size_t i = 0; i < count; i++) {
    *at = (size_t)(*(const int32_t *)(const void *)eti_matrix_at(info, batch, i, 0));
    if (*at != 0) return i;
  }
  return count;
}

et_status eti_matrix_prepare(et_prepare_ctx *ctx, et_value *const *args) {
  size_t n = 0, count = 1;
  for (size_t i = 0; i < 2; i++) {
    const et_tensor *const t = args[i]->tag == ET_TENSOR ? args[i]->as.tensor : NULL;
    if (t == NULL || t->rank == 0 || t->numel == 0) continue;
    const size_t columns = (size_t)t->sizes[t->rank - 1u],
                 rows = t->rank < 2 ? 1 : (size_t)t->sizes[t->rank - 2u];
    size_t side = rows > columns ? rows : columns;
    if (side > ETI_MATRIX_SIDE) side = 0;  // run refuses
    n += 3 * side * side + 4 * side + 64;
    if (t->numel / (rows * columns) > count) count = t->numel / (rows * columns);
  }
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads,
               slots = count < threads ? count : threads;
  if (n <= ETI_MATRIX_STACK / sizeof(double)) return ET_OK;
  const size_t bytes = slots * lines_of(n) * LINE;
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
