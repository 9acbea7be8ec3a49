// subgraph_values.c — defines values of the subgraph, and the conversions between them. Every
// parameter has been checked, so XNNPACK refuses only types that it lacks, or runs out of memory.
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

#include <math.h>

// The codes of types differ where types were added later to the payload or to XNNPACK.
static enum xnn_datatype datatype_of(unsigned code) {
  switch (code) {
    case ETI_XNN_qbint4:
      return xnn_datatype_qbint4;
    case ETI_XNN_int32:  // positions: XNNPACK has no int32 and moves them as fp32
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
               "the first types have the same codes");

// The arguments of a value's definition beside its type and parameters.
typedef struct definition {
  const eti_xnn_shape *shape;
  const void *data;
  uint32_t external_id, flags;
} definition;

static et_status define_value(eti_xnn_builder *b, uint32_t value, const definition *at,
                              uint32_t *id) {
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
  const et_status failure = eti_xnn_check(status, b->err, "defining the value");
  ET_CONTEXT(b->err, "value %lu (%s): ", (unsigned long)value, eti_xnn_datatype_name(v->datatype));
  return failure;
}

et_status eti_xnn_value_id(eti_xnn_builder *b, uint32_t value, uint32_t *id) {
  ET_ASSERT(value < b->payload->n_values);  // payload.c checked every id
  const eti_xnn_value *v = &b->payload->values[value];
  if (b->ids[value] == ETI_XNN_NONE) {
    definition at = {.shape = &b->shapes[value],
                     .external_id = v->external_id,
                     .flags = (v->is_input ? XNN_VALUE_FLAG_EXTERNAL_INPUT : 0u) |
                              (v->is_output ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0u)};
    // XNNPACK plans no memory for a result that no node reads, unless it is persistent.
    if (b->is_needed != NULL && !b->is_needed[value]) at.flags |= XNN_VALUE_FLAG_PERSISTENT;
    if (v->is_constant) ET_TRY(eti_xnn_constant_bytes(b, value, &at.data));
    ET_TRY(define_value(b, value, &at, &b->ids[value]));
  }
  *id = b->ids[value];
  return ET_OK;
}

et_status eti_xnn_internal_value(eti_xnn_builder *b, uint32_t shape_of, uint32_t type_of,
                                 uint32_t *id) {
  ET_ASSERT(shape_of < b->payload->n_values && type_of < b->payload->n_values);
  const definition at = {.shape = &b->shapes[shape_of], .external_id = XNN_INVALID_VALUE_ID};
  return define_value(b, type_of, &at, id);
}

static et_status define_f32(eti_xnn_builder *b, uint32_t shape_of, const void *data, uint32_t *id) {
  const eti_xnn_shape *s = &b->shapes[shape_of];
  const enum xnn_status status = xnn_define_tensor_value(
      b->subgraph, xnn_datatype_fp32, s->rank, s->dims, data, XNN_INVALID_VALUE_ID, 0, id);
  return status == xnn_status_success
             ? ET_OK
             : eti_xnn_check(status, b->err, "defining a value of type fp32");
}

et_status eti_xnn_internal_f32(eti_xnn_builder *b, uint32_t shape_of, uint32_t *id) {
  return define_f32(b, shape_of, NULL, id);
}

et_status eti_xnn_f32_id(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t value,
                         uint32_t *id) {
  ET_ASSERT(value < b->payload->n_values && node != NULL);
  const eti_xnn_value *v = &b->payload->values[value];
  if (v->datatype == ETI_XNN_fp32) return eti_xnn_value_id(b, value, id);
  if (b->f32_ids[value] == ETI_XNN_NONE) {
    uint32_t given = 0, wide = 0;
    const void *data = NULL;
    const bool is_expanded =
        v->is_constant && (v->datatype == ETI_XNN_bf16 || v->datatype == ETI_XNN_fp16);
    if (is_expanded) {
      ET_TRY(eti_xnn_constant_f32(b, value, &data));
    } else {
      ET_TRY(eti_xnn_value_id(b, value, &given));
    }
    ET_TRY(define_f32(b, value, data, &wide));
    if (!is_expanded) ET_TRY(eti_xnn_convert(b, node, given, wide));
    b->f32_ids[value] = wide;
  }
  *id = b->f32_ids[value];
  return ET_OK;
}

et_status eti_xnn_note_node(eti_xnn_builder *b, const eti_xnn_node *node, enum xnn_status status) {
  if (status != xnn_status_success)
    return eti_xnn_check(status, b->err, "defining the node or a part of it");
  ET_ASSERT(b->n_defined < b->max_defined);
  b->origins[b->n_defined++] = node->index;
  return ET_OK;
}

et_status eti_xnn_convert(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t from,
                          uint32_t to) {
  ET_ASSERT(from != to && from != ETI_XNN_NONE && to != ETI_XNN_NONE);
  return eti_xnn_note_node(b, node,
                           xnn_define_unary(b->subgraph, xnn_unary_convert, NULL, from, to, 0));
}
