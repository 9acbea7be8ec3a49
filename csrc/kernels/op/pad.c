// pad.c — operators that enlarge a tensor at its edges, with a constant, a mirror image or the edge
// itself, or crop it where a padding is negative. Every output element is written once, by strided
// copies of windows, so layouts are free. Relies on move.h. Moves bytes of any element type.
#include "kernels/move.h"

#include <string.h>

// ---- constant_pad_nd

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
           "pad: %zu paddings for a tensor of rank %zu", n, own->rank);
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

static int64_t positive(int64_t v) {
  return v > 0 ? v : 0;
}

// The part of dimension d that comes from self.
static eti_slice kept_of(int64_t size, padding pad) {
  const eti_slice kept = {.start = positive(-pad.low),
                          .length = size - positive(-pad.low) - positive(-pad.high),
                          .step = 1};
  return kept;
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
           "constant_pad_nd: a number cannot become %s", et_dtype_name((et_dtype)out->dtype));
  eti_view from = eti_view_of(self);
  const eti_shape own = from.shape;
  ET_TRY(padding_args(ctx, args, &own, pads, &n_pairs, &padded));
  ET_TRY(eti_resize(ctx, out, &padded));
  const size_t bytes = et_dtype_bytes((et_dtype)out->dtype);
  eti_view rest = eti_view_of(out);  // what is not written yet
  for (size_t d = own.rank - n_pairs; d < own.rank; d++) {
    const eti_slice kept = kept_of(own.sizes[d], pads[d]);
    const eti_slice edges[2] = {
        {.start = 0, .length = positive(pads[d].low), .step = 1},
        {.start = positive(pads[d].low) + kept.length, .length = positive(pads[d].high), .step = 1},
    };
    for (size_t e = 0; e < 2; e++) {
      if (edges[e].length == 0) continue;
      eti_view edge = rest;
      eti_view_slice(&edge, d, &edges[e]);
      eti_fill_view(ctx->pool, out->data, &edge, value, bytes);
    }
    const eti_slice inner = {.start = positive(pads[d].low), .length = kept.length, .step = 1};
    eti_view_slice(&rest, d, &inner);
    eti_view_slice(&from, d, &kept);
  }
  eti_copy_views(ctx->pool, out->data, &rest, self->data, &from, bytes);
  return ET_OK;
}

// ---- reflection and replication

// A run of output indices of one dimension, and the input indices they come from: src, src + step,
// …; step is 1, 0 or -1.
typedef struct segment {
  int64_t dst, length, src, step;
} segment;

typedef enum edge_rule { REFLECT, REPLICATE } edge_rule;

static void segments_of(edge_rule rule, int64_t size, padding pad, segment s[3]) {
  const eti_slice kept = kept_of(size, pad);
  const int64_t low = positive(pad.low), high = positive(pad.high);
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

static void copy_segments(const et_kernel_ctx *ctx, const et_tensor *out, const void *src,
                          const eti_view *self, segment (*segments)[3], size_t n_pairs) {
  size_t n = 1;
  for (size_t i = 0; i < n_pairs; i++) n *= 3;
  for (size_t combination = 0; combination < n; combination++) {
    eti_view to = eti_view_of(out), from = *self;
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
      eti_copy_views(ctx->pool, out->data, &to, src, &from, et_dtype_bytes((et_dtype)out->dtype));
  }
}

// Rows that lie side by side in both tensors: the middle of one is a copy, its edges are few.
typedef struct padded_rows {
  const et_tensor *self, *out;
  edge_rule rule;
  size_t bytes;
  const padding *pads;  // of all dimensions
} padded_rows;

static int64_t source_of(const padded_rows *p, size_t d, int64_t i) {
  const int64_t last = p->self->sizes[d] - 1, at = i - p->pads[d].low;
  if (p->rule == REPLICATE) return at < 0 ? 0 : at > last ? last : at;
  return at < 0 ? -at : at > last ? 2 * last - at : at;
}

static void copy_element(char *to, const char *from, size_t bytes) {
  switch (bytes) {
    case 4:
      memcpy(to, from, 4);
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    default:
      eti_copy_bytes(to, from, bytes);
      break;
  }
}

static void pad_row(const padded_rows *p, char *out, const char *in) {
  const size_t d = p->out->rank - 1u;
  const int64_t size = p->out->sizes[d], low = p->pads[d].low;
  const ptrdiff_t bytes = (ptrdiff_t)p->bytes;
  const int64_t from = low > 0 ? low : 0, end = low + p->self->sizes[d];
  const int64_t to = end < from ? from : end < size ? end : size;
  for (int64_t i = 0; i < from; i++)
    copy_element(out + i * bytes, in + source_of(p, d, i) * bytes, p->bytes);
  eti_copy_bytes(out + from * bytes, in + (from - low) * bytes, (size_t)(to - from) * p->bytes);
  for (int64_t i = to; i < size; i++)
    copy_element(out + i * bytes, in + source_of(p, d, i) * bytes, p->bytes);
}

static void pad_rows(void *opaque, size_t begin, size_t end) {
  const padded_rows *const p = opaque;
  const size_t inner = p->out->rank - 2u, height = (size_t)p->out->sizes[inner];
  const ptrdiff_t bytes = (ptrdiff_t)p->bytes;
  for (size_t u = begin; u < end;) {
    ptrdiff_t from = 0, to = 0;
    size_t rest = u / height;
    for (size_t d = inner; d-- > 0;) {
      const int64_t i = (int64_t)(rest % (size_t)p->out->sizes[d]);
      rest /= (size_t)p->out->sizes[d];
      to += (ptrdiff_t)i * p->out->strides[d];
      from += (ptrdiff_t)source_of(p, d, i) * p->self->strides[d];
    }
    for (size_t y = u % height; y < height && u < end; y++, u++) {
      const ptrdiff_t row = (ptrdiff_t)source_of(p, inner, (int64_t)y);
      pad_row(p, (char *)p->out->data + (to + (ptrdiff_t)y * p->out->strides[inner]) * bytes,
              (const char *)p->self->data + (from + row * p->self->strides[inner]) * bytes);
    }
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
           "pad: rank %d, needs %zu or %zu", (int)self->rank, n_dims + 1, n_dims + 2);
  const eti_view from = eti_view_of(self);
  ET_TRY(padding_args(ctx, args, &from.shape, pads, &n_pairs, &padded));
  ET_CHECK(n_pairs == n_dims, ctx->err, ET_INVALID_ARGUMENT, "pad: %zu paddings, needs %zu",
           2 * n_pairs, 2 * n_dims);
  ET_TRY(check_edges(ctx, rule, &from.shape, pads, n_pairs));
  ET_TRY(eti_resize(ctx, out, &padded));
  const size_t width = out->rank - 1u;
  if (out->numel == 0) return ET_OK;
  if (self->strides[width] == 1 && out->strides[width] == 1) {
    padded_rows p = {self, out, rule, et_dtype_bytes((et_dtype)out->dtype), pads};
    const size_t n = (size_t)out->sizes[width];
    et_parallel_for(ctx->pool, pad_rows, &p, out->numel / n, 1 + 16384 / n);
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
