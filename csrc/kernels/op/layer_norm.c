// layer_norm.c — normalisation over the last dimensions: every group of elements is one row. Relies
// on norm_stats.h for statistics and casts, and on the loops of micro/rows/row_norm.h.
#include "kernels/kernel.h"
#include "kernels/lib/norm_stats.h"
#include "kernels/ops.h"

typedef struct layer_run {
  const eti_row_norm_micro *micro;
  eti_norm_group x, out, w, b, rows;  // rows: the dimensions that number the rows, in x
  eti_norm_group out_rows;
  const char *x_data, *w_data, *b_data;
  char *out_data;
  const et_tensor *mean, *rstd;
  double eps;
} layer_run;

static ptrdiff_t row_offset(const eti_norm_group *s, size_t i) {
  ptrdiff_t offset = 0;
  if (s->rank == 1)  // avoids the divisions
    return (ptrdiff_t)i * s->strides[0] * (ptrdiff_t)et_dtype_bytes((et_dtype)s->dtype);
  for (size_t d = s->rank; d-- > 0;) {
    offset += (ptrdiff_t)(i % s->sizes[d]) * s->strides[d];
    i /= s->sizes[d];
  }
  return offset * (ptrdiff_t)et_dtype_bytes((et_dtype)s->dtype);
}

enum { STEP = ETI_ON_STACK(ETI_NORM_CHUNK / 2, 64) };  // elements that are normalised together

// Normalises one row of several chunks, which are read again for every use.
static void long_row(const layer_run *r, const char *x, char *out, eti_norm_stats *s) {
  const eti_row_norm_micro *const micro = r->micro;
  _Alignas(64) char x_room[STEP * 8], w_room[STEP * 8], b_room[STEP * 8];
  const bool direct = r->out.dtype == micro->dtype && eti_norm_group_is_row(&r->out);
  *s = eti_norm_stats_of(micro, &r->x, x);
  const double rstd = eti_rstd_of(s, r->eps);
  for (size_t i = 0; i < r->x.numel; i += STEP) {
    const size_t n = r->x.numel - i < STEP ? r->x.numel - i : STEP;
    const void *const in = eti_norm_group_chunk(micro, &r->x, x, i, n, x_room);
    const void *const w =
        r->w_data == NULL ? NULL : eti_norm_group_chunk(micro, &r->w, r->w_data, i, n, w_room);
    const void *const b =
        r->b_data == NULL ? NULL : eti_norm_group_chunk(micro, &r->b, r->b_data, i, n, b_room);
    void *const to = direct ? out + i * micro->esize : x_room;
    micro->normalize(to, in, s->mean, rstd, w, b, n);
    if (!direct) eti_norm_group_cast(&r->out, out, i, n, micro->dtype, x_room, false);
  }
}

static void long_rows(void *ctx, size_t begin, size_t end) {
  const layer_run *const r = ctx;
  for (size_t row = begin; row < end; row++) {
    eti_norm_stats s;
    long_row(r, r->x_data + row_offset(&r->rows, row), r->out_data + row_offset(&r->out_rows, row),
             &s);
    const double rstd = eti_rstd_of(&s, r->eps);
    eti_norm_set_elements(r->mean, row, &s.mean, 1);
    eti_norm_set_elements(r->rstd, row, &rstd, 1);
  }
}

// True if rows follow one another in memory.
static bool is_dense(const eti_norm_group *row, const eti_norm_group *rows) {
  return eti_norm_group_is_row(row) &&
         (rows->rank == 0 || (rows->rank == 1 && rows->strides[0] == (ptrdiff_t)row->numel));
}

// Joins `count` rows to one group.
static eti_norm_group rows_of(const eti_norm_group *row, size_t count) {
  const size_t n = row->numel * count;
  return count == 1 ? *row
                    : (eti_norm_group){
                          .dtype = row->dtype, .numel = n, .rank = 1, .sizes = {n}, .strides = {1}};
}

enum { TOGETHER = 64 };  // rows that are cast at once, at most
#define JOINS_ROWS ETI_ON_STACK(true, false)

// Normalises rows of one chunk: each row, and the weights, are read once. Dense rows are cast
// together, as many as fit the chunk.
static void short_rows(void *ctx, size_t begin, size_t end) {
  const layer_run *const r = ctx;
  const eti_row_norm_micro *const micro = r->micro;
  _Alignas(64) char x_room[ETI_NORM_CHUNK * 8], w_room[ETI_NORM_CHUNK * 8],
      b_room[ETI_NORM_CHUNK * 8];
  double means[TOGETHER], rstds[TOGETHER];
  const bool direct = r->out.dtype == micro->dtype && eti_norm_group_is_row(&r->out);
  const size_t n = r->x.numel;
  const void *const w =
      r->w_data == NULL ? NULL : eti_norm_group_chunk(micro, &r->w, r->w_data, 0, n, w_room);
  const void *const b =
      r->b_data == NULL ? NULL : eti_norm_group_chunk(micro, &r->b, r->b_data, 0, n, b_room);
  const eti_norm_group row_of_x = {.dtype = micro->dtype, .numel = n};
  const bool dense = n > 0 && is_dense(&r->x, &r->rows) && is_dense(&r->out, &r->out_rows);
  size_t most = dense ? ETI_NORM_CHUNK / n : 1;
  if (most > TOGETHER) most = TOGETHER;
  const eti_norm_group xs = rows_of(&r->x, most), outs = rows_of(&r->out, most);
  for (size_t row = begin; row < end; row += most) {
    const size_t m = end - row < most ? end - row : most;
    char *const out = r->out_data + row_offset(&r->out_rows, row);
    const char *const x =
        eti_norm_group_chunk(micro, &xs, r->x_data + row_offset(&r->rows, row), 0, m * n, x_room);
    char *const to = direct ? out : x_room;
    for (size_t i = 0; i < m; i++) {
      const size_t at = i * n * micro->esize;
      const eti_norm_stats s = eti_norm_stats_of(micro, &row_of_x, x + at);
      means[i] = s.mean;
      rstds[i] = eti_rstd_of(&s, r->eps);
      micro->normalize(to + at, x + at, means[i], rstds[i], w, b, n);
    }
    if (!direct) eti_norm_group_cast(&outs, out, 0, m * n, micro->dtype, x_room, false);
    eti_norm_set_elements(r->mean, row, means, m);
    eti_norm_set_elements(r->rstd, row, rstds, m);
  }
}

static et_status check_normalized(const et_kernel_ctx *ctx, const et_tensor *t, const et_tensor *x,
                                  size_t first, const char *what) {
  if (t == NULL) return ET_OK;
  const int32_t *const normalized = x->sizes + first;
  const size_t rank = x->rank - first;
  bool same = t->rank == rank && eti_dtype_in((et_dtype)t->dtype, ET_TYPES_FLOAT_HALF);
  for (size_t d = 0; same && d < rank; d++) same = t->sizes[d] == normalized[d];
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT,
           "layer_norm: %s: expected a floating-point type and shape %s, got %s", what,
           eti_sizes_text(normalized, rank).text, eti_tensor_text(t, found));
  return ET_OK;
}

// Reads the arguments and resizes the results; *n_normalized: how many dimensions of x are
// normalized, the last ones.
static ETI_OWN_FRAME et_status read_args(const et_kernel_ctx *ctx, et_value *const *args,
                                         eti_norm_args *a, size_t *n_normalized) {
  int64_t shape[ET_MAX_RANK];
  size_t n = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, shape, ET_MAX_RANK, &n));
  ET_TRY(eti_norm_read(ctx, args, 2, 4, "layer_norm", a));
  et_tensor *const x = a->x;
  ET_CHECK(n >= 1 && n <= x->rank, ctx->err, ET_INVALID_ARGUMENT,
           "layer_norm: normalized_shape: expected 1 to %d entries, got %zu", (int)x->rank, n);
  const size_t first = x->rank - n;
  for (size_t d = 0; d < n; d++) {
    ET_CHECK(shape[d] == x->sizes[first + d], ctx->err, ET_INVALID_ARGUMENT,
             "layer_norm: normalized_shape[%zu]: expected %d, as input, got %lld", d,
             (int)x->sizes[first + d], (long long)shape[d]);
  }
  ET_TRY(check_normalized(ctx, a->w, x, first, "weight"));
  ET_TRY(check_normalized(ctx, a->b, x, first, "bias"));
  eti_shape stat_shape = eti_shape_of(x);
  for (size_t d = first; d < x->rank; d++) stat_shape.sizes[d] = 1;
  ET_TRY(eti_resize_like(ctx, a->out, x));
  ET_TRY(eti_resize(ctx, a->mean, &stat_shape));
  ET_TRY(eti_resize(ctx, a->rstd, &stat_shape));
  ET_CHECK(eti_same_shape(a->out, x), ctx->err, ET_INVALID_ARGUMENT,
           "layer_norm: out is also the mean or rstd");
  *n_normalized = n;
  return ET_OK;
}

et_status op_native_layer_norm_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_norm_args a;
  size_t n;
  ET_TRY(read_args(ctx, args, &a, &n));
  const et_tensor *const x = a.x, *const w = a.w, *const b = a.b, *const out = a.out;
  const size_t first = x->rank - n;
  layer_run r = {
      .micro = eti_norm_micro_of(x->dtype), .mean = a.mean, .rstd = a.rstd, .eps = a.eps};
  const uint32_t inner = eti_dims_from(first, x->rank), outer = eti_dims_from(0, first);
  eti_norm_group_of(&r.x, x, inner);
  eti_norm_group_of(&r.out, out, inner);
  eti_norm_group_of(&r.rows, x, outer);
  eti_norm_group_of(&r.out_rows, out, outer);
  r.x_data = x->data;
  r.out_data = out->data;
  if (w != NULL) eti_norm_group_of(&r.w, w, eti_dims_from(0, n)), r.w_data = w->data;
  if (b != NULL) eti_norm_group_of(&r.b, b, eti_dims_from(0, n)), r.b_data = b->data;
  et_parallel_for(ctx->pool, JOINS_ROWS && r.x.numel <= ETI_NORM_CHUNK ? short_rows : long_rows, &r,
                  r.rows.numel, 1 + 8192 / (r.x.numel + 1));
  return ET_OK;
}
