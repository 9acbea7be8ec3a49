// subgraph_values.c — defines values of the subgraph, and the conversions between them that nodes
// need. Every parameter has been proven, so XNNPACK refuses only what it lacks, or for want of
// memory.
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

#include <math.h>

// XNNPACK's numbers differ from the payload's where types were added to either later.
static enum xnn_datatype datatype_of(unsigned code) {
  switch (code) {
    case ETI_XNN_qbint4:
      return xnn_datatype_qbint4;
    case ETI_XNN_int32:  // indices: written by one node and then moved, for which XNNPACK has no
                         // int32
      return xnn_datatype_fp32;
    case ETI_XNN_bf16:
      return xnn_datatype_bf16;
    default:
      return (enum xnn_datatype)code;
  }
}
_Static_assert((int)ETI_XNN_fp32 == (int)xnn_datatype_fp32 &&
                   (int)ETI_XNN_qint32 == (int)xnn_datatype_qint32 &&
                   (int)ETI_XNN_qdint8 == (int)xnn_datatype_qdint8,
               "the first types have the same numbers");

typedef struct place {
  const eti_xnn_shape *shape;
  const void *data;
  uint32_t external_id, flags;
} place;

static et_status define(eti_xnn_builder *b, uint32_t value, const place *at, uint32_t *id) {
  const eti_xnn_value *v = &b->payload->values[value];
  const enum xnn_datatype type = datatype_of(v->datatype);
  const eti_xnn_shape *s = at->shape;
  const void *scales = NULL;
  enum xnn_status status;
  if (v->quantization == QUANT_CHANNEL || v->quantization == QUANT_GROUP)
    ET_TRY(eti_xnn_constant_scales(b, value, &scales));
  switch (v->quantization) {
    case QUANT_NONE:
      status = xnn_define_tensor_value(b->subgraph, type, s->rank, s->dims, at->data,
                                       at->external_id, at->flags, id);
      break;
    case QUANT_TENSOR:
      status =
          xnn_define_quantized_tensor_value(b->subgraph, type, v->zero_point, v->scale, s->rank,
                                            s->dims, at->data, at->external_id, at->flags, id);
      break;
    case QUANT_TOKEN:
      status = xnn_define_dynamically_quantized_tensor_value(
          b->subgraph, type, s->rank, v->n_nonbatch_dims, s->dims, at->external_id, at->flags, id);
      break;
    case QUANT_CHANNEL:
      status = xnn_define_channelwise_quantized_tensor_value_v2(
          b->subgraph, type, v->zero_point, scales, s->rank, v->channel_dim, s->dims, at->data,
          at->external_id, at->flags, id);
      break;
    default:
      status = xnn_define_blockwise_quantized_tensor_value(
          b->subgraph, type, v->zero_point, scales, s->rank, v->channel_dim, v->group_size, s->dims,
          at->data, at->external_id, at->flags, id);
      break;
  }
  if (status == xnn_status_success) return ET_OK;
  const et_status failure = eti_xnn_fail(status, b->err, "defining it");
  ET_CONTEXT(b->err, "value %lu (%s): ", (unsigned long)value, eti_xnn_datatype_name(v->datatype));
  return failure;
}

et_status eti_xnn_value_id(eti_xnn_builder *b, uint32_t value, uint32_t *id) {
  const eti_xnn_value *v = &b->payload->values[value];
  if (b->ids[value] == ETI_XNN_NONE) {
    place at = {.shape = &b->shapes[value],
                .external_id = v->external_id,
                .flags = (v->is_input ? XNN_VALUE_FLAG_EXTERNAL_INPUT : 0u) |
                         (v->is_output ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0u)};
    // What a node writes and nobody reads gets no memory from XNNPACK, unless it is to be kept.
    if (b->is_needed != NULL && !b->is_needed[value]) at.flags |= XNN_VALUE_FLAG_PERSISTENT;
    if (v->is_constant) ET_TRY(eti_xnn_constant_bytes(b, value, &at.data));
    ET_TRY(define(b, value, &at, &b->ids[value]));
  }
  *id = b->ids[value];
  return ET_OK;
}

et_status eti_xnn_temporary(eti_xnn_builder *b, uint32_t shape_of, uint32_t type_of, uint32_t *id) {
  const place at = {.shape = &b->shapes[shape_of], .external_id = XNN_INVALID_VALUE_ID};
  return define(b, type_of, &at, id);
}

static et_status define_floats(eti_xnn_builder *b, uint32_t shape_of, const void *data,
                               uint32_t *id) {
  const eti_xnn_shape *s = &b->shapes[shape_of];
  const enum xnn_status status = xnn_define_tensor_value(
      b->subgraph, xnn_datatype_fp32, s->rank, s->dims, data, XNN_INVALID_VALUE_ID, 0, id);
  return status == xnn_status_success ? ET_OK
                                      : eti_xnn_fail(status, b->err, "defining an fp32 value");
}

et_status eti_xnn_float_temporary(eti_xnn_builder *b, uint32_t shape_of, uint32_t *id) {
  return define_floats(b, shape_of, NULL, id);
}

et_status eti_xnn_float_id(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t value,
                           uint32_t *id) {
  const eti_xnn_value *v = &b->payload->values[value];
  if (v->datatype == ETI_XNN_fp32) return eti_xnn_value_id(b, value, id);
  if (b->float_ids[value] == ETI_XNN_NONE) {
    uint32_t given = 0, wide = 0;
    const void *data = NULL;
    const bool is_expanded =
        v->is_constant && (v->datatype == ETI_XNN_bf16 || v->datatype == ETI_XNN_fp16);
    if (is_expanded) {
      ET_TRY(eti_xnn_constant_floats(b, value, &data));
    } else {
      ET_TRY(eti_xnn_value_id(b, value, &given));
    }
    ET_TRY(define_floats(b, value, data, &wide));
    if (!is_expanded) ET_TRY(eti_xnn_convert(b, node, given, wide));
    b->float_ids[value] = wide;
  }
  *id = b->float_ids[value];
  return ET_OK;
}

et_status eti_xnn_defined(eti_xnn_builder *b, const eti_xnn_node *node, enum xnn_status status) {
  if (status != xnn_status_success)
    return eti_xnn_fail(status, b->err, "defining it, or a part of it,");
  ET_ASSERT(b->n_defined < b->room);
  b->origins[b->n_defined++] = node->index;
  return ET_OK;
}

et_status eti_xnn_convert(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t from,
                          uint32_t to) {
  return eti_xnn_defined(b, node,
                         xnn_define_unary(b->subgraph, xnn_unary_convert, NULL, from, to, 0));
}
