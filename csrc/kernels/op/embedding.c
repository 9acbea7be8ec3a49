// embedding.c — look-up of rows of a table by indices. Copies bytes of any element type; every
// index is checked. Relies on shape.h. A table or output that is not stored in rows is copied
// element by element.
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <string.h>

typedef struct embedding_run {
  const char *table;
  char *out;
  const et_tensor *indices;
  ptrdiff_t row_step, col_step;  // of the table, in bytes
  size_t width, esize, n_rows;
  const et_tensor *out_tensor;
  bool whole_rows, plain_indices;
} embedding_run;

static int64_t index_at(const et_tensor *t, size_t i) {
  ptrdiff_t offset = 0;
  for (size_t d = t->rank; d-- > 0;) {
    offset += (ptrdiff_t)(i % (size_t)t->sizes[d]) * t->strides[d];
    i /= (size_t)t->sizes[d];
  }
  return t->dtype == ET_I32 ? ((const int32_t *)t->data)[offset]
                            : ((const int64_t *)t->data)[offset];
}

static void move_row(const embedding_run *r, size_t i, const char *row) {
  const et_tensor *const out = r->out_tensor;
  ptrdiff_t offset = 0;
  size_t rest = i;
  for (size_t d = out->rank - 1u; d-- > 0;) {
    offset += (ptrdiff_t)(rest % (size_t)out->sizes[d]) * out->strides[d];
    rest /= (size_t)out->sizes[d];
  }
  char *to = r->out + offset * (ptrdiff_t)r->esize;
  const ptrdiff_t step = out->strides[out->rank - 1u] * (ptrdiff_t)r->esize;
  for (size_t c = 0; c < r->width; c++)
    memmove(to + (ptrdiff_t)c * step, row + (ptrdiff_t)c * r->col_step, r->esize);
}

// Index i. It was checked before, but memory that overlaps the output may have changed since.
static inline size_t row_of(const embedding_run *r, size_t i) {
  const int64_t index = !r->plain_indices             ? index_at(r->indices, i)
                        : r->indices->dtype == ET_I64 ? ((const int64_t *)r->indices->data)[i]
                                                      : ((const int32_t *)r->indices->data)[i];
  return (uint64_t)index < r->n_rows ? (size_t)index : 0;
}

// Copies rows of a few vectors, for which a call costs more than the copy.
static void embed_short_rows(const embedding_run *r, size_t begin, size_t end) {
  enum { VECTOR = 16 };
  const size_t bytes = r->width * r->esize;
  char *to = r->out + begin * bytes;
  for (size_t i = begin; i < end; i++) {
    const char *const row = r->table + (ptrdiff_t)row_of(r, i) * r->row_step;
    for (size_t k = 0; k < bytes; k += VECTOR, to += VECTOR) {
      char vector[VECTOR];
      memcpy(vector, row + k, VECTOR);
      memcpy(to, vector, VECTOR);
    }
  }
}

static void embed_rows(void *ctx, size_t begin, size_t end) {
  const embedding_run *const r = ctx;
  if (r->whole_rows && r->width * r->esize % 16 == 0 && r->width * r->esize <= 256) {
    embed_short_rows(r, begin, end);
    return;
  }
  for (size_t i = begin; i < end; i++) {
    const char *const row = r->table + (ptrdiff_t)row_of(r, i) * r->row_step;
    if (r->whole_rows) {
      memmove(r->out + i * r->width * r->esize, row, r->width * r->esize);
    } else {
      move_row(r, i, row);
    }
  }
}

// True if all indices, which are dense, are inside; tested without a branch for each.
static bool all_inside(const et_tensor *indices, int64_t n_rows) {
  bool outside = false;
  if (indices->dtype == ET_I64) {
    const int64_t *const index = indices->data;
    for (size_t i = 0; i < indices->numel; i++) outside |= (uint64_t)index[i] >= (uint64_t)n_rows;
  } else {
    const int32_t *const index = indices->data;
    for (size_t i = 0; i < indices->numel; i++) outside |= (uint32_t)index[i] >= (uint32_t)n_rows;
  }
  return !outside;
}

et_status op_embedding_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *w, *indices, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &w));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &indices));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  ET_CHECK(w->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "embedding: weight: expected rank 2, got %d", (int)w->rank);
  ET_CHECK(w->dtype == out->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "embedding: expected one dtype, got weight %s, out %s",
           et_dtype_name((et_dtype)w->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(indices->dtype == ET_I64 || indices->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "embedding: indices: expected i32 or i64, got %s",
           et_dtype_name((et_dtype)indices->dtype));
  ET_CHECK(indices->rank < ET_MAX_RANK && out != indices && out != w, ctx->err, ET_INVALID_ARGUMENT,
           "embedding: indices of rank %d are too many dimensions, or out is an input",
           (int)indices->rank);
  eti_shape shape = eti_shape_of(indices);
  shape.sizes[shape.rank++] = w->sizes[1];
  ET_TRY(eti_resize(ctx, out, &shape));
  const bool is_inside = all_inside(indices, w->sizes[0]);
  for (size_t i = 0; !is_inside && i < indices->numel; i++) {
    const int64_t index = index_at(indices, i);
    ET_CHECK(index >= 0 && index < w->sizes[0], ctx->err, ET_INVALID_ARGUMENT,
             "embedding: index %lld at position %zu is outside of a table of %d rows",
             (long long)index, i, (int)w->sizes[0]);
  }
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)w->dtype);
  embedding_run r = {
      .table = w->data,
      .out = out->data,
      .indices = indices,
      .row_step = w->strides[0] * es,
      .col_step = w->strides[1] * es,
      .width = (size_t)w->sizes[1],
      .esize = (size_t)es,
      .n_rows = (size_t)w->sizes[0],
      .out_tensor = out,
      .whole_rows = eti_is_contiguous(w) && eti_is_contiguous(out),
      .plain_indices = eti_is_contiguous(indices),
  };
  if (out->numel == 0) return ET_OK;
  et_parallel_for(ctx->pool, embed_rows, &r, indices->numel, 1 + 65536 / (r.width * r.esize + 1));
  return ET_OK;
}
