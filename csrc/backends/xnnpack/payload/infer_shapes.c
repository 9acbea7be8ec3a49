// infer_shapes.c — computes the shape of every value from those of the inputs, node by node, and
// refuses what does not fit. XNNPACK computes the same when it reshapes, but trusts the operands:
// an input with other channels than the filter, a window larger than its image would be read out of
// bounds. So this is run for the shapes a graph is built with, and again for every new ones.
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

static const eti_xnn_shape *input(const task *t, unsigned k) {
  return &t->shapes[t->node->inputs[k]];
}

static eti_xnn_shape *output(const task *t, unsigned k) {
  return &t->shapes[t->node->outputs[k]];
}

// "2×3×4" of a shape for a message.
typedef struct shape_text {
  char text[XNN_MAX_TENSOR_DIMS * 24 + 8];
} shape_text;

static shape_text words(const eti_xnn_shape *shape) {
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
  ET_CHECK(input(t, k)->rank == rank, t->err, ET_INVALID_PROGRAM,
           "input %u is %s, needs %lu dimensions", k, words(input(t, k)).text, (unsigned long)rank);
  return ET_OK;
}

// ---- One function per kind of shape rule

static et_status same(const task *t) {
  *output(t, 0) = *input(t, 0);
  return ET_OK;
}

// Normalises along the last dimension.
static et_status rows(const task *t) {
  ET_CHECK(input(t, 0)->rank >= 1, t->err, ET_INVALID_PROGRAM, "input 0 is a scalar");
  return same(t);
}

static et_status convert(const task *t) {
  const eti_xnn_value *out = &t->payload->values[t->node->outputs[0]];
  ET_CHECK(out->quantization != QUANT_TOKEN || out->n_nonbatch_dims <= input(t, 0)->rank, t->err,
           ET_INVALID_PROGRAM, "scales over %lu dimensions of %s",
           (unsigned long)out->n_nonbatch_dims, words(input(t, 0)).text);
  return same(t);
}

// Dimensions of a and b, aligned at their ends, up to the last `n_rest` ones; 1 stretches.
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

static et_status binary(const task *t) {
  eti_xnn_shape out = {0};
  ET_CHECK(broadcast(input(t, 0), input(t, 1), 0, &out), t->err, ET_INVALID_PROGRAM,
           "%s and %s do not broadcast", words(input(t, 0)).text, words(input(t, 1)).text);
  *output(t, 0) = out;
  return ET_OK;
}

static et_status check_bias(const task *t, size_t channels) {
  if (t->node->n_inputs < 3) return ET_OK;
  const eti_xnn_shape *bias = input(t, 2);
  ET_CHECK(bias->rank == 1 && bias->dims[0] == channels, t->err, ET_INVALID_PROGRAM,
           "the bias is %s, needs %zu", words(bias).text, channels);
  return ET_OK;
}

static et_status linear(const task *t) {
  const eti_xnn_shape *in = input(t, 0), *filter = input(t, 1);
  const bool is_transposed = (t->node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  ET_TRY(check_rank(t, 1, 2));
  const size_t columns = filter->dims[is_transposed ? 0 : 1];
  const size_t channels = filter->dims[is_transposed ? 1 : 0];
  ET_CHECK(in->rank >= 1 && in->dims[in->rank - 1] == columns, t->err, ET_INVALID_PROGRAM,
           "input 0 is %s, the filter %s multiplies rows of %zu", words(in).text,
           words(filter).text, columns);
  ET_TRY(check_bias(t, channels));
  eti_xnn_shape out = *in;
  out.dims[out.rank - 1] = channels;
  *output(t, 0) = out;
  return ET_OK;
}

static et_status matmul(const task *t) {
  const eti_xnn_shape *a = input(t, 0), *b = input(t, 1);
  ET_CHECK(a->rank >= 2 && b->rank >= 2, t->err, ET_INVALID_PROGRAM, "%s and %s are no matrices",
           words(a).text, words(b).text);
  const bool is_transposed = (t->node->flags & XNN_FLAG_TRANSPOSE_B) != 0;
  const size_t inner = b->dims[b->rank - (is_transposed ? 1u : 2u)];
  const size_t columns = b->dims[b->rank - (is_transposed ? 2u : 1u)];
  eti_xnn_shape out = {0};
  ET_CHECK(a->dims[a->rank - 1] == inner && broadcast(a, b, 2, &out), t->err, ET_INVALID_PROGRAM,
           "%s and %s%s cannot be multiplied", words(a).text, is_transposed ? "transposed " : "",
           words(b).text);
  out.dims[out.rank - 2] = a->dims[a->rank - 2];
  out.dims[out.rank - 1] = columns;
  *output(t, 0) = out;
  return ET_OK;
}

// Positions of a window along one side of an image, at least one of which must fit.
static et_status slide(const task *t, unsigned side, size_t *out) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t before = w->padding[side == 0 ? 0 : 3], after = w->padding[side == 0 ? 2 : 1];
  const size_t image = input(t, 0)->dims[1 + side], padded = before + image + after;
  const size_t reach = (size_t)(w->kernel[side] - 1) * w->dilation[side] + 1;
  ET_CHECK(reach <= padded, t->err, ET_INVALID_PROGRAM,
           "a window of %zu is larger than the padded image of %zu", reach, padded);
  *out = (padded - reach) / w->stride[side] + 1;
  // A pooling's windows each cover a part of the image itself; a convolution's may be all zeros.
  ET_CHECK(
      t->node->n_inputs > 1 || (before < reach && (*out - 1) * w->stride[side] < before + image),
      t->err, ET_INVALID_PROGRAM,
      "paddings of %zu and %zu leave windows of %zu without a part of the image of %zu", before,
      after, reach, image);
  return ET_OK;
}

// Windows over an NHWC image; XNNPACK keeps a pointer for each of their elements.
static et_status windows(const task *t, size_t channels) {
  const eti_xnn_window *w = &t->node->p.window;
  eti_xnn_shape out = {.rank = 4};
  size_t pointers = 0;
  ET_TRY(check_rank(t, 0, 4));
  out.dims[0] = input(t, 0)->dims[0];
  ET_TRY(slide(t, 0, &out.dims[1]));
  ET_TRY(slide(t, 1, &out.dims[2]));
  out.dims[3] = channels;
  ET_CHECK(eti_mul(out.dims[1], out.dims[2], &pointers) &&
               eti_mul(pointers, (size_t)w->kernel[0] * w->kernel[1], &pointers) &&
               eti_mul(pointers, 64, &pointers) && pointers <= SIZE_MAX >> 16,
           t->err, ET_INVALID_PROGRAM, "a window of %lu × %lu at %zu × %zu places is too much",
           (unsigned long)w->kernel[0], (unsigned long)w->kernel[1], out.dims[1], out.dims[2]);
  *output(t, 0) = out;
  return ET_OK;
}

static et_status check_filter(const task *t, size_t n, size_t channels) {
  const eti_xnn_shape *filter = input(t, 1);
  const eti_xnn_window *w = &t->node->p.window;
  ET_CHECK(filter->rank == 4 && filter->dims[0] == n && filter->dims[1] == w->kernel[0] &&
               filter->dims[2] == w->kernel[1] && filter->dims[3] == channels,
           t->err, ET_INVALID_PROGRAM, "the filter is %s, needs %zu×%lu×%lu×%zu",
           words(filter).text, n, (unsigned long)w->kernel[0], (unsigned long)w->kernel[1],
           channels);
  return ET_OK;
}

static et_status check_channels(const task *t, size_t channels) {
  ET_TRY(check_rank(t, 0, 4));
  ET_CHECK(input(t, 0)->dims[3] == channels, t->err, ET_INVALID_PROGRAM,
           "the image is %s, needs %zu channels at the end", words(input(t, 0)).text, channels);
  return ET_OK;
}

static et_status conv(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t out = (size_t)w->groups * w->group_outputs;
  ET_TRY(check_channels(t, (size_t)w->groups * w->group_inputs));
  ET_TRY(check_filter(t, out, w->group_inputs));
  ET_TRY(check_bias(t, out));
  return windows(t, out);
}

// One input channel a group; the multiplier is the number of outputs for each.
static et_status depthwise(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  ET_CHECK(w->group_outputs % w->group_inputs == 0, t->err, ET_INVALID_PROGRAM,
           "%lu output channels for %lu input channels of a group", (unsigned long)w->group_outputs,
           (unsigned long)w->group_inputs);
  const size_t out = (size_t)w->groups * (w->group_outputs / w->group_inputs);
  ET_TRY(check_channels(t, w->groups));
  ET_TRY(check_filter(t, 1, out));
  ET_TRY(check_bias(t, out));
  return windows(t, out);
}

static et_status unslide(const task *t, unsigned side, size_t *out) {
  const eti_xnn_window *w = &t->node->p.window;
  const size_t before = w->padding[side == 0 ? 0 : 3], after = w->padding[side == 0 ? 2 : 1];
  const size_t reach = (size_t)(w->kernel[side] - 1) * w->dilation[side] + 1;
  size_t full = 0;
  ET_CHECK(eti_mul(input(t, 0)->dims[1 + side] - 1, w->stride[side], &full) &&
               eti_add(full, reach + w->adjustment[side], &full) && full > before + after &&
               (w->adjustment[side] == 0 || w->adjustment[side] < w->stride[side] ||
                w->adjustment[side] < w->dilation[side]),
           t->err, ET_INVALID_PROGRAM,
           "an image of %zu with kernel %lu, stride %lu, paddings %zu and %zu, adjustment %lu "
           "leaves nothing, or more than there is",
           input(t, 0)->dims[1 + side], (unsigned long)w->kernel[side],
           (unsigned long)w->stride[side], before, after, (unsigned long)w->adjustment[side]);
  *out = full - before - after;
  return ET_OK;
}

static et_status deconv(const task *t) {
  const eti_xnn_window *w = &t->node->p.window;
  eti_xnn_shape out = {.rank = 4, .dims = {input(t, 0)->dims[0]}};
  out.dims[3] = (size_t)w->groups * w->group_outputs;
  ET_TRY(check_channels(t, (size_t)w->groups * w->group_inputs));
  ET_TRY(check_filter(t, out.dims[3], w->group_inputs));
  ET_TRY(check_bias(t, out.dims[3]));
  ET_TRY(unslide(t, 0, &out.dims[1]));
  ET_TRY(unslide(t, 1, &out.dims[2]));
  *output(t, 0) = out;
  return ET_OK;
}

static et_status pool(const task *t) {
  return windows(t, input(t, 0)->rank == 4 ? input(t, 0)->dims[3] : 0);
}

static et_status arg_pool(const task *t) {
  ET_TRY(pool(t));
  *output(t, 1) = *output(t, 0);
  return ET_OK;
}

static et_status mean(const task *t) {
  const eti_xnn_shape *in = input(t, 0);
  eti_xnn_shape out = {.rank = 4, .dims = {in->dims[0], 1, 1, in->dims[3]}};
  ET_TRY(check_rank(t, 0, 4));
  if ((t->node->flags & XNN_FLAG_KEEP_DIMS) == 0)
    out = (eti_xnn_shape){.rank = 2, .dims = {in->dims[0], in->dims[3]}};
  *output(t, 0) = out;
  return ET_OK;
}

static et_status resize(const task *t) {
  const eti_xnn_shape *in = input(t, 0);
  const uint32_t most = 1u << 24;  // positions are computed in fp32
  ET_TRY(check_rank(t, 0, 4));
  for (unsigned side = 0; side < 2; side++)
    ET_CHECK(
        t->node->p.size[side] >= 1 && t->node->p.size[side] < most && in->dims[1 + side] < most,
        t->err, ET_INVALID_PROGRAM, "%s resized to %lu × %lu", words(in).text,
        (unsigned long)t->node->p.size[0], (unsigned long)t->node->p.size[1]);
  eti_xnn_shape out = *in;
  out.dims[1] = t->node->p.size[0];
  out.dims[2] = t->node->p.size[1];
  *output(t, 0) = out;
  return ET_OK;
}

static et_status transpose(const task *t) {
  const eti_xnn_shape *in = input(t, 0);
  const size_t n = t->node->p.dims.n, *order = t->node->p.dims.list;
  eti_xnn_shape out = {.rank = in->rank};
  unsigned seen = 0;
  ET_CHECK(n == in->rank && n >= 1, t->err, ET_INVALID_PROGRAM, "an order of %zu dimensions for %s",
           n, words(in).text);
  for (size_t d = 0; d < n; d++) {
    ET_CHECK(order[d] < n && (seen >> order[d] & 1u) == 0, t->err, ET_INVALID_PROGRAM,
             "the order names dimension %zu, which is not there or named twice", order[d]);
    seen |= 1u << order[d];
    out.dims[d] = in->dims[order[d]];
  }
  *output(t, 0) = out;
  return ET_OK;
}

static et_status reshape(const task *t) {
  const size_t n = t->node->p.dims.n, *wanted = t->node->p.dims.list,
               total = eti_xnn_shape_count(input(t, 0));
  eti_xnn_shape out = {.rank = (uint32_t)n};
  size_t product = 1, open = n;
  bool fits = true;
  for (size_t d = 0; d < n; d++) {
    out.dims[d] = wanted[d];
    if (wanted[d] == 0) {
      fits = fits && open == n;  // one at most
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
  ET_CHECK(fits && product == total, t->err, ET_INVALID_PROGRAM, "%s cannot become %s",
           words(input(t, 0)).text, words(&out).text);
  *output(t, 0) = out;
  return ET_OK;
}

static et_status slice(const task *t) {
  const eti_xnn_shape *in = input(t, 0);
  const size_t *begin = t->node->p.dims.list, *size = t->node->p.dims.more;
  eti_xnn_shape out = {.rank = in->rank};
  ET_CHECK(t->node->p.dims.n == in->rank && t->node->p.dims.n_more == in->rank && in->rank >= 1,
           t->err, ET_INVALID_PROGRAM, "%zu offsets and %zu sizes for %s", t->node->p.dims.n,
           t->node->p.dims.n_more, words(in).text);
  for (uint32_t d = 0; d < in->rank; d++) {
    // XNNPACK takes a size of 0 for the whole dimension.
    ET_CHECK(size[d] == 0 ? begin[d] == 0 : eti_inside(begin[d], size[d], in->dims[d]), t->err,
             ET_INVALID_PROGRAM, "%zu from %zu on along dimension %lu of %s", size[d], begin[d],
             (unsigned long)d, words(in).text);
    out.dims[d] = size[d] == 0 ? in->dims[d] : size[d];
  }
  *output(t, 0) = out;
  return ET_OK;
}

static et_status pad(const task *t) {
  const eti_xnn_shape *in = input(t, 0);
  eti_xnn_shape out = {.rank = in->rank};
  ET_CHECK(t->node->p.dims.n == in->rank && t->node->p.dims.n_more == in->rank, t->err,
           ET_INVALID_PROGRAM, "%zu and %zu paddings for %s", t->node->p.dims.n,
           t->node->p.dims.n_more, words(in).text);
  for (uint32_t d = 0; d < in->rank; d++) {
    size_t n = 0;
    ET_CHECK(eti_add(in->dims[d], t->node->p.dims.list[d], &n) &&
                 eti_add(n, t->node->p.dims.more[d], &n),
             t->err, ET_INVALID_PROGRAM, "paddings too large to add");
    out.dims[d] = n;
  }
  *output(t, 0) = out;
  return ET_OK;
}

static et_status cat(const task *t) {
  eti_xnn_shape out = *input(t, 0);
  const int64_t given = (int32_t)t->node->p.axis;
  const int64_t axis = given < 0 ? given + out.rank : given;
  ET_CHECK(axis >= 0 && axis < out.rank, t->err, ET_INVALID_PROGRAM, "axis %lld of %s",
           (long long)given, words(&out).text);
  for (unsigned k = 1; k < t->node->n_inputs; k++) {
    const eti_xnn_shape *in = input(t, k);
    bool fits = in->rank == out.rank;
    for (uint32_t d = 0; fits && d < out.rank; d++) fits = d == axis || in->dims[d] == out.dims[d];
    ET_CHECK(fits && eti_add(out.dims[axis], in->dims[axis], &out.dims[axis]), t->err,
             ET_INVALID_PROGRAM, "input %u is %s, which does not fit %s but along axis %lld", k,
             words(in).text, words(input(t, 0)).text, (long long)axis);
  }
  *output(t, 0) = out;
  return ET_OK;
}

static et_status (*const rules[XNN_FAMILY_COUNT])(const task *t) = {
    [XNN_FAMILY_UNARY] = same,
    [XNN_FAMILY_BINARY] = binary,
    [XNN_FAMILY_LINEAR] = linear,
    [XNN_FAMILY_SOFTMAX] = rows,
    [XNN_FAMILY_TRANSPOSE] = transpose,
    [XNN_FAMILY_CONV] = conv,
    [XNN_FAMILY_DEPTHWISE] = depthwise,
    [XNN_FAMILY_DECONV] = deconv,
    [XNN_FAMILY_RESIZE] = resize,
    [XNN_FAMILY_PAD] = pad,
    [XNN_FAMILY_AVG_POOL] = pool,
    [XNN_FAMILY_MAX_POOL] = pool,
    [XNN_FAMILY_ARG_MAX] = arg_pool,
    [XNN_FAMILY_CONVERT] = convert,
    [XNN_FAMILY_MEAN] = mean,
    [XNN_FAMILY_RESHAPE] = reshape,
    [XNN_FAMILY_CAT] = cat,
    [XNN_FAMILY_SLICE] = slice,
    [XNN_FAMILY_MATMUL] = matmul,
    [XNN_FAMILY_COPY] = same,
};

static et_status infer_node(const task *t) {
  ET_TRY(rules[eti_xnn_kind_of(t->node)->family](t));
  for (unsigned k = 0; k < t->node->n_outputs; k++) {
    const eti_xnn_value *v = &t->payload->values[t->node->outputs[k]];
    size_t bytes = 0;
    ET_CHECK(eti_xnn_shape_bytes(v->datatype, output(t, k), &bytes), t->err, ET_INVALID_PROGRAM,
             "output %u would be %s, which is too large to address", k, words(output(t, k)).text);
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
