// infer_shapes.c — computes the shape of every value from those of the inputs, node by node, and
// refuses operands that do not fit each other. XNNPACK infers the same when it reshapes, but trusts
// the operands: an input with other channels than the filter, or a window larger than its image,
// would be read out of bounds. So this runs for the shapes a graph is built with and for all later
// ones.
#include "backends/xnnpack/payload/payload.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#include <string.h>

typedef struct task {
  const eti_xnn_payload *payload;
  const eti_xnn_node *node;
  eti_xnn_shape *shapes;  // of all values
  et_error *err;
} task;

static const eti_xnn_shape *input_shape(const task *t, unsigned k) {
  return &t->shapes[t->node->inputs[k]];
}

static eti_xnn_shape *output_shape(const task *t, unsigned k) {
  return &t->shapes[t->node->outputs[k]];
}

// The text of a shape for a message: "2×3×4".
typedef struct shape_text {
  char text[XNN_MAX_TENSOR_DIMS * 24 + 8];
} shape_text;

static shape_text text_of(const eti_xnn_shape *shape) {
  shape_text out = {"a scalar"};
  char *at = out.text;
  for (uint32_t d = 0; d < shape->rank; d++) {
    char digits[24];
    size_t n = 0, left = shape->dims[d];
    do {
      digits[n++] = (char)('0' + left % 10);
      left /= 10;
    } while (left > 0);
    if (d > 0) {
      memcpy(at, "×", sizeof "×" - 1);
      at += sizeof "×" - 1;
    }
    while (n > 0) *at++ = digits[--n];
    *at = '\0';
  }
  return out;
}

static et_status check_rank(const task *t, unsigned k, uint32_t rank) {
  ET_CHECK(input_shape(t, k)->rank == rank, t->err, ET_INVALID_PROGRAM,
           "input %u: expected %lu dimensions, got %s", k, (unsigned long)rank,
           text_of(input_shape(t, k)).text);
  return ET_OK;
}

// ---- Rules

static et_status infer_same(const task *t) {
  *output_shape(t, 0) = *input_shape(t, 0);
  return ET_OK;
}

// The input's shape. It has a last dimension to normalise along.
static et_status infer_row_wise(const task *t) {
  ET_CHECK(input_shape(t, 0)->rank >= 1, t->err, ET_INVALID_PROGRAM,
           "input 0: expected at least one dimension, got a scalar");
  return infer_same(t);
}

static et_status infer_convert(const task *t) {
  const eti_xnn_value *out = &t->payload->values[t->node->outputs[0]];
  ET_CHECK(out->quantization != QUANT_TOKEN || out->n_nonbatch_dims <= input_shape(t, 0)->rank,
           t->err, ET_INVALID_PROGRAM, "scales over %lu dimensions do not fit %s",
           (unsigned long)out->n_nonbatch_dims, text_of(input_shape(t, 0)).text);
  return infer_same(t);
}

// Broadcasts the dimensions of a and b, aligned at their ends, but for the last n_rest ones.
static bool broadcast(const eti_xnn_shape *a, const eti_xnn_shape *b, uint32_t n_rest,
                      eti_xnn_shape *out) {
  const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
  out->rank = rank;
  for (uint32_t d = 0; d + n_rest < rank; d++) {
    const size_t x = d + a->rank < rank ? 1 : a->dims[d + a->rank - rank];
    const size_t y = d + b->rank < rank ? 1 : b->dims[d + b->rank - rank];
    if (x != y && x != 1 && y != 1) return false;
    out->dims[d] = x == 1 ? y : x;
  }
  return true;
}

static et_status infer_binary(const task *t) {
  eti_xnn_shape out = {0};
  ET_CHECK(broadcast(input_shape(t, 0), input_shape(t, 1), 0, &out), t->err, ET_INVALID_PROGRAM,
           "%s and %s cannot be broadcast", text_of(input_shape(t, 0)).text,
           text_of(input_shape(t, 1)).text);
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status check_bias(const task *t, size_t channels) {
  if (t->node->n_inputs < 3) return ET_OK;
  const eti_xnn_shape *bias = input_shape(t, 2);
  ET_CHECK(bias->rank == 1 && bias->dims[0] == channels, t->err, ET_INVALID_PROGRAM,
           "the bias: expected %zu elements, got %s", channels, text_of(bias).text);
  return ET_OK;
}

static et_status infer_linear(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0), *filter = input_shape(t, 1);
  const bool is_transposed = (t->node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  ET_TRY(check_rank(t, 1, 2));
  const size_t columns = filter->dims[is_transposed ? 0 : 1];
  const size_t channels = filter->dims[is_transposed ? 1 : 0];
  ET_CHECK(in->rank >= 1 && in->dims[in->rank - 1] == columns, t->err, ET_INVALID_PROGRAM,
           "input 0: expected rows of %zu as the filter %s has, got %s", columns,
           text_of(filter).text, text_of(in).text);
  ET_TRY(check_bias(t, channels));
  eti_xnn_shape out = *in;
  out.dims[out.rank - 1] = channels;
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_matmul(const task *t) {
  const eti_xnn_shape *a = input_shape(t, 0), *b = input_shape(t, 1);
  ET_CHECK(a->rank >= 2 && b->rank >= 2, t->err, ET_INVALID_PROGRAM,
           "expected two matrices, got %s and %s", text_of(a).text, text_of(b).text);
  const bool is_transposed = (t->node->flags & XNN_FLAG_TRANSPOSE_B) != 0;
  const size_t inner = b->dims[b->rank - (is_transposed ? 1u : 2u)];
  const size_t columns = b->dims[b->rank - (is_transposed ? 2u : 1u)];
  eti_xnn_shape out = {0};
  ET_CHECK(a->dims[a->rank - 1] == inner && broadcast(a, b, 2, &out), t->err, ET_INVALID_PROGRAM,
           "%s and %s%s cannot be multiplied", text_of(a).text, is_transposed ? "transposed " : "",
           text_of(b).text);
  out.dims[out.rank - 2] = a->dims[a->rank - 2];
  out.dims[out.rank - 1] = columns;
  *output_shape(t, 0) = out;
  return ET_OK;
}

// The positions of a window along one side of an image, at least one.
static et_status infer_positions(const task *t, unsigned side, size_t *out) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t before = w->padding[side == 0 ? 0 : 3], after = w->padding[side == 0 ? 2 : 1];
  const size_t image = input_shape(t, 0)->dims[1 + side], padded = before + image + after;
  const size_t reach = (size_t)(w->kernel[side] - 1) * w->dilation[side] + 1;
  ET_CHECK(reach <= padded, t->err, ET_INVALID_PROGRAM,
           "a window over %zu elements is larger than the padded image of %zu", reach, padded);
  *out = (padded - reach) / w->stride[side] + 1;
  // Each window of a pool covers a part of the image itself; those of a convolution may be padding
  // alone.
  ET_CHECK(
      t->node->n_inputs > 1 || (before < reach && (*out - 1) * w->stride[side] < before + image),
      t->err, ET_INVALID_PROGRAM,
      "paddings %zu and %zu leave windows over %zu elements outside of the image of %zu", before,
      after, reach, image);
  return ET_OK;
}

// Windows over an NHWC image. XNNPACK keeps a pointer for each of their elements.
static et_status infer_windows(const task *t, size_t channels) {
  const eti_xnn_window *w = &t->node->p.window;
  eti_xnn_shape out = {.rank = 4};
  size_t pointers = 0;
  ET_TRY(check_rank(t, 0, 4));
  out.dims[0] = input_shape(t, 0)->dims[0];
  ET_TRY(infer_positions(t, 0, &out.dims[1]));
  ET_TRY(infer_positions(t, 1, &out.dims[2]));
  out.dims[3] = channels;
  ET_CHECK(eti_mul(out.dims[1], out.dims[2], &pointers) &&
               eti_mul(pointers, (size_t)w->kernel[0] * w->kernel[1], &pointers) &&
               eti_mul(pointers, 64, &pointers) && pointers <= SIZE_MAX >> 16,
           t->err, ET_INVALID_PROGRAM,
           "a window of %lu × %lu at %zu × %zu positions has too many elements",
           (unsigned long)w->kernel[0], (unsigned long)w->kernel[1], out.dims[1], out.dims[2]);
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status check_filter(const task *t, size_t n, size_t channels) {
  const eti_xnn_shape *filter = input_shape(t, 1);
  const eti_xnn_window *w = &t->node->p.window;
  ET_CHECK(filter->rank == 4 && filter->dims[0] == n && filter->dims[1] == w->kernel[0] &&
               filter->dims[2] == w->kernel[1] && filter->dims[3] == channels,
           t->err, ET_INVALID_PROGRAM, "the filter: expected %zu×%lu×%lu×%zu, got %s", n,
           (unsigned long)w->kernel[0], (unsigned long)w->kernel[1], channels,
           text_of(filter).text);
  return ET_OK;
}

static et_status check_channels(const task *t, size_t channels) {
  ET_TRY(check_rank(t, 0, 4));
  ET_CHECK(input_shape(t, 0)->dims[3] == channels, t->err, ET_INVALID_PROGRAM,
           "input 0: expected an image of %zu channels, got %s", channels,
           text_of(input_shape(t, 0)).text);
  return ET_OK;
}

static et_status infer_conv(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t out = (size_t)w->groups * w->group_outputs;
  ET_TRY(check_channels(t, (size_t)w->groups * w->group_inputs));
  ET_TRY(check_filter(t, out, w->group_inputs));
  ET_TRY(check_bias(t, out));
  return infer_windows(t, out);
}

// A group has one input channel; the depth multiplier is the number of its output channels.
static et_status infer_depthwise(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  ET_CHECK(w->group_outputs % w->group_inputs == 0, t->err, ET_INVALID_PROGRAM,
           "%lu output channels of a group are no multiple of its %lu input channels",
           (unsigned long)w->group_outputs, (unsigned long)w->group_inputs);
  const size_t out = (size_t)w->groups * (w->group_outputs / w->group_inputs);
  ET_TRY(check_channels(t, w->groups));
  ET_TRY(check_filter(t, 1, out));
  ET_TRY(check_bias(t, out));
  return infer_windows(t, out);
}

// One side of a transposed convolution's result.
static et_status infer_deconv_side(const task *t, unsigned side, size_t *out) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t before = w->padding[side == 0 ? 0 : 3], after = w->padding[side == 0 ? 2 : 1];
  const size_t reach = (size_t)(w->kernel[side] - 1) * w->dilation[side] + 1;
  size_t full = 0;
  ET_CHECK(eti_mul(input_shape(t, 0)->dims[1 + side] - 1, w->stride[side], &full) &&
               eti_add(full, reach + w->adjustment[side], &full) && full > before + after &&
               (w->adjustment[side] == 0 || w->adjustment[side] < w->stride[side] ||
                w->adjustment[side] < w->dilation[side]),
           t->err, ET_INVALID_PROGRAM,
           "a transposed window of %lu over an image of %zu with stride %lu, paddings %zu and %zu, "
           "adjustment %lu has no result of a possible size",
           (unsigned long)w->kernel[side], input_shape(t, 0)->dims[1 + side],
           (unsigned long)w->stride[side], before, after, (unsigned long)w->adjustment[side]);
  *out = full - before - after;
  return ET_OK;
}

static et_status infer_deconv(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  eti_xnn_shape out = {.rank = 4, .dims = {input_shape(t, 0)->dims[0]}};
  out.dims[3] = (size_t)w->groups * w->group_outputs;
  ET_TRY(check_channels(t, (size_t)w->groups * w->group_inputs));
  ET_TRY(check_filter(t, out.dims[3], w->group_inputs));
  ET_TRY(check_bias(t, out.dims[3]));
  ET_TRY(infer_deconv_side(t, 0, &out.dims[1]));
  ET_TRY(infer_deconv_side(t, 1, &out.dims[2]));
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_pool(const task *t) {
  return infer_windows(t, input_shape(t, 0)->rank == 4 ? input_shape(t, 0)->dims[3] : 0);
}

static et_status infer_arg_pool(const task *t) {
  ET_TRY(infer_pool(t));
  *output_shape(t, 1) = *output_shape(t, 0);
  return ET_OK;
}

static et_status infer_mean(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0);
  eti_xnn_shape out = {.rank = 4, .dims = {in->dims[0], 1, 1, in->dims[3]}};
  ET_TRY(check_rank(t, 0, 4));
  if ((t->node->flags & XNN_FLAG_KEEP_DIMS) == 0)
    out = (eti_xnn_shape){.rank = 2, .dims = {in->dims[0], in->dims[3]}};
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_resize(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0);
  const uint32_t limit = 1u << 24;  // positions are computed in fp32
  ET_TRY(check_rank(t, 0, 4));
  for (unsigned side = 0; side < 2; side++)
    ET_CHECK(
        t->node->p.size[side] >= 1 && t->node->p.size[side] < limit && in->dims[1 + side] < limit,
        t->err, ET_INVALID_PROGRAM,
        "expected an image and a result with sides of at least 1 and less than %lu, got %s and "
        "%lu × %lu",
        (unsigned long)limit, text_of(in).text, (unsigned long)t->node->p.size[0],
        (unsigned long)t->node->p.size[1]);
  eti_xnn_shape out = *in;
  out.dims[1] = t->node->p.size[0];
  out.dims[2] = t->node->p.size[1];
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_transpose(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0);
  const size_t n = t->node->p.dims.n, *order = t->node->p.dims.list;
  eti_xnn_shape out = {.rank = in->rank};
  unsigned seen = 0;
  ET_CHECK(n == in->rank && n >= 1, t->err, ET_INVALID_PROGRAM,
           "a permutation of %zu dimensions does not fit %s", n, text_of(in).text);
  for (size_t d = 0; d < n; d++) {
    ET_CHECK(order[d] < n && (seen >> order[d] & 1u) == 0, t->err, ET_INVALID_PROGRAM,
             "the permutation names dimension %zu, which does not exist or is named twice",
             order[d]);
    seen |= 1u << order[d];
    out.dims[d] = in->dims[order[d]];
  }
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_reshape(const task *t) {
  const size_t n = t->node->p.dims.n, *wanted = t->node->p.dims.list,
               total = eti_xnn_shape_count(input_shape(t, 0));
  eti_xnn_shape out = {.rank = (uint32_t)n};
  size_t product = 1, open = n;
  bool fits = true;
  for (size_t d = 0; d < n; d++) {
    out.dims[d] = wanted[d];
    if (wanted[d] == 0) {
      fits = fits && open == n;  // at most one
      open = d;
    } else {
      fits = fits && eti_mul(product, wanted[d], &product);
    }
  }
  if (fits && open < n) {
    fits = total % product == 0;
    out.dims[open] = total / product;
    product = total;
  }
  ET_CHECK(fits && product == total, t->err, ET_INVALID_PROGRAM, "%s cannot be reshaped to %s",
           text_of(input_shape(t, 0)).text, text_of(&out).text);
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_slice(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0);
  const size_t *begin = t->node->p.dims.list, *size = t->node->p.dims.more;
  eti_xnn_shape out = {.rank = in->rank};
  ET_CHECK(t->node->p.dims.n == in->rank && t->node->p.dims.n_more == in->rank && in->rank >= 1,
           t->err, ET_INVALID_PROGRAM, "%zu offsets and %zu sizes do not fit %s", t->node->p.dims.n,
           t->node->p.dims.n_more, text_of(in).text);
  for (uint32_t d = 0; d < in->rank; d++) {
    // Size 0 means the whole dimension to XNNPACK.
    ET_CHECK(size[d] == 0 ? begin[d] == 0 : eti_inside(begin[d], size[d], in->dims[d]), t->err,
             ET_INVALID_PROGRAM, "%zu elements from offset %zu are not in dimension %lu of %s",
             size[d], begin[d], (unsigned long)d, text_of(in).text);
    out.dims[d] = size[d] == 0 ? in->dims[d] : size[d];
  }
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_pad(const task *t) {
  const eti_xnn_shape *in = input_shape(t, 0);
  eti_xnn_shape out = {.rank = in->rank};
  ET_CHECK(t->node->p.dims.n == in->rank && t->node->p.dims.n_more == in->rank, t->err,
           ET_INVALID_PROGRAM, "%zu and %zu paddings do not fit %s", t->node->p.dims.n,
           t->node->p.dims.n_more, text_of(in).text);
  for (uint32_t d = 0; d < in->rank; d++) {
    size_t n = 0;
    ET_CHECK(eti_add(in->dims[d], t->node->p.dims.list[d], &n) &&
                 eti_add(n, t->node->p.dims.more[d], &n),
             t->err, ET_INVALID_PROGRAM, "dimension %lu with its paddings is too large",
             (unsigned long)d);
    out.dims[d] = n;
  }
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status infer_cat(const task *t) {
  eti_xnn_shape out = *input_shape(t, 0);
  const int64_t given = (int32_t)t->node->p.axis;
  const int64_t axis = given < 0 ? given + out.rank : given;
  ET_CHECK(axis >= 0 && axis < out.rank, t->err, ET_INVALID_PROGRAM,
           "expected an axis of shape %s, got %lld", text_of(&out).text, (long long)given);
  for (unsigned k = 1; k < t->node->n_inputs; k++) {
    const eti_xnn_shape *in = input_shape(t, k);
    bool fits = in->rank == out.rank;
    for (uint32_t d = 0; fits && d < out.rank; d++) fits = d == axis || in->dims[d] == out.dims[d];
    ET_CHECK(fits && eti_add(out.dims[axis], in->dims[axis], &out.dims[axis]), t->err,
             ET_INVALID_PROGRAM, "input %u: expected %s but for axis %lld, got %s", k,
             text_of(input_shape(t, 0)).text, (long long)axis, text_of(in).text);
  }
  *output_shape(t, 0) = out;
  return ET_OK;
}

static et_status (*const rules[XNN_FAMILY_COUNT])(const task *t) = {
    [XNN_FAMILY_UNARY] = infer_same,
    [XNN_FAMILY_BINARY] = infer_binary,
    [XNN_FAMILY_LINEAR] = infer_linear,
    [XNN_FAMILY_SOFTMAX] = infer_row_wise,
    [XNN_FAMILY_TRANSPOSE] = infer_transpose,
    [XNN_FAMILY_CONV] = infer_conv,
    [XNN_FAMILY_DEPTHWISE] = infer_depthwise,
    [XNN_FAMILY_DECONV] = infer_deconv,
    [XNN_FAMILY_RESIZE] = infer_resize,
    [XNN_FAMILY_PAD] = infer_pad,
    [XNN_FAMILY_AVG_POOL] = infer_pool,
    [XNN_FAMILY_MAX_POOL] = infer_pool,
    [XNN_FAMILY_ARG_MAX] = infer_arg_pool,
    [XNN_FAMILY_CONVERT] = infer_convert,
    [XNN_FAMILY_MEAN] = infer_mean,
    [XNN_FAMILY_RESHAPE] = infer_reshape,
    [XNN_FAMILY_CAT] = infer_cat,
    [XNN_FAMILY_SLICE] = infer_slice,
    [XNN_FAMILY_MATMUL] = infer_matmul,
    [XNN_FAMILY_COPY] = infer_same,
};

static et_status infer_node(const task *t) {
  ET_TRY(rules[eti_xnn_kind_of(t->node)->family](t));
  for (unsigned k = 0; k < t->node->n_outputs; k++) {
    const eti_xnn_value *v = &t->payload->values[t->node->outputs[k]];
    size_t bytes = 0;
    ET_CHECK(eti_xnn_shape_bytes(v->datatype, output_shape(t, k), &bytes), t->err,
             ET_INVALID_PROGRAM, "output %u would be %s, which is too large to address", k,
             text_of(output_shape(t, k)).text);
  }
  return ET_OK;
}

et_status eti_xnn_infer_shapes(const eti_xnn_payload *payload, eti_xnn_shape *shapes,
                               et_error *err) {
  for (size_t i = 0; i < payload->n_nodes; i++) {
    const task t = {payload, &payload->nodes[i], shapes, err};
    const et_status status = infer_node(&t);
    if (status != ET_OK) return eti_xnn_at_node(t.node, status, err);
  }
  return ET_OK;
}
