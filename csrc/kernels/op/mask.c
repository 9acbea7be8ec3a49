// mask.c — operators driven by a mask, or by elements other than zero: masked_select,
// masked_scatter, nonzero. Relies on compact.h, and on iter3.h for positions.
#include "kernels/kernel.h"
#include "kernels/lib/element.h"
#include "kernels/lib/iter3.h"
#include "kernels/lib/compact.h"
#include "kernels/lib/copy_op.h"

static et_status mask_of(const et_kernel_ctx *ctx, et_value *const *args, et_tensor **mask) {
  ET_TRY(eti_arg_tensor(ctx, args, 1, mask));
  ET_CHECK((*mask)->dtype == ET_B8 || (*mask)->dtype == ET_U8, ctx->err, ET_INVALID_ARGUMENT,
           "mask: expected bool, got %s", et_dtype_name((et_dtype)(*mask)->dtype));
  return ET_OK;
}

// Counts the elements that the mask selects in the shape that self and mask broadcast to.
static et_status count_masked(const et_kernel_ctx *ctx, const et_tensor *self,
                              const et_tensor *mask, eti_compact *m) {
  const eti_shape a = eti_shape_of(self), b = eti_shape_of(mask);
  eti_shape shape;
  ET_TRY(eti_broadcast(ctx, &a, &b, &shape));
  eti_compact_count(ctx, mask, &shape, m);
  ET_CHECK(m->first[m->n_parts] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "the mask selects too many elements");
  return ET_OK;
}

// The window on self that broadcasts it to the shape.
static eti_window broadcast_window(const et_tensor *self, const eti_shape *shape) {
  eti_window view = {.shape = *shape};
  for (size_t d = 0; d < self->rank; d++)
    view.strides[d + shape->rank - self->rank] = self->sizes[d] == 1 ? 0 : self->strides[d];
  return view;
}

et_status op_masked_select_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *out = NULL;
  eti_compact m;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(count_masked(ctx, self, mask, &m));
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)m.first[m.n_parts]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_window from = broadcast_window(self, &m.mask.shape);
  eti_compact_gather(&m, out->data, &from, self->data, et_dtype_bytes((et_dtype)out->dtype));
  return ET_OK;
}

et_status op_masked_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *source = NULL, *out = NULL;
  eti_compact m;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &source));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_check_same_dtype(ctx, self, source, "self and source"));
  ET_TRY(count_masked(ctx, self, mask, &m));
  const size_t count = m.first[m.n_parts];
  ET_CHECK(count <= source->numel, ctx->err, ET_INVALID_ARGUMENT,
           "masked_scatter: source: expected %zu elements, as the mask selects, got %zu", count,
           source->numel);
  const eti_window own = broadcast_window(self, &m.mask.shape);
  ET_TRY(eti_resize(ctx, out, &own.shape));
  eti_copy_first(ctx, out, &own, self->data);
  const eti_window from = eti_window_of(source), to = eti_window_of(out);
  eti_compact_scatter(&m, &from, source->data, &to, out->data,
                      et_dtype_bytes((et_dtype)out->dtype));
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

// State of nonzero: threads count the hits of parts of the elements, in logical order, then list
// them.
typedef struct listing {
  const et_tensor *self, *out;
  eti_iter3 lanes;  // 2: self
  size_t bytes, n_parts;
  uint64_t bits;
  size_t first[ETI_MASK_PARTS + 1];  // hits before each part; the last is their total
} listing;

// Lists elements [begin, end) of a line; their hits become rows k, k + 1 … of out, before `after`.
static size_t list_line(const listing *l, const eti_iter3 *lanes, size_t begin, size_t end,
                        size_t k, size_t after) {
  const et_tensor *const out = l->out;
  const size_t last = l->self->rank - 1u;
  const ptrdiff_t step = lanes->strides[2][last] * (ptrdiff_t)l->bytes;
  const char *const line = (const char *)l->self->data + lanes->at[2] * (ptrdiff_t)l->bytes;
  int32_t at[ETI_FIND];
  for (size_t i = begin; i < end; i += ETI_FIND) {
    const size_t n = end - i < ETI_FIND ? end - i : ETI_FIND;
    const size_t found =
        eti_find_nonzero(line + (ptrdiff_t)i * step, step, n, l->bytes, l->bits, at);
    for (size_t hit = 0; hit < found && k < after; hit++) {
      int64_t *const row = (int64_t *)out->data + (ptrdiff_t)k++ * out->strides[0];
      for (size_t d = 0; d < last; d++) row[(ptrdiff_t)d * out->strides[1]] = lanes->index[d];
      row[(ptrdiff_t)last * out->strides[1]] = (int64_t)i + at[hit];
    }
  }
  return k;
}

// Counts the hits of a part, or lists them once their positions are known.
static size_t walk_part(const listing *l, size_t part, bool lists) {
  eti_iter3 lanes = l->lanes;
  const size_t last = l->self->rank - 1u, size = (size_t)l->self->sizes[last];
  size_t begin = (size_t)((uint64_t)l->self->numel * part / l->n_parts);
  const size_t end = (size_t)((uint64_t)l->self->numel * (part + 1) / l->n_parts);
  size_t row = begin / size, k = lists ? l->first[part] : 0;
  for (size_t d = last; d-- > 0; row /= (size_t)l->self->sizes[d]) {
    lanes.index[d] = (int32_t)(row % (size_t)l->self->sizes[d]);
    lanes.at[2] += lanes.index[d] * lanes.strides[2][d];
  }
  while (begin < end) {
    const size_t from = begin % size, to = end - begin < size - from ? from + end - begin : size;
    if (lists) {
      k = list_line(l, &lanes, from, to, k, l->first[part + 1]);
    } else {
      const ptrdiff_t step = lanes.strides[2][last];
      const char *const line = eti_element(l->self, lanes.at[2] + (ptrdiff_t)from * step);
      k += eti_count_nonzero(line, step * (ptrdiff_t)l->bytes, to - from, l->bytes, l->bits);
    }
    begin += to - from;
    eti_iter3_next(&lanes);
  }
  return k;
}

static void count_hits(void *ctx, size_t begin, size_t end) {
  listing *const l = ctx;
  for (size_t part = begin; part < end; part++) l->first[part + 1] = walk_part(l, part, false);
}

static void list_hits(void *ctx, size_t begin, size_t end) {
  for (size_t part = begin; part < end; part++) walk_part(ctx, part, true);
}

static void listing_begin(const et_kernel_ctx *ctx, const et_tensor *self, listing *l) {
  *l = (listing){.self = self, .bytes = et_dtype_bytes((et_dtype)self->dtype)};
  l->bits = nonzero_bits((et_dtype)self->dtype);
  const eti_shape own = eti_shape_of(self);
  eti_iter3_begin(&l->lanes, &own);
  eti_iter3_set(&l->lanes, 2, self);
  l->n_parts = 1;
  if (self->rank == 0) {
    l->first[1] = eti_count_nonzero(self->data, 0, 1, l->bytes, l->bits);
    return;
  }
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const size_t most = self->numel / ETI_GRAIN_MATH + 1;
  l->n_parts = threads < most ? threads : most;
  if (l->n_parts > ETI_MASK_PARTS) l->n_parts = ETI_MASK_PARTS;
  if (self->numel > 0) et_parallel_for(ctx->pool, count_hits, l, l->n_parts, 1);
  for (size_t part = 0; part < l->n_parts; part++) l->first[part + 1] += l->first[part];
}

et_status op_nonzero_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  listing l;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_CHECK(out->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT,
           "nonzero: out: expected i64, got %s", et_dtype_name((et_dtype)out->dtype));
  listing_begin(ctx, self, &l);
  const size_t count = l.first[l.n_parts];
  ET_CHECK(count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "nonzero: %zu elements that are not zero are too many", count);
  const eti_shape shape = {.rank = 2, .sizes = {(int32_t)count, (int32_t)self->rank}};
  ET_TRY(eti_resize(ctx, out, &shape));
  l.out = out;
  if (self->rank > 0 && count > 0) et_parallel_for(ctx->pool, list_hits, &l, l.n_parts, 1);
  return ET_OK;
}
