// embedding_bag.c — sums, means and maxima of bags of rows of a table: _embedding_bag and
// _embedding_bag_forward_only. Every index and offset is checked. Sums are f64 and rounded once.
// The three outputs beside the result serve the backward pass and have eager's values. Relies on
// element.h.
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/ops.h"

#include <string.h>

// The entry of the tables that this file calls directly.
ETI_USES(rows, rows_sum_wide)

enum { SUM, MEAN, MAX };
enum { COLUMNS = 64, ROWS = 64 };  // processed at a time

typedef struct bags {
  const et_tensor *weight, *indices, *offsets, *scale;  // scale NULL: every row counts once
  const et_tensor *out, *positions, *counts, *rows;     // out0 … out3 of the schema
  int64_t mode, padding;
  int64_t n, n_bags;  // indices and bags
} bags;

static int64_t index_at(const bags *b, int64_t i) {
  return eti_load_index(b->indices, (ptrdiff_t)i * b->indices->strides[0]);
}

static int64_t offset_at(const bags *b, int64_t bag) {
  return eti_load_index(b->offsets, (ptrdiff_t)bag * b->offsets->strides[0]);
}

// Start of a bag. It was checked before, but memory that overlaps an output may have changed since.
static int64_t bag_begin(const bags *b, int64_t bag) {
  const int64_t at = bag < b->offsets->sizes[0] ? offset_at(b, bag) : b->n;
  return at < 0 ? 0 : at < b->n ? at : b->n;
}

// True if all indices are inside the table; tested without a branch for each.
static bool all_inside(const bags *b) {
  const uint64_t size = (uint64_t)b->weight->sizes[0];
  const ptrdiff_t step = b->indices->strides[0];
  bool outside = false;
  if (b->indices->dtype == ET_I64) {
    const int64_t *const index = b->indices->data;
    for (int64_t i = 0; i < b->n; i++) outside |= (uint64_t)index[(ptrdiff_t)i * step] >= size;
  } else {
    const int32_t *const index = b->indices->data;
    for (int64_t i = 0; i < b->n; i++) outside |= (uint32_t)index[(ptrdiff_t)i * step] >= size;
  }
  return !outside;
}

// Checks that offsets never decrease and end inside, and that indices are inside the table.
static et_status check_bags(const et_kernel_ctx *ctx, const bags *b) {
  int64_t last = 0;
  for (int64_t i = 0; i < b->offsets->sizes[0]; i++) {
    const int64_t at = offset_at(b, i);
    ET_CHECK(i > 0 || at == 0, ctx->err, ET_INVALID_ARGUMENT,
             "embedding_bag: offset 0: expected 0, got %lld", (long long)at);
    ET_CHECK(
        at >= last && at <= b->n, ctx->err, ET_INVALID_ARGUMENT,
        "embedding_bag: offset %lld: expected %lld to %lld, the offset before it to the number "
        "of indices, got %lld",
        (long long)i, (long long)last, (long long)b->n, (long long)at);
    last = at;
  }
  if (all_inside(b)) return ET_OK;
  for (int64_t i = 0; i < b->n; i++) {
    const int64_t index = index_at(b, i);
    ET_CHECK(index >= 0 && index < b->weight->sizes[0], ctx->err, ET_INVALID_ARGUMENT,
             "embedding_bag: index %lld at position %lld is outside of a table of %d rows",
             (long long)index, (long long)i, (int)b->weight->sizes[0]);
  }
  return ET_OK;
}

typedef struct strip {
  int64_t column, width;
  double value[COLUMNS];
  int64_t row[COLUMNS];  // the row of the maximum
} strip;

static void add_row(const bags *b, strip *s, int64_t index, int64_t i, bool first) {
  const et_tensor *w = b->weight;
  const ptrdiff_t row = (ptrdiff_t)index * w->strides[0] + (ptrdiff_t)s->column * w->strides[1];
  const double scale =
      b->scale == NULL ? 1.0 : eti_load_f64(b->scale, (ptrdiff_t)i * b->scale->strides[0]);
  double x_row[COLUMNS];
  eti_casts[w->dtype][ET_F64](x_row, 8, eti_element(w, row),
                              w->strides[1] * (ptrdiff_t)et_dtype_bytes((et_dtype)w->dtype),
                              (size_t)s->width);
  for (int64_t c = 0; c < s->width; c++) {
    const double x = x_row[c];
    if (b->mode != MAX) {
      s->value[c] += x * scale;
    } else if (first || x > s->value[c]) {
      s->value[c] = x;
      s->row[c] = index;
    }
  }
}

// True if rows of f32 can be added in place.
static bool adds_rows(const bags *b) {
  return b->weight->dtype == ET_F32 && b->weight->strides[1] == 1 && b->mode != MAX &&
         b->scale == NULL;
}

// True if index i counts. It was checked before, but overlapping memory may have changed since.
static bool is_counted(const bags *b, int64_t index) {
  return index != b->padding && index >= 0 && index < b->weight->sizes[0];
}

// Adds the rows of indices [from, to), a list of them at a time.
static int64_t sum_rows(const bags *b, strip *s, int64_t from, int64_t to) {
  const float *rows[ROWS], *const columns = (const float *)b->weight->data + s->column;
  const ptrdiff_t stride = b->weight->strides[0];
  int64_t count = 0;
  for (int64_t i = from; i < to;) {
    size_t n = 0;
    for (; i < to && n < ROWS; i++) {
      const int64_t index = index_at(b, i);
      if (is_counted(b, index)) rows[n++] = columns + (ptrdiff_t)index * stride;
    }
    eti_eltwise_get()->rows_sum_wide(s->value, rows, n, (size_t)s->width);
    count += (int64_t)n;
  }
  return count;
}

static int64_t add_rows(const bags *b, strip *s, int64_t from, int64_t to) {
  int64_t count = 0;
  for (int64_t i = from; i < to; i++) {
    const int64_t index = index_at(b, i);
    if (!is_counted(b, index)) continue;
    add_row(b, s, index, i, count == 0);
    count++;
  }
  return count;
}

static void write_strip(const bags *b, strip *s, int64_t bag, int64_t count) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)b->out->dtype);
  for (int64_t c = 0; c < s->width && b->mode == MEAN && count > 0; c++)
    s->value[c] /= (double)count;
  eti_casts[ET_F64][b->out->dtype](
      eti_element(b->out,
                  (ptrdiff_t)bag * b->out->strides[0] + (ptrdiff_t)s->column * b->out->strides[1]),
      b->out->strides[1] * item, s->value, 8, (size_t)s->width);
  if (b->mode != MAX) return;
  const ptrdiff_t at =
      (ptrdiff_t)bag * b->rows->strides[0] + (ptrdiff_t)s->column * b->rows->strides[1];
  eti_casts[ET_I64][b->rows->dtype](
      eti_element(b->rows, at),
      b->rows->strides[1] * (ptrdiff_t)et_dtype_bytes((et_dtype)b->rows->dtype), s->row, 8,
      (size_t)s->width);
}

static void run_bag(const bags *b, int64_t bag) {
  const int64_t from = bag_begin(b, bag), to = bag_begin(b, bag + 1);
  for (int64_t column = 0; column < b->weight->sizes[1]; column += COLUMNS) {
    const int64_t left = b->weight->sizes[1] - column;
    strip s;
    s.column = column;
    s.width = left < COLUMNS ? left : COLUMNS;
    memset(s.value, 0, (size_t)s.width * sizeof s.value[0]);
    memset(s.row, 0, b->mode == MAX ? (size_t)s.width * sizeof s.row[0] : 0);
    const int64_t count = adds_rows(b) ? sum_rows(b, &s, from, to) : add_rows(b, &s, from, to);
    write_strip(b, &s, bag, count);
  }
}

static void store_index(const et_tensor *t, ptrdiff_t at, int64_t value) {
  if (t->dtype == ET_I64) {
    ((int64_t *)t->data)[at] = value;
  } else {
    ((int32_t *)t->data)[at] = (int32_t)value;
  }
}

// Writes offset2bag, bag_size, and max_indices unless run_bag wrote it. The last offset may have no
// bag.
static void describe_bag(const bags *b, int64_t bag) {
  const int64_t from = bag_begin(b, bag), to = bag < b->n_bags ? bag_begin(b, bag + 1) : from;
  int64_t count = 0;
  if (b->positions->numel != 0) {
    for (int64_t i = from; i < to; i++) store_index(b->positions, (ptrdiff_t)i, bag);
  }
  if (b->mode != SUM) {
    for (int64_t i = from; i < to; i++) count += index_at(b, i) != b->padding;
  }
  store_index(b->counts, (ptrdiff_t)bag, count);
  if (b->mode != MAX && bag < b->rows->sizes[0]) store_index(b->rows, (ptrdiff_t)bag, count);
}

// Each item is a bag, or the last offset.
static void run_bags(void *opaque, size_t begin, size_t end) {
  const bags *const b = opaque;
  for (int64_t bag = (int64_t)begin; bag < (int64_t)end; bag++) {
    if (bag < b->n_bags) run_bag(b, bag);
    if (bag < b->counts->sizes[0]) describe_bag(b, bag);
  }
}

static et_status read_inputs(const et_kernel_ctx *ctx, et_value *const *args, bags *b) {
  et_tensor *weight = NULL, *indices = NULL, *offsets = NULL, *scale = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &weight));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &indices));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &offsets));
  ET_TRY(eti_arg_int(ctx, args, 4, &b->mode));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 6, &scale));
  ET_TRY(eti_arg_int(ctx, args, 8, &b->padding));
  ET_CHECK(
      weight->rank == 2 && indices->rank == 1 && offsets->rank == 1, ctx->err, ET_INVALID_ARGUMENT,
      "embedding_bag: weight, indices and offsets: expected ranks 2, 1 and 1, got %d, %d and %d",
      (int)weight->rank, (int)indices->rank, (int)offsets->rank);
  ET_CHECK(eti_dtype_in((et_dtype)weight->dtype, ET_TYPES_FLOAT_HALF) &&
               eti_dtype_in((et_dtype)indices->dtype, ET_TYPES_INDEX) &&
               eti_dtype_in((et_dtype)offsets->dtype, ET_TYPES_INDEX),
           ctx->err, ET_INVALID_ARGUMENT,
           "embedding_bag: expected weight of floats, indices and offsets of i32 or i64, got %s, "
           "%s and %s",
           et_dtype_name((et_dtype)weight->dtype), et_dtype_name((et_dtype)indices->dtype),
           et_dtype_name((et_dtype)offsets->dtype));
  ET_CHECK(b->mode == SUM || b->mode == MEAN || b->mode == MAX, ctx->err, ET_INVALID_ARGUMENT,
           "embedding_bag: mode: expected 0, 1 or 2, got %lld", (long long)b->mode);
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(scale == NULL || (b->mode == SUM && scale->rank == 1 && scale->dtype == weight->dtype &&
                             scale->numel == indices->numel),
           ctx->err, ET_INVALID_ARGUMENT,
           "embedding_bag: per_sample_weights: expected mode %d and %s[%zu], got mode %lld and %s",
           (int)SUM, et_dtype_name((et_dtype)weight->dtype), indices->numel, (long long)b->mode,
           eti_tensor_text(scale, found));
  b->weight = weight;
  b->indices = indices;
  b->offsets = offsets;
  b->scale = scale;
  b->n = indices->sizes[0];
  return ET_OK;
}

static et_status read_outputs(const et_kernel_ctx *ctx, et_value *const *args, bool names_end,
                              bags *b) {
  et_tensor *outs[4];
  for (size_t i = 0; i < 4; i++) {
    ET_TRY(eti_arg_tensor(ctx, args, 9 + i, &outs[i]));
    ET_CHECK(outs[i] != b->weight && outs[i] != b->indices && outs[i] != b->offsets, ctx->err,
             ET_INVALID_ARGUMENT, "embedding_bag: output %zu is also an input", i);
    ET_CHECK(i == 0 ? outs[i]->dtype == b->weight->dtype
                    : eti_dtype_in((et_dtype)outs[i]->dtype, ET_TYPES_INDEX) &&
                          outs[i]->dtype == outs[1]->dtype,
             ctx->err, ET_INVALID_ARGUMENT, "embedding_bag: output %zu is %s", i,
             et_dtype_name((et_dtype)outs[i]->dtype));
  }
  const int32_t n_bags = (int32_t)b->n_bags, width = b->weight->sizes[1];
  const eti_shape result = {.rank = 2, .sizes = {n_bags, width}};
  const eti_shape list = {.rank = 1, .sizes = {n_bags}};
  // Eager omits this output if nothing needs it; then nothing was planned for it.
  const eti_shape positions = {.rank = 1, .sizes = {outs[1]->capacity == 0 ? 0 : (int32_t)b->n}};
  const eti_shape counts = {.rank = 1, .sizes = {names_end ? b->offsets->sizes[0] : n_bags}};
  ET_TRY(eti_resize(ctx, outs[0], &result));
  ET_TRY(eti_resize(ctx, outs[1], &positions));
  ET_TRY(eti_resize(ctx, outs[2], &counts));
  ET_TRY(eti_resize(ctx, outs[3], b->mode == MAX ? &result : &list));
  b->out = outs[0];
  b->positions = outs[1];
  b->counts = outs[2];
  b->rows = outs[3];
  return ET_OK;
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx, out0, out1, out2, out3)
static et_status embedding_bag(const et_kernel_ctx *ctx, et_value *const *args,
                               bool is_forward_only) {
  bags b = {.mode = SUM};
  bool includes_last = false;
  ET_TRY(read_inputs(ctx, args, &b));
  ET_TRY(eti_arg_bool(ctx, args, 7, &includes_last));
  ET_CHECK(!includes_last || b.offsets->sizes[0] >= 1, ctx->err, ET_INVALID_ARGUMENT,
           "embedding_bag: include_last_offset: expected 1 offset or more, got none");
  b.n_bags = b.offsets->sizes[0] - (includes_last ? 1 : 0);
  ET_TRY(check_bags(ctx, &b));
  ET_TRY(read_outputs(ctx, args, is_forward_only && includes_last, &b));
  const size_t per_bag =
      1 + (size_t)b.n * (size_t)b.weight->sizes[1] / (b.n_bags > 0 ? (size_t)b.n_bags : 1);
  const int64_t n = b.n_bags > b.counts->sizes[0] ? b.n_bags : b.counts->sizes[0];
  et_parallel_for(ctx->pool, run_bags, &b, (size_t)n, 1 + 16384 / per_bag);
  return ET_OK;
}

et_status op_embedding_bag_out(et_kernel_ctx *ctx, et_value *const *args) {
  return embedding_bag(ctx, args, false);
}
et_status op_embedding_bag_forward_only_out(et_kernel_ctx *ctx, et_value *const *args) {
  return embedding_bag(ctx, args, true);
}
