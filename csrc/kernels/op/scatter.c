// scatter.c — operators that address elements by an index tensor: gather, scatter, scatter_add.
// Relies on iter3.h, and on accumulate.h for sums. Each index is checked before its element is
// written.
#include "kernels/kernel.h"
#include "kernels/lib/accumulate.h"
#include "kernels/lib/iter3.h"
#include "kernels/lib/copy_op.h"
#include "runtime/half.h"

typedef enum direction { GATHER, SCATTER } direction;

// A copy or sum between `plain` (walked along with the index) and `placed` (addressed by the index
// in one dimension).
typedef struct placing {
  eti_iter3 l;  // 0 plain, 1 index, 2 placed without the indexed dimension
  const et_tensor *index;
  char *plain, *placed;
  size_t dim, bytes;
  uint8_t dtype;
  int64_t size;  // of placed in dim
  ptrdiff_t stride;
  direction way;
  eti_accumulate_fn add;
} placing;

// The operation on an element; the commonest sums need no call.
typedef enum deed {
  STEP_GATHER,
  STEP_COPY,
  STEP_F32,
  STEP_F64,
  STEP_I64,
  STEP_BF16,
  STEP_ADD
} deed;

static inline void place_one(const placing *p, char *placed, char *plain, size_t bytes, deed what) {
  void *const to = placed;
  const void *const from = plain;
  switch (what) {
    case STEP_GATHER:
      eti_copy_one(plain, placed, bytes);
      break;
    case STEP_COPY:
      eti_copy_one(placed, plain, bytes);
      break;
    case STEP_F32:
      *(float *)to += *(const float *)from;
      break;
    case STEP_F64:
      *(double *)to += *(const double *)from;
      break;
    case STEP_I64:
      *(uint64_t *)to += *(const uint64_t *)from;
      break;
    case STEP_BF16:
      *(uint16_t *)to = eti_f32_to_bf16(eti_bf16_to_f32(*(uint16_t *)to) +
                                        eti_bf16_to_f32(*(const uint16_t *)from));
      break;
    default:
      p->add(placed, 0, plain, 0, 1);
  }
}

// One row, specialised by the constants it is called with.
static inline et_status place_row(const et_kernel_ctx *ctx, const placing *p, bool is_wide,
                                  size_t bytes, deed what) {
  const eti_iter3 *l = &p->l;
  const size_t last = l->shape.rank - 1;
  const ptrdiff_t step = (ptrdiff_t)bytes, n = l->shape.sizes[last];
  const ptrdiff_t index_step = l->strides[1][last], plain_step = l->strides[0][last] * step;
  const ptrdiff_t placed_step = l->strides[2][last] * step, stride = p->stride * step;
  const int64_t *wide = p->index->data;
  const int32_t *narrow = p->index->data;
  const int64_t size = p->size;
  char *plain = p->plain + l->at[0] * step, *placed = p->placed + l->at[2] * step;
  for (ptrdiff_t i = 0, at = l->at[1]; i < n;
       i++, at += index_step, plain += plain_step, placed += placed_step) {
    const int64_t index = is_wide ? wide[at] : narrow[at];
    ET_CHECK(
        (uint64_t)index < (uint64_t)size, ctx->err, ET_INVALID_ARGUMENT,
        "index %lld at position %lld of a row is out of bounds for dimension %zu with size %lld",
        (long long)index, (long long)i, p->dim, (long long)size);
    place_one(p, placed + (ptrdiff_t)index * stride, plain, bytes, what);
  }
  return ET_OK;
}

static inline et_status place_sized(const et_kernel_ctx *ctx, const placing *p, size_t bytes) {
  const bool is_wide = p->index->dtype == ET_I64;
  if (p->way == SCATTER) return place_row(ctx, p, is_wide, bytes, STEP_COPY);
  return is_wide ? place_row(ctx, p, true, bytes, STEP_GATHER)
                 : place_row(ctx, p, false, bytes, STEP_GATHER);
}

static et_status add_row(const et_kernel_ctx *ctx, const placing *p) {
  const bool is_wide = p->index->dtype == ET_I64;
  switch (p->dtype) {
    case ET_F32:
      return place_row(ctx, p, is_wide, 4, STEP_F32);
    case ET_F64:
      return place_row(ctx, p, is_wide, 8, STEP_F64);
    case ET_I64:
      return place_row(ctx, p, is_wide, 8, STEP_I64);
    case ET_BF16:
      return place_row(ctx, p, is_wide, 2, STEP_BF16);
    default:
      return place_row(ctx, p, is_wide, p->bytes, STEP_ADD);
  }
}

static et_status place_row_of(const et_kernel_ctx *ctx, const placing *p) {
  if (p->add != NULL) return add_row(ctx, p);
  switch (p->bytes) {
    case 1:
      return place_sized(ctx, p, 1);
    case 2:
      return place_sized(ctx, p, 2);
    case 4:
      return place_sized(ctx, p, 4);
    case 8:
      return place_sized(ctx, p, 8);
    default:
      return place_sized(ctx, p, 16);
  }
}

static et_status place_rows(const et_kernel_ctx *ctx, placing *p) {
  do ET_TRY(place_row_of(ctx, p));
  while (eti_iter3_next(&p->l));
  return ET_OK;
}

// Threads share a dimension other than the indexed one, so that no two write to one target and
// those of one target keep their order.
enum { MAX_SHARES = 16, SHARE_GRAIN = 16384 };

typedef struct shares {
  et_kernel_ctx ctx;
  const placing *p;
  size_t dim, n;
  et_status status[MAX_SHARES];
} shares;

static void place_shares(void *ctx, size_t begin, size_t end) {
  shares *s = ctx;
  const size_t size = (size_t)s->p->l.shape.sizes[s->dim];
  for (size_t i = begin; i < end; i++) {
    placing p = *s->p;
    const size_t first = size * i / s->n, after = size * (i + 1) / s->n;
    p.l.shape.sizes[s->dim] = (int32_t)(after - first);
    for (size_t k = 0; k < 3; k++) p.l.at[k] += (ptrdiff_t)first * p.l.strides[k][s->dim];
    s->status[i] = place_rows(&s->ctx, &p);
  }
}

static et_status place_all(const et_kernel_ctx *ctx, placing *p) {
  if (eti_iter3_empty(&p->l)) return ET_OK;
  shares s = {.ctx = {.err = NULL}, .p = p, .dim = p->l.shape.rank};
  size_t largest = 1;
  for (size_t d = 0; d < p->l.shape.rank; d++) {
    if ((p->way == SCATTER && d == p->dim) || (size_t)p->l.shape.sizes[d] <= largest) continue;
    largest = (size_t)p->l.shape.sizes[d];
    s.dim = d;
  }
  s.n = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  if (s.n > MAX_SHARES) s.n = MAX_SHARES;
  if (s.n > largest) s.n = largest;
  if (s.n < 2 || p->index->numel < SHARE_GRAIN) return place_rows(ctx, p);
  et_parallel_for(ctx->pool, place_shares, &s, s.n, 1);
  for (size_t i = 0; i < s.n; i++) {
    if (s.status[i] != ET_OK) return place_rows(ctx, p);  // again, for the message
  }
  return ET_OK;
}

// Checks an index against the tensor it addresses and fills all fields except `plain` and the
// operation.
static et_status placing_of(const et_kernel_ctx *ctx, et_value *const *args,
                            const et_tensor *placed, placing *p) {
  et_tensor *index = NULL;
  int64_t dim = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &index));
  ET_TRY(eti_wrap_dim(ctx, dim, placed->rank, &p->dim));
  ET_CHECK(index->dtype == ET_I64 || index->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "index: expected i32 or i64, got %s", et_dtype_name((et_dtype)index->dtype));
  const eti_shape shape = eti_shape_of(index);
  eti_iter3_begin(&p->l, &shape);
  eti_iter3_set(&p->l, 1, index);
  const size_t rank = placed->rank == 0 ? 1 : placed->rank;
  ET_CHECK(index->numel == 0 || p->l.shape.rank == rank, ctx->err, ET_INVALID_ARGUMENT,
           "index: expected rank %d, as the tensor, got %d", (int)placed->rank, (int)index->rank);
  for (size_t d = 0; d < placed->rank && index->numel != 0; d++) {
    ET_CHECK(d == p->dim || p->l.shape.sizes[d] <= placed->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "index: dimension %zu: expected size %d or less, as the tensor, got %d", d,
             (int)placed->sizes[d], (int)p->l.shape.sizes[d]);
    if (d != p->dim) p->l.strides[2][d] = placed->strides[d];
  }
  p->index = index;
  p->size = placed->rank == 0 ? 1 : placed->sizes[p->dim];
  p->stride = placed->rank == 0 ? 0 : placed->strides[p->dim];
  p->bytes = et_dtype_bytes((et_dtype)placed->dtype);
  p->dtype = placed->dtype;
  p->add = NULL;
  return ET_OK;
}

et_status op_gather_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  placing p;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(placing_of(ctx, args, self, &p));
  const eti_shape shape = eti_shape_of(p.index);
  ET_TRY(eti_resize(ctx, out, &shape));
  eti_iter3_set(&p.l, 0, out);
  p.way = GATHER;
  p.plain = out->data;
  p.placed = self->data;
  return place_all(ctx, &p);
}

// Copies self to out, then writes `values` (NULL: the one element at `value`) at the index.
static et_status run_scatter(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *values, char *value, bool adds) {
  et_tensor *self = NULL;
  placing p;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  const eti_window view = eti_window_of(self);
  ET_TRY(eti_resize(ctx, out, &view.shape));
  ET_TRY(placing_of(ctx, args, out, &p));
  p.way = SCATTER;
  p.plain = value;
  p.placed = out->data;
  if (values != NULL) {
    const size_t rank = values->rank == 0 ? 1 : values->rank;
    bool fits = p.index->numel == 0 || rank == p.l.shape.rank;
    for (size_t d = 0; d < values->rank && fits && p.index->numel != 0; d++) {
      fits = p.l.shape.sizes[d] <= values->sizes[d];
      p.l.strides[0][d] = values->strides[d];
    }
    ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
             "scatter: the index is larger than src in some dimension");
    ET_TRY(eti_check_same_dtype(ctx, out, values, "self and src"));
    p.plain = values->data;
  }
  if (adds) p.add = eti_accumulates[out->dtype];
  ET_CHECK(!adds || p.add != NULL, ctx->err, ET_NOT_SUPPORTED, "scatter_add: no addition of %s",
           et_dtype_name((et_dtype)out->dtype));
  eti_copy_first(ctx, out, &view, self->data);
  return place_all(ctx, &p);
}

static et_status scatter_tensor(const et_kernel_ctx *ctx, et_value *const *args, bool adds) {
  et_tensor *src = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 3, &src));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  return run_scatter(ctx, args, out, src, NULL, adds);
}

et_status op_scatter_src_out(et_kernel_ctx *ctx, et_value *const *args) {
  return scatter_tensor(ctx, args, false);
}
et_status op_scatter_add_out(et_kernel_ctx *ctx, et_value *const *args) {
  return scatter_tensor(ctx, args, true);
}

et_status op_scatter_value_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  eti_scalar number;
  char value[16];
  ET_TRY(eti_arg_scalar(ctx, args, 3, &number));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  ET_CHECK(eti_scalar_store(&number, (et_dtype)out->dtype, value), ctx->err, ET_NOT_SUPPORTED,
           "scatter: a number cannot be converted to %s", et_dtype_name((et_dtype)out->dtype));
  return run_scatter(ctx, args, out, NULL, value, false);
}
