// scatter.c — operators that follow one index or mask element by element: gather, scatter,
// masked_select, masked_scatter, nonzero; and those that write a window of a copy: select_scatter,
// slice_scatter. Relies on move.h for windows, accumulate.h for sums. Indices are checked one by
// one, before the element they place.
#include "kernels/accumulate.h"
#include "kernels/move.h"
#include "runtime/half.h"

#include <string.h>

// ---- Lanes: three windows of one shape walked together, row by row in logical order

typedef struct lanes {
  eti_shape shape;  // rank ≥ 1
  ptrdiff_t strides[3][ET_MAX_RANK];
  ptrdiff_t at[3];  // of the current row
  int32_t index[ET_MAX_RANK];
} lanes;

static void lanes_begin(lanes *l, const eti_shape *shape) {
  memset(l, 0, sizeof *l);
  l->shape = *shape;
  if (l->shape.rank == 0) l->shape = (eti_shape){.rank = 1, .sizes = {1}};
}

// Strides of a tensor broadcast to the shape, aligned at the last dimension.
static void lanes_set(lanes *l, size_t i, const et_tensor *t) {
  for (size_t d = 0; d < t->rank; d++) {
    l->strides[i][d + l->shape.rank - t->rank] = t->sizes[d] == 1 ? 0 : t->strides[d];
  }
}

static bool lanes_empty(const lanes *l) {
  for (size_t d = 0; d < l->shape.rank; d++) {
    if (l->shape.sizes[d] == 0) return true;
  }
  return false;
}

static bool lanes_next(lanes *l) {
  for (size_t d = l->shape.rank - 1; d-- > 0;) {
    const bool carries = ++l->index[d] == l->shape.sizes[d];
    const ptrdiff_t steps = carries ? 1 - (ptrdiff_t)l->index[d] : 1;
    for (size_t i = 0; i < 3; i++) l->at[i] += steps * l->strides[i][d];
    if (!carries) return true;
    l->index[d] = 0;
  }
  return false;
}

static void copy_first(const et_kernel_ctx *ctx, const et_tensor *out, const eti_view *self,
                       const void *data) {
  const eti_view to = eti_view_of(out);
  bool in_place = out->data == data && to.shape.rank == self->shape.rank;
  for (size_t d = 0; d < to.shape.rank && in_place; d++)
    in_place = to.strides[d] == self->strides[d] || to.shape.sizes[d] <= 1;
  if (in_place) return;
  eti_copy_views(ctx->pool, out->data, &to, data, self, et_dtype_bytes((et_dtype)out->dtype));
}

static inline void copy_one(char *dst, const char *src, size_t bytes) {
  char value[16];
  memcpy(value, src, bytes);
  memcpy(dst, value, bytes);
}

// ---- gather and scatter

typedef enum direction { GATHER, SCATTER } direction;

// Elements between `plain` (walked along with the index) and `placed` (addressed by the index in
// one dimension).
typedef struct placing {
  lanes l;  // 0 plain, 1 index, 2 placed without the indexed dimension
  const et_tensor *index;
  char *plain, *placed;
  size_t dim, bytes;
  uint8_t dtype;
  int64_t size;  // of placed in dim
  ptrdiff_t stride;
  direction way;
  eti_accumulate_fn add;
} placing;

// What is done with an element; the commonest sums need no call.
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
      copy_one(plain, placed, bytes);
      break;
    case STEP_COPY:
      copy_one(placed, plain, bytes);
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
  const lanes *l = &p->l;
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
  while (lanes_next(&p->l));
  return ET_OK;
}

// Threads share a dimension in which elements stay where they are, so that no two write to one
// place and those of one place keep their order.
enum { MOST_SHARES = 16, SHARE_GRAIN = 16384 };

typedef struct shares {
  et_kernel_ctx ctx;
  const placing *p;
  size_t dim, n;
  et_status status[MOST_SHARES];
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
  if (lanes_empty(&p->l)) return ET_OK;
  shares s = {.ctx = {.err = NULL}, .p = p, .dim = p->l.shape.rank};
  size_t largest = 1;
  for (size_t d = 0; d < p->l.shape.rank; d++) {
    if ((p->way == SCATTER && d == p->dim) || (size_t)p->l.shape.sizes[d] <= largest) continue;
    largest = (size_t)p->l.shape.sizes[d];
    s.dim = d;
  }
  s.n = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  if (s.n > MOST_SHARES) s.n = MOST_SHARES;
  if (s.n > largest) s.n = largest;
  if (s.n < 2 || p->index->numel < SHARE_GRAIN) return place_rows(ctx, p);
  et_parallel_for(ctx->pool, place_shares, &s, s.n, 1);
  for (size_t i = 0; i < s.n; i++) {
    if (s.status[i] != ET_OK) return place_rows(ctx, p);  // once more, for the words
  }
  return ET_OK;
}

// Checks an index against the tensor it points into and fills all of the placing but `plain` and
// what is done.
static et_status placing_of(const et_kernel_ctx *ctx, et_value *const *args,
                            const et_tensor *placed, placing *p) {
  et_tensor *index = NULL;
  int64_t dim = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &index));
  ET_TRY(eti_wrap_dim(ctx, dim, placed->rank, &p->dim));
  ET_CHECK(index->dtype == ET_I64 || index->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "the index is %s, needs i32 or i64", et_dtype_name((et_dtype)index->dtype));
  const eti_shape shape = eti_shape_of(index);
  lanes_begin(&p->l, &shape);
  lanes_set(&p->l, 1, index);
  const size_t rank = placed->rank == 0 ? 1 : placed->rank;
  ET_CHECK(index->numel == 0 || p->l.shape.rank == rank, ctx->err, ET_INVALID_ARGUMENT,
           "the index has rank %d, the tensor %d", (int)index->rank, (int)placed->rank);
  for (size_t d = 0; d < placed->rank && index->numel != 0; d++) {
    ET_CHECK(d == p->dim || p->l.shape.sizes[d] <= placed->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "the index has size %d in dimension %zu, the tensor only %d", (int)p->l.shape.sizes[d],
             d, (int)placed->sizes[d]);
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
  lanes_set(&p.l, 0, out);
  p.way = GATHER;
  p.plain = out->data;
  p.placed = self->data;
  return place_all(ctx, &p);
}

// Copies self to out, then writes `values` (NULL: the one element at `value`) where the index
// points.
static et_status scatter(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                         const et_tensor *values, char *value, bool adds) {
  et_tensor *self = NULL;
  placing p;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  const eti_view view = eti_view_of(self);
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
  copy_first(ctx, out, &view, self->data);
  return place_all(ctx, &p);
}

static et_status scatter_tensor(const et_kernel_ctx *ctx, et_value *const *args, bool adds) {
  et_tensor *src = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 3, &src));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  return scatter(ctx, args, out, src, NULL, adds);
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
           "scatter: a number cannot become %s", et_dtype_name((et_dtype)out->dtype));
  return scatter(ctx, args, out, NULL, value, false);
}

// ---- Masks

static et_status mask_of(const et_kernel_ctx *ctx, et_value *const *args, et_tensor **mask) {
  ET_TRY(eti_arg_tensor(ctx, args, 1, mask));
  ET_CHECK((*mask)->dtype == ET_B8 || (*mask)->dtype == ET_U8, ctx->err, ET_INVALID_ARGUMENT,
           "the mask is %s, needs bool", et_dtype_name((et_dtype)(*mask)->dtype));
  return ET_OK;
}

// True elements of the mask (lane 1) broadcast to the shape of the lanes.
static et_status count_true(const et_kernel_ctx *ctx, const lanes *start, const et_tensor *mask,
                            int64_t *count) {
  lanes l = *start;
  const size_t last = l.shape.rank - 1;
  *count = 0;
  if (lanes_empty(&l)) return ET_OK;
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last]; i++) *count += m[i * l.strides[1][last]] != 0;
    ET_CHECK(*count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "the mask selects too many elements");
  } while (lanes_next(&l));
  return ET_OK;
}

static et_status masked_lanes(const et_kernel_ctx *ctx, const et_tensor *self,
                              const et_tensor *mask, lanes *l) {
  const eti_shape a = eti_shape_of(self), b = eti_shape_of(mask);
  eti_shape shape;
  ET_TRY(eti_broadcast(ctx, &a, &b, &shape));
  lanes_begin(l, &shape);
  lanes_set(l, 1, mask);
  return ET_OK;
}

et_status op_masked_select_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *out = NULL;
  lanes l;
  int64_t count = 0, k = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(masked_lanes(ctx, self, mask, &l));
  lanes_set(&l, 2, self);
  ET_TRY(count_true(ctx, &l, mask, &count));
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)count}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (lanes_empty(&l)) return ET_OK;
  const size_t last = l.shape.rank - 1, bytes = et_dtype_bytes((et_dtype)out->dtype);
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last] && k < count; i++) {
      if (m[i * l.strides[1][last]] == 0) continue;
      const ptrdiff_t at = l.at[2] + i * l.strides[2][last];
      copy_one((char *)out->data + (size_t)k++ * bytes,
               (const char *)self->data + at * (ptrdiff_t)bytes, bytes);
    }
  } while (lanes_next(&l));
  return ET_OK;
}

// Offset, in elements, of logical element k.
static ptrdiff_t offset_of(const eti_view *view, int64_t k) {
  ptrdiff_t offset = 0;
  for (size_t d = view->shape.rank; d-- > 0;) {
    offset += (ptrdiff_t)(k % view->shape.sizes[d]) * view->strides[d];
    k /= view->shape.sizes[d];
  }
  return offset;
}

et_status op_masked_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *source = NULL, *out = NULL;
  lanes l;
  int64_t count = 0, k = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &source));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_check_same_dtype(ctx, self, source, "self and source"));
  ET_TRY(masked_lanes(ctx, self, mask, &l));
  ET_TRY(count_true(ctx, &l, mask, &count));
  ET_CHECK((uint64_t)count <= source->numel, ctx->err, ET_INVALID_ARGUMENT,
           "masked_scatter: source has %zu elements, the mask needs %lld", source->numel,
           (long long)count);
  lanes_set(&l, 2, self);
  const eti_view from = eti_view_of(source);
  eti_view own = {.shape = l.shape};
  for (size_t d = 0; d < l.shape.rank; d++) own.strides[d] = l.strides[2][d];
  if (self->rank == 0 && mask->rank == 0) own.shape.rank = 0;
  ET_TRY(eti_resize(ctx, out, &own.shape));
  copy_first(ctx, out, &own, self->data);
  lanes_set(&l, 0, out);
  if (lanes_empty(&l)) return ET_OK;
  const bool dense = eti_is_contiguous(source);
  const size_t last = l.shape.rank - 1, bytes = et_dtype_bytes((et_dtype)out->dtype);
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last] && k < count; i++) {
      if (m[i * l.strides[1][last]] == 0) continue;
      const ptrdiff_t at = l.at[0] + i * l.strides[0][last],
                      taken = dense ? (ptrdiff_t)k : offset_of(&from, k);
      copy_one((char *)out->data + at * (ptrdiff_t)bytes,
               (const char *)source->data + taken * (ptrdiff_t)bytes, bytes);
      k++;
    }
  } while (lanes_next(&l));
  return ET_OK;
}

// ---- nonzero

// Bits that make an element differ from zero: all but the sign of floating point numbers. A pattern
// of 8 bytes is enough, since a complex number repeats the one of its parts.
static uint64_t nonzero_bits(et_dtype dtype) {
  switch (dtype) {
    case ET_F16:
    case ET_BF16:
    case ET_C32:
      return UINT64_C(0x7FFF7FFF7FFF7FFF);
    case ET_F32:
    case ET_C64:
      return UINT64_C(0x7FFFFFFF7FFFFFFF);
    case ET_F64:
    case ET_C128:
      return UINT64_C(0x7FFFFFFFFFFFFFFF);
    default:
      return UINT64_MAX;
  }
}

enum { FIND = 256 };  // elements searched at a time

// at[0..found): the positions of the n ≤ FIND elements that differ from zero.
static size_t find_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits,
                           int32_t at[FIND]) {
  size_t found = 0;
#define FIND_IN(is_nonzero)                     \
  for (size_t i = 0; i < n; i++, p += stride) { \
    at[found] = (int32_t)i;                     \
    found += (is_nonzero);                      \
  }
  switch (bytes) {
    case 1:
      FIND_IN(*(const uint8_t *)p != 0)
      break;
    case 2:
      FIND_IN((*(const uint16_t *)(const void *)p & (uint16_t)bits) != 0)
      break;
    case 4:
      FIND_IN((*(const uint32_t *)(const void *)p & (uint32_t)bits) != 0)
      break;
    case 8:
      FIND_IN((*(const uint64_t *)(const void *)p & bits) != 0)
      break;
    default:
      FIND_IN(((((const uint64_t *)(const void *)p)[0] | ((const uint64_t *)(const void *)p)[1]) &
               bits) != 0)
      break;
  }
#undef FIND_IN
  return found;
}

static size_t count_nonzero(const et_tensor *t, size_t bytes, uint64_t bits) {
  const char *const data = t->data;
  int32_t at[FIND];
  size_t count = 0;
  for (size_t i = 0; i < t->numel; i += FIND) {
    const size_t n = t->numel - i < FIND ? t->numel - i : FIND;
    count += find_nonzero(data + i * bytes, (ptrdiff_t)bytes, n, bytes, bits, at);
  }
  return count;
}

// One innermost line: its hits become rows k, k + 1 … of out, of `count` in all.
static size_t list_line(const lanes *l, const et_tensor *self, size_t bytes, uint64_t bits,
                        const et_tensor *out, size_t k, size_t count) {
  const size_t rank = self->rank;
  const ptrdiff_t step = l->strides[2][rank - 1] * (ptrdiff_t)bytes;
  const char *const line = (const char *)self->data + l->at[2] * (ptrdiff_t)bytes;
  const size_t size = (size_t)l->shape.sizes[rank - 1];
  int32_t at[FIND];
  for (size_t i = 0; i < size; i += FIND) {
    const size_t n = size - i < FIND ? size - i : FIND;
    const size_t found = find_nonzero(line + (ptrdiff_t)i * step, step, n, bytes, bits, at);
    for (size_t hit = 0; hit < found && k < count; hit++) {
      int64_t *const row = (int64_t *)out->data + (ptrdiff_t)k++ * out->strides[0];
      for (size_t d = 0; d + 1 < rank; d++) row[(ptrdiff_t)d * out->strides[1]] = l->index[d];
      row[(ptrdiff_t)(rank - 1) * out->strides[1]] = (int64_t)i + at[hit];
    }
  }
  return k;
}

et_status op_nonzero_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  lanes l;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_CHECK(out->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "nonzero: out is %s, needs i64",
           et_dtype_name((et_dtype)out->dtype));
  const size_t rank = self->rank, bytes = et_dtype_bytes((et_dtype)self->dtype);
  const uint64_t bits = nonzero_bits((et_dtype)self->dtype);
  const size_t count = count_nonzero(self, bytes, bits);
  ET_CHECK(count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "nonzero: %zu elements are not zero",
           count);
  const eti_shape own = eti_shape_of(self),
                  shape = {.rank = 2, .sizes = {(int32_t)count, (int32_t)rank}};
  lanes_begin(&l, &own);
  lanes_set(&l, 2, self);
  ET_TRY(eti_resize(ctx, out, &shape));
  if (lanes_empty(&l) || rank == 0) return ET_OK;
  size_t k = 0;
  do k = list_line(&l, self, bytes, bits, out, k, count);
  while (lanes_next(&l));
  return ET_OK;
}

// ---- Windows of a copy

// Checks src against the window on out that it replaces, copies self, then writes src, converting
// it.
static et_status replace_window(const et_kernel_ctx *ctx, const et_tensor *self,
                                const eti_view *view, const et_tensor *src, const et_tensor *out,
                                const eti_view *window) {
  char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
  (void)found, (void)needed;
  eti_copy_plan plan;
  const eti_view from = eti_view_of(src);
  bool same = from.shape.rank == window->shape.rank;
  for (size_t d = 0; d < window->shape.rank && same; d++)
    same = from.shape.sizes[d] == window->shape.sizes[d];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT, "src has shape %s, the part it replaces %s",
           eti_shape_text(&from.shape, found), eti_shape_text(&window->shape, needed));
  ET_TRY(eti_plan_begin_cast(&plan, (et_dtype)out->dtype, (et_dtype)src->dtype, ctx->err));
  eti_plan_views(&plan, window, &from);
  copy_first(ctx, out, view, self->data);
  eti_plan_run(&plan, ctx->pool, out->data, src->data);
  return ET_OK;
}

static et_status window_args(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                             et_tensor **self, et_tensor **src, et_tensor **out, eti_view *view,
                             size_t *dim) {
  int64_t d = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, src));
  ET_TRY(eti_arg_int(ctx, args, 2, &d));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, out));
  ET_TRY(eti_check_same_dtype(ctx, *self, *out, "self and out"));
  ET_CHECK((*self)->rank > 0, ctx->err, ET_INVALID_ARGUMENT, "the tensor has no dimensions");
  ET_TRY(eti_wrap_dim(ctx, d, (*self)->rank, dim));
  *view = eti_view_of(*self);
  return eti_resize(ctx, *out, &view->shape);
}

et_status op_select_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL, *out = NULL;
  eti_view view;
  size_t dim = 0;
  int64_t index = 0;
  ET_TRY(window_args(ctx, args, 4, &self, &src, &out, &view, &dim));
  ET_TRY(eti_arg_int(ctx, args, 3, &index));
  ET_TRY(eti_wrap_index(ctx, index, dim, view.shape.sizes[dim], &index));
  eti_view window = eti_view_of(out);
  window.offset = (ptrdiff_t)index * window.strides[dim];
  eti_view_remove(&window, dim);
  return replace_window(ctx, self, &view, src, out, &window);
}

et_status op_slice_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL, *out = NULL;
  eti_view view;
  eti_slice slice;
  size_t dim = 0;
  ET_TRY(window_args(ctx, args, 6, &self, &src, &out, &view, &dim));
  ET_TRY(eti_slice_of(ctx, args, 3, view.shape.sizes[dim], &slice));
  eti_view window = eti_view_of(out);
  eti_view_slice(&window, dim, &slice);
  return replace_window(ctx, self, &view, src, out, &window);
}
