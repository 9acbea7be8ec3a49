// pad.c — operators that enlarge a tensor at its edges, with a constant, a mirror image or the edge
// itself, or crop it for negative padding. Every output element is written once: row by row if
// input and output have the same order of dimensions in memory, else by strided copies of windows,
// so layouts are free. Relies on copy_op.h. Copies bytes of any element type.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

#include <string.h>

// ---- arguments

typedef struct padding {
  int64_t low, high;
} padding;

// Reads pairs (low, high) for the last dimensions, innermost first; the other dimensions get none.
// sizes become padded ones.
static et_status padding_args(const et_kernel_ctx *ctx, et_value *const *args, const eti_shape *own,
                              padding *pads, size_t *n_pairs, eti_shape *padded) {
  int64_t list[2 * ET_MAX_RANK];
  size_t n = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, list, 2 * ET_MAX_RANK, &n));
  ET_CHECK(n % 2 == 0 && n / 2 <= own->rank, ctx->err, ET_INVALID_ARGUMENT,
           "pad: expected at most 2 paddings for each dimension, got %zu for a tensor of rank %zu",
           n, own->rank);
  *n_pairs = n / 2;
  *padded = *own;
  for (size_t d = 0; d < own->rank; d++) pads[d] = (padding){0, 0};
  for (size_t i = 0; i < n / 2; i++) {
    const size_t d = own->rank - 1 - i;
    const int64_t low = list[2 * i], high = list[2 * i + 1], size = own->sizes[d];
    const bool fits = low >= -size && low <= INT32_MAX && high >= -size && high <= INT32_MAX &&
                      size + (low < 0 ? low : 0) + (high < 0 ? high : 0) >= 0;
    ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
             "pad: %lld and %lld for dimension %zu of size %lld", (long long)low, (long long)high,
             d, (long long)size);
    pads[d] = (padding){low, high};
    ET_TRY(eti_checked_size(ctx, size + low + high, "pad", &padded->sizes[d]));
  }
  return ET_OK;
}

static int64_t at_least_zero(int64_t v) {
  return v > 0 ? v : 0;
}

// The part of dimension d that comes from self.
static eti_slice kept_of(int64_t size, padding pad) {
  const eti_slice kept = {.start = at_least_zero(-pad.low),
                          .length = size - at_least_zero(-pad.low) - at_least_zero(-pad.high),
                          .step = 1};
  return kept;
}

typedef enum edge_rule { CONSTANT, REFLECT, REPLICATE } edge_rule;

// ---- rows

typedef struct row_axis {
  int64_t from, to;                  // sizes
  ptrdiff_t from_stride, to_stride;  // bytes
  int64_t low;                       // offset of the input in the output
} row_axis;

// Axes from the outermost to the innermost in memory; elements of the last are adjacent in both
// tensors. The middle of a row is one copy, its edges are few.
typedef struct padded_rows {
  const char *in;
  char *out;
  const char *value;  // CONSTANT: one element
  edge_rule rule;
  size_t bytes, rank;  // bytes of an element: 1, 2, 4, 8 or 16
  row_axis axis[ET_MAX_RANK];
} padded_rows;

// The input index for an output index; outside of 0 … size - 1 only for a constant.
static int64_t source_of(edge_rule rule, const row_axis *a, int64_t i) {
  const int64_t last = a->from - 1, at = i - a->low;
  if (rule == CONSTANT) return at;
  if (rule == REPLICATE) return at < 0 ? 0 : at > last ? last : at;
  return at < 0 ? -at : at > last ? 2 * last - at : at;
}

// Joins an unpadded axis with the next outer one, so that pixels with few channels still make long
// rows.
static void join_rows(padded_rows *p) {
  while (p->rank > 1) {
    row_axis *outer = &p->axis[p->rank - 2];
    const row_axis *inner = &p->axis[p->rank - 1];
    const ptrdiff_t row = (ptrdiff_t)inner->to * inner->to_stride;
    if (inner->from != inner->to || inner->low != 0 || outer->to_stride != row ||
        (outer->from_stride != row && outer->from != 1))
      return;
    outer->from *= inner->to;
    outer->to *= inner->to;
    outer->low *= inner->to;
    outer->from_stride = inner->from_stride;
    outer->to_stride = inner->to_stride;
    p->rank--;
  }
}

// Finds the rows; false if rows of the output are not rows of the input.
static bool rows_of(const et_tensor *out, const et_tensor *self, const padding *pads,
                    padded_rows *p) {
  p->in = self->data;
  p->out = out->data;
  p->bytes = et_dtype_bytes((et_dtype)out->dtype);
  p->rank = 0;
  const ptrdiff_t bytes = (ptrdiff_t)p->bytes;
  for (size_t d = 0; d < out->rank; d++) {
    const row_axis axis = {.from = self->sizes[d],
                           .to = out->sizes[d],
                           .from_stride = (ptrdiff_t)self->strides[d] * bytes,
                           .to_stride = (ptrdiff_t)out->strides[d] * bytes,
                           .low = pads[d].low};
    if (axis.from == 1 && axis.to == 1 && axis.low == 0) continue;
    size_t at = p->rank++;
    for (; at > 0 && p->axis[at - 1].to_stride < axis.to_stride; at--)
      p->axis[at] = p->axis[at - 1];
    p->axis[at] = axis;
  }
  if (p->rank == 0) {
    p->axis[p->rank++] = (row_axis){1, 1, bytes, bytes, 0};
    return true;
  }
  if (p->rule == CONSTANT) join_rows(p);
  const row_axis *row = &p->axis[p->rank - 1];
  return row->to_stride == bytes && (row->from_stride == bytes || row->from <= 1);
}

// The following functions get the element size and the kind of edges as constants, and are
// specialised for each.

static inline void fill_elements(char *to, const char *value, int64_t n, size_t bytes) {
  for (int64_t i = 0; i < n; i++) memcpy(to + i * (ptrdiff_t)bytes, value, bytes);
}

// Fills elements begin … end - 1 of a row, which are outside of the input.
static inline void pad_edge(const padded_rows *p, char *out, const char *in, int64_t begin,
                            int64_t end, size_t bytes, bool is_constant) {
  if (is_constant) {
    fill_elements(out + begin * (ptrdiff_t)bytes, p->value, end - begin, bytes);
    return;
  }
  const row_axis *row = &p->axis[p->rank - 1];
  for (int64_t i = begin; i < end; i++)
    memcpy(out + i * (ptrdiff_t)bytes, in + source_of(p->rule, row, i) * (ptrdiff_t)bytes, bytes);
}

static inline void pad_row(const padded_rows *p, char *out, const char *in, size_t bytes,
                           bool is_constant) {
  const row_axis *row = &p->axis[p->rank - 1];
  const int64_t from = at_least_zero(row->low), end = row->low + row->from;
  const int64_t to = end < from ? from : end < row->to ? end : row->to;
  pad_edge(p, out, in, 0, from, bytes, is_constant);
  if (to > from)
    eti_copy_bytes(out + from * (ptrdiff_t)bytes, in + (from - row->low) * (ptrdiff_t)bytes,
                   (size_t)(to - from) * bytes);
  pad_edge(p, out, in, to, row->to, bytes, is_constant);
}

static inline void pad_rows(const padded_rows *p, size_t begin, size_t end, size_t bytes,
                            bool is_constant) {
  const row_axis one = {.from = 1, .to = 1};
  const row_axis *column = p->rank > 1 ? &p->axis[p->rank - 2] : &one;
  for (size_t u = begin; u < end;) {
    ptrdiff_t from = 0, to = 0;
    size_t rest = u / (size_t)column->to;
    bool is_inside = true;
    for (size_t d = p->rank > 1 ? p->rank - 2 : 0; d-- > 0;) {
      const row_axis *a = &p->axis[d];
      const int64_t i = (int64_t)(rest % (size_t)a->to), at = source_of(p->rule, a, i);
      rest /= (size_t)a->to;
      to += (ptrdiff_t)i * a->to_stride;
      from += (ptrdiff_t)at * a->from_stride;
      is_inside &= at >= 0 && at < a->from;
    }
    for (int64_t y = (int64_t)(u % (size_t)column->to); y < column->to && u < end; y++, u++) {
      const int64_t at = source_of(p->rule, column, y);
      char *row = p->out + to + (ptrdiff_t)y * column->to_stride;
      if (is_inside && at >= 0 && at < column->from)
        pad_row(p, row, p->in + from + (ptrdiff_t)at * column->from_stride, bytes, is_constant);
      else
        fill_elements(row, p->value, p->axis[p->rank - 1].to, bytes);
    }
  }
}

#define PAD_ROWS(bytes)                                                  \
  static void pad_rows_##bytes(void *opaque, size_t begin, size_t end) { \
    const padded_rows *p = opaque;                                       \
    if (p->rule == CONSTANT)                                             \
      pad_rows(p, begin, end, bytes, true);                              \
    else                                                                 \
      pad_rows(p, begin, end, bytes, false);                             \
  }
PAD_ROWS(1)
PAD_ROWS(2)
PAD_ROWS(4)
PAD_ROWS(8)
PAD_ROWS(16)

static void run_rows(const et_kernel_ctx *ctx, padded_rows *p, size_t numel) {
  const size_t n = (size_t)p->axis[p->rank - 1].to;
  const et_range_fn pad = p->bytes == 1   ? pad_rows_1
                          : p->bytes == 2 ? pad_rows_2
                          : p->bytes == 4 ? pad_rows_4
                          : p->bytes == 8 ? pad_rows_8
                                          : pad_rows_16;
  et_parallel_for(ctx->pool, pad, p, numel / n, 1 + 16384 / n);
}

// ---- constant_pad_nd

// Pads any layout: the edges, one dimension after the other, then the middle. Not inlined: the
// caller, whose rows are often padded without windows, would hold them on its stack.
static __attribute__((noinline)) void pad_windows(const et_kernel_ctx *ctx, const et_tensor *out,
                                                  const et_tensor *self, const padding *pads,
                                                  const char *value) {
  const size_t bytes = et_dtype_bytes((et_dtype)out->dtype);
  eti_window rest = eti_window_of(out), from = eti_window_of(self);
  for (size_t d = 0; d < self->rank; d++) {
    const eti_slice kept = kept_of(self->sizes[d], pads[d]);
    const eti_slice edges[2] = {
        {.start = 0, .length = at_least_zero(pads[d].low), .step = 1},
        {.start = at_least_zero(pads[d].low) + kept.length,
         .length = at_least_zero(pads[d].high),
         .step = 1},
    };
    for (size_t e = 0; e < 2; e++) {
      if (edges[e].length == 0) continue;
      eti_window edge = rest;
      eti_window_slice(&edge, d, &edges[e]);
      eti_fill_window(ctx->pool, out->data, &edge, value, bytes);
    }
    const eti_slice inner = {.start = at_least_zero(pads[d].low), .length = kept.length, .step = 1};
    eti_window_slice(&rest, d, &inner);
    eti_window_slice(&from, d, &kept);
  }
  eti_copy_windows(ctx->pool, out->data, &rest, self->data, &from, bytes);
}

et_status op_constant_pad_nd_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  eti_scalar number;
  padding pads[ET_MAX_RANK];
  eti_shape padded;
  size_t n_pairs = 0;
  char value[16];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_scalar(ctx, args, 2, &number));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_CHECK(eti_scalar_store(&number, (et_dtype)out->dtype, value), ctx->err, ET_NOT_SUPPORTED,
           "constant_pad_nd: a number cannot be converted to %s",
           et_dtype_name((et_dtype)out->dtype));
  const eti_shape own = eti_window_of(self).shape;
  ET_TRY(padding_args(ctx, args, &own, pads, &n_pairs, &padded));
  ET_TRY(eti_resize(ctx, out, &padded));
  if (out->numel == 0) return ET_OK;
  padded_rows rows = {.rule = CONSTANT, .value = value};
  if (rows_of(out, self, pads, &rows))
    run_rows(ctx, &rows, out->numel);
  else
    pad_windows(ctx, out, self, pads, value);
  return ET_OK;
}

// ---- reflection and replication

// A run of output indices of one dimension, and their input indices: src, src + step, …; step is 1,
// 0 or -1.
typedef struct segment {
  int64_t dst, length, src, step;
} segment;

static void segments_of(edge_rule rule, int64_t size, padding pad, segment s[3]) {
  const eti_slice kept = kept_of(size, pad);
  const int64_t low = at_least_zero(pad.low), high = at_least_zero(pad.high);
  s[0] = (segment){
      .dst = 0, .length = low, .src = rule == REFLECT ? low : 0, .step = rule == REFLECT ? -1 : 0};
  s[1] = (segment){.dst = low, .length = kept.length, .src = kept.start, .step = 1};
  s[2] = (segment){.dst = low + kept.length,
                   .length = high,
                   .src = rule == REFLECT ? size - 2 : size - 1,
                   .step = rule == REFLECT ? -1 : 0};
}

static et_status check_edges(const et_kernel_ctx *ctx, edge_rule rule, const eti_shape *own,
                             const padding *pads, size_t n_pairs) {
  for (size_t d = own->rank - n_pairs; d < own->rank; d++) {
    const int64_t size = own->sizes[d];
    const bool fits =
        size > 0 && (rule == REPLICATE || (pads[d].low < size && pads[d].high < size));
    ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
             "pad: %lld and %lld are too many for dimension %zu of size %lld",
             (long long)pads[d].low, (long long)pads[d].high, d, (long long)size);
  }
  return ET_OK;
}

// Copies each combination of segments. Not inlined: its windows are not on the stack of the caller,
// which holds those of all segments.
static __attribute__((noinline)) void copy_segments(const et_kernel_ctx *ctx, const et_tensor *out,
                                                    const void *src, const eti_window *self,
                                                    segment (*segments)[3], size_t n_pairs) {
  size_t n = 1;
  for (size_t i = 0; i < n_pairs; i++) n *= 3;
  for (size_t combination = 0; combination < n; combination++) {
    eti_window to = eti_window_of(out), from = *self;
    bool is_empty = false;
    size_t rest = combination;
    for (size_t i = 0; i < n_pairs; i++, rest /= 3) {
      const segment *s = &segments[i][rest % 3];
      const size_t d = self->shape.rank - n_pairs + i;
      is_empty |= s->length == 0;
      if (is_empty) break;
      to.offset += (ptrdiff_t)s->dst * to.strides[d];
      to.shape.sizes[d] = (int32_t)s->length;
      from.offset += (ptrdiff_t)s->src * from.strides[d];
      from.strides[d] *= (ptrdiff_t)s->step;
    }
    if (!is_empty)
      eti_copy_windows(ctx->pool, out->data, &to, src, &from, et_dtype_bytes((et_dtype)out->dtype));
  }
}

static et_status pad_edges(const et_kernel_ctx *ctx, et_value *const *args, edge_rule rule,
                           size_t n_dims) {
  et_tensor *self = NULL, *out = NULL;
  padding pads[ET_MAX_RANK];
  segment segments[3][3];
  eti_shape padded;
  size_t n_pairs = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_CHECK(self->rank == n_dims + 1 || self->rank == n_dims + 2, ctx->err, ET_INVALID_ARGUMENT,
           "pad: expected rank %zu or %zu, got %d", n_dims + 1, n_dims + 2, (int)self->rank);
  const eti_window from = eti_window_of(self);
  ET_TRY(padding_args(ctx, args, &from.shape, pads, &n_pairs, &padded));
  ET_CHECK(n_pairs == n_dims, ctx->err, ET_INVALID_ARGUMENT, "pad: expected %zu paddings, got %zu",
           2 * n_dims, 2 * n_pairs);
  ET_TRY(check_edges(ctx, rule, &from.shape, pads, n_pairs));
  ET_TRY(eti_resize(ctx, out, &padded));
  if (out->numel == 0) return ET_OK;
  padded_rows rows = {.rule = rule};
  if (rows_of(out, self, pads, &rows)) {
    run_rows(ctx, &rows, out->numel);
    return ET_OK;
  }
  for (size_t i = 0; i < n_dims; i++) {
    const size_t d = from.shape.rank - n_dims + i;
    segments_of(rule, from.shape.sizes[d], pads[d], segments[i]);
  }
  copy_segments(ctx, out, self->data, &from, segments, n_dims);
  return ET_OK;
}

et_status op_reflection_pad1d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REFLECT, 1);
}
et_status op_reflection_pad2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REFLECT, 2);
}
et_status op_reflection_pad3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REFLECT, 3);
}
et_status op_replication_pad1d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REPLICATE, 1);
}
et_status op_replication_pad2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REPLICATE, 2);
}
et_status op_replication_pad3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return pad_edges(ctx, args, REPLICATE, 3);
}
