// check_types.c — checks the element types of each node's operands, by the rules that XNNPACK
// states or silently relies on: weights that it packs are constants, operands whose kernels read a
// scale per row have a scale per row. bf16 operands count as fp32, in which they are computed.
#include "backends/xnnpack/payload/payload.h"
#include "runtime/check.h"

#define TYPE_BIT(type) (1u << ETI_XNN_##type)
#define FLOATS (TYPE_BIT(fp32) | TYPE_BIT(fp16))
#define QUANTIZED (TYPE_BIT(qint8) | TYPE_BIT(quint8))
#define MOVED (FLOATS | QUANTIZED | TYPE_BIT(int32))  // int32: positions of ArgMaxPooling2d

typedef struct rule {
  uint32_t types;  // all operands have the same one of these; 0: a function checks them
  uint32_t flags;  // that are allowed
} rule;

static const rule rules[XNN_FAMILY_COUNT] = {
    [XNN_FAMILY_UNARY] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_BINARY] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_SOFTMAX] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_TRANSPOSE] = {MOVED, 0},
    [XNN_FAMILY_RESHAPE] = {MOVED, 0},
    [XNN_FAMILY_COPY] = {MOVED, 0},
    [XNN_FAMILY_SLICE] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_PAD] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_CAT] = {FLOATS | QUANTIZED, 0},
    [XNN_FAMILY_RESIZE] = {FLOATS | QUANTIZED, XNN_FLAG_ALIGN_CORNERS},
    [XNN_FAMILY_MAX_POOL] = {FLOATS | QUANTIZED, XNN_FLAG_KEEP_DIMS},
    [XNN_FAMILY_AVG_POOL] = {FLOATS | QUANTIZED, XNN_FLAG_KEEP_DIMS},
    [XNN_FAMILY_ARG_MAX] = {TYPE_BIT(fp32), XNN_FLAG_KEEP_DIMS},
    [XNN_FAMILY_MEAN] = {FLOATS | QUANTIZED, XNN_FLAG_KEEP_DIMS},
    [XNN_FAMILY_CONVERT] = {0, 0},
    [XNN_FAMILY_LINEAR] = {0, XNN_FLAG_TRANSPOSE_WEIGHTS},
    [XNN_FAMILY_CONV] = {0, 0},
    [XNN_FAMILY_DEPTHWISE] = {0, 0},
    [XNN_FAMILY_DECONV] = {0, 0},
    [XNN_FAMILY_MATMUL] = {0, XNN_FLAG_TRANSPOSE_B},
};

// The types of a node with weights, and the families for which XNNPACK has kernels of these.
typedef struct weighted_types {
  uint8_t input, filter, bias, output;
  uint32_t families;
} weighted_types;

#define FAMILY_BIT(family) (1u << XNN_FAMILY_##family)
#define ALL_CONVS (FAMILY_BIT(CONV) | FAMILY_BIT(DEPTHWISE) | FAMILY_BIT(DECONV))
#define WEIGHTED(input, filter, bias, output, families) \
  {ETI_XNN_##input, ETI_XNN_##filter, ETI_XNN_##bias, ETI_XNN_##output, families}

static const weighted_types weighted[] = {
    WEIGHTED(fp32, fp32, fp32, fp32, ALL_CONVS | FAMILY_BIT(LINEAR)),
    WEIGHTED(fp16, fp32, fp32, fp16, ALL_CONVS | FAMILY_BIT(LINEAR)),
    WEIGHTED(fp32, qcint8, fp32, fp32, FAMILY_BIT(LINEAR)),
    WEIGHTED(fp32, qcint4, fp32, fp32, FAMILY_BIT(LINEAR)),
    WEIGHTED(qint8, qint8, qint32, qint8, ALL_CONVS | FAMILY_BIT(LINEAR)),
    WEIGHTED(qint8, qcint8, qcint32, qint8, ALL_CONVS | FAMILY_BIT(LINEAR)),
    WEIGHTED(quint8, quint8, qint32, quint8, ALL_CONVS | FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qcint8, fp32, fp32,
             FAMILY_BIT(CONV) | FAMILY_BIT(DECONV) | FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qcint8, fp32, fp16, FAMILY_BIT(CONV) | FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qcint4, fp32, fp32, FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qcint4, fp32, fp16, FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qbint4, fp32, fp32, FAMILY_BIT(LINEAR)),
    WEIGHTED(qdint8, qbint4, fp32, fp16, FAMILY_BIT(LINEAR)),
};

static unsigned computed_type(const eti_xnn_value *v) {
  return v->datatype == ETI_XNN_bf16 ? ETI_XNN_fp32 : v->datatype;
}

// Constant weights of bf16 or fp16 are packed from fp32, to which they are widened exactly.
static unsigned weight_type(const eti_xnn_value *v) {
  const bool is_widened =
      v->datatype == ETI_XNN_bf16 || (v->datatype == ETI_XNN_fp16 && v->is_constant);
  return is_widened ? ETI_XNN_fp32 : v->datatype;
}

static et_status check_one_type(const eti_xnn_payload *payload, const eti_xnn_node *node,
                                uint32_t types, et_error *err) {
  const unsigned first = computed_type(&payload->values[node->inputs[0]]);
  ET_CHECK((types >> first & 1u) != 0, err, ET_NOT_SUPPORTED,
           "input 0: value %lu is %s, which this kind of node does not support",
           (unsigned long)node->inputs[0], eti_xnn_datatype_name(first));
  for (unsigned k = 1; k < node->n_inputs; k++) {
    const unsigned found = computed_type(&payload->values[node->inputs[k]]);
    ET_CHECK(found == first, err, ET_NOT_SUPPORTED, "input %u: expected %s as of input 0, got %s",
             k, eti_xnn_datatype_name(first), eti_xnn_datatype_name(found));
  }
  for (unsigned k = 0; k < node->n_outputs; k++) {
    const eti_xnn_value *out = &payload->values[node->outputs[k]];
    const unsigned found = computed_type(out);
    // Output 1 holds positions, which have four bytes in either type.
    const bool fits =
        k == 1 ? out->datatype == ETI_XNN_fp32 || out->datatype == ETI_XNN_int32 : found == first;
    ET_CHECK(fits, err, ET_NOT_SUPPORTED, "output %u: expected %s as of input 0, got %s", k,
             eti_xnn_datatype_name(first), eti_xnn_datatype_name(found));
  }
  return ET_OK;
}

// XNNPACK multiplies by the quotient of the scales in 16 bits and does not check that it fits.
static et_status check_rescale(const eti_xnn_value *in, const eti_xnn_value *out, et_error *err) {
  if (in->quantization != QUANT_TENSOR || out->quantization != QUANT_TENSOR) return ET_OK;
  const float quotient = in->scale / out->scale;
  ET_CHECK(quotient >= 0x1p-8f && quotient <= 0x1p7f, err, ET_NOT_SUPPORTED,
           "requantization: expected a quotient of 1/256 to 128 of the scales, got %g / %g",
           (double)in->scale, (double)out->scale);
  return ET_OK;
}

// Families that move elements. Inputs of another scale are converted first.
#define MOVES                                                                           \
  (FAMILY_BIT(TRANSPOSE) | FAMILY_BIT(RESHAPE) | FAMILY_BIT(COPY) | FAMILY_BIT(SLICE) | \
   FAMILY_BIT(PAD) | FAMILY_BIT(CAT) | FAMILY_BIT(RESIZE) | FAMILY_BIT(MAX_POOL))

static et_status check_input_scales(const eti_xnn_payload *payload, const eti_xnn_node *node,
                                    et_error *err) {
  if ((MOVES >> eti_xnn_kind_of(node)->family & 1u) == 0) return ET_OK;
  for (unsigned k = 0; k < node->n_inputs; k++)
    ET_TRY(
        check_rescale(&payload->values[node->inputs[k]], &payload->values[node->outputs[0]], err));
  return ET_OK;
}

static et_status check_convert(const eti_xnn_value *in, const eti_xnn_value *out, et_error *err) {
  const bool is_dynamic = out->datatype == ETI_XNN_qdint8;
  const unsigned from = computed_type(in);
  ET_CHECK(from != ETI_XNN_int32 && out->datatype != ETI_XNN_int32 &&
               eti_xnn_is_activation(in->datatype) &&
               (eti_xnn_is_activation(out->datatype) || is_dynamic) &&
               (!is_dynamic || from == ETI_XNN_fp32 || from == ETI_XNN_fp16),
           err, ET_NOT_SUPPORTED, "no conversion from %s to %s is supported",
           eti_xnn_datatype_name(in->datatype), eti_xnn_datatype_name(out->datatype));
  return check_rescale(in, out, err);
}

static et_status check_matmul(const eti_xnn_payload *payload, const eti_xnn_node *node,
                              et_error *err) {
  const eti_xnn_value *a = &payload->values[node->inputs[0]],
                      *b = &payload->values[node->inputs[1]];
  const unsigned left = computed_type(a), right = computed_type(b);
  const unsigned out = computed_type(&payload->values[node->outputs[0]]);
  const bool is_float =
      left == right && left == out && (left == ETI_XNN_fp32 || left == ETI_XNN_fp16);
  const bool is_dynamic =
      left == ETI_XNN_qdint8 && right == ETI_XNN_qcint8 && b->is_constant && out == ETI_XNN_fp32;
  ET_CHECK(is_float || is_dynamic, err, ET_NOT_SUPPORTED,
           "no product of %s and %s%s with result %s is supported", eti_xnn_datatype_name(left),
           b->is_constant ? "constant " : "", eti_xnn_datatype_name(right),
           eti_xnn_datatype_name(out));
  const uint32_t channel_dim =
      b->shape.rank - ((node->flags & XNN_FLAG_TRANSPOSE_B) != 0 ? 2u : 1u);
  ET_CHECK(!is_dynamic ||
               (a->n_nonbatch_dims == 1 && b->shape.rank == 2 && b->channel_dim == channel_dim),
           err, ET_NOT_SUPPORTED,
           "a dynamically quantized product: expected scales over 1 dimension of input 0 and along "
           "dimension %d of a matrix, input 1, got %lu dimensions and dimension %lu of rank %lu",
           (node->flags & XNN_FLAG_TRANSPOSE_B) != 0 ? 0 : 1, (unsigned long)a->n_nonbatch_dims,
           (unsigned long)b->channel_dim, (unsigned long)b->shape.rank);
  return ET_OK;
}

// Checks that the scales of the input and the filter have the dimensions that XNNPACK's kernels
// read.
static et_status check_scales(const eti_xnn_value *in, const eti_xnn_value *filter,
                              const eti_xnn_node *node, et_error *err) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool is_transposed = family == XNN_FAMILY_LINEAR && node->flags != 0;
  const uint32_t channel_dim = is_transposed ? 1 : family == XNN_FAMILY_DEPTHWISE ? 3 : 0;
  const uint32_t n_nonbatch = family == XNN_FAMILY_LINEAR ? 1 : 3;
  ET_CHECK(in->datatype != ETI_XNN_qdint8 || in->n_nonbatch_dims == n_nonbatch, err,
           ET_INVALID_PROGRAM, "input 0: expected scales over %lu dimensions, got %lu",
           (unsigned long)n_nonbatch, (unsigned long)in->n_nonbatch_dims);
  ET_CHECK(filter->quantization != QUANT_CHANNEL || filter->channel_dim == channel_dim, err,
           ET_INVALID_PROGRAM, "the filter: expected scales along dimension %lu, got %lu",
           (unsigned long)channel_dim, (unsigned long)filter->channel_dim);
  ET_CHECK(filter->datatype != ETI_XNN_qint8 || filter->zero_point == 0, err, ET_INVALID_PROGRAM,
           "the filter: expected zero point 0, got %ld", (long)filter->zero_point);
  ET_CHECK(!is_transposed || eti_xnn_datatype_bits(filter->datatype) != 4, err, ET_NOT_SUPPORTED,
           "a transposed 4-bit filter is not supported");
  return ET_OK;
}

static et_status check_weighted(const eti_xnn_payload *payload, const eti_xnn_node *node,
                                et_error *err) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const eti_xnn_value *in = &payload->values[node->inputs[0]],
                      *filter = &payload->values[node->inputs[1]],
                      *bias = node->n_inputs > 2 ? &payload->values[node->inputs[2]] : NULL,
                      *out = &payload->values[node->outputs[0]];
  const bool may_be_computed = family == XNN_FAMILY_LINEAR && (filter->datatype == ETI_XNN_fp32 ||
                                                               filter->datatype == ETI_XNN_bf16);
  ET_CHECK(filter->is_constant || may_be_computed, err, ET_NOT_SUPPORTED,
           "the filter: value %lu of %s is not constant", (unsigned long)node->inputs[1],
           eti_xnn_datatype_name(filter->datatype));
  ET_CHECK(bias == NULL || bias->is_constant || may_be_computed, err, ET_NOT_SUPPORTED,
           "the bias: value %lu is not constant", (unsigned long)node->inputs[2]);
  for (size_t k = 0; k < sizeof weighted / sizeof *weighted; k++) {
    const weighted_types *w = &weighted[k];
    if ((w->families >> family & 1u) != 0 && w->input == computed_type(in) &&
        w->filter == weight_type(filter) && (bias == NULL || w->bias == weight_type(bias)) &&
        w->output == computed_type(out))
      return check_scales(in, filter, node, err);
  }
  return ET_FAIL(err, ET_NOT_SUPPORTED,
                 "XNNPACK has no kernel for input %s, filter %s, bias %s, output %s",
                 eti_xnn_datatype_name(in->datatype), eti_xnn_datatype_name(filter->datatype),
                 bias == NULL ? "none" : eti_xnn_datatype_name(bias->datatype),
                 eti_xnn_datatype_name(out->datatype));
}

static et_status check_node(const eti_xnn_payload *payload, const eti_xnn_node *node,
                            et_error *err) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const rule *r = &rules[family];
  ET_CHECK((node->flags & ~r->flags) == 0, err, ET_NOT_SUPPORTED,
           "flags: expected a subset of 0x%lx, got 0x%lx", (unsigned long)r->flags,
           (unsigned long)node->flags);
  if (r->types != 0) {
    ET_TRY(check_one_type(payload, node, r->types, err));
    return check_input_scales(payload, node, err);
  }
  if (family == XNN_FAMILY_MATMUL) return check_matmul(payload, node, err);
  if (family == XNN_FAMILY_CONVERT)
    return check_convert(&payload->values[node->inputs[0]], &payload->values[node->outputs[0]],
                         err);
  return check_weighted(payload, node, err);
}

et_status eti_xnn_check_types(const eti_xnn_payload *payload, et_error *err) {
  for (size_t i = 0; i < payload->n_nodes; i++) {
    const et_status status = check_node(payload, &payload->nodes[i], err);
    if (status != ET_OK) return eti_xnn_at_node(&payload->nodes[i], status, err);
  }
  return ET_OK;
}
