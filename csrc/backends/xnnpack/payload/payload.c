// payload.c — reads the header, the graph's lists and its values. A payload is untrusted: offsets,
// counts, codes and parameters are checked while they are read.
#include "backends/xnnpack/payload/payload.h"

#include "backends/xnnpack/payload/payload_parts.h"
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

// Rows of the schema. The nodes' own tables have more slots than a row, so payload_nodes.c verifies
// them.
enum {
  T_GRAPH,
  T_BUFFER,
  T_CONSTANT,
  T_NODE,
  T_MIN_MAX,
  T_VALUE,
  T_TENSOR,
  T_QUANTIZED,
  T_CHANNEL,
  T_PER_TENSOR,
  T_TOKEN,
  T_GROUP,
};

static const eti_fb_schema schema[] = {
    [T_GRAPH] = {ETI_FB_STRING, ETI_FB_TABLES(T_NODE), ETI_FB_TABLES(T_VALUE), ETI_FB_SCALAR(4),
                 ETI_FB_VECTOR(4), ETI_FB_VECTOR(4), ETI_FB_TABLES(T_BUFFER), ETI_FB_VECTOR(4),
                 ETI_FB_TABLES(T_CONSTANT)},
    [T_BUFFER] = {ETI_FB_VECTOR(1)},
    [T_CONSTANT] = {ETI_FB_SCALAR(8), ETI_FB_SCALAR(8), ETI_FB_STRING},
    // Only the offset of the union is verified here; its table depends on the node's kind.
    [T_NODE] = {ETI_FB_SCALAR(1), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_TABLE(T_MIN_MAX)},
    [T_MIN_MAX] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_VALUE] = {ETI_FB_UNION(T_TENSOR), ETI_FB_MEMBERS(2)},
    [T_TENSOR] = {ETI_FB_SCALAR(2), ETI_FB_SCALAR(4), ETI_FB_VECTOR(4), ETI_FB_SCALAR(4),
                  ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(2)},
    [T_QUANTIZED] = {ETI_FB_TABLE(T_TENSOR), ETI_FB_UNION(T_CHANNEL), ETI_FB_MEMBERS(4)},
    [T_CHANNEL] = {ETI_FB_VECTOR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_PER_TENSOR] = {ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
    [T_TOKEN] = {ETI_FB_SCALAR(4)},
    [T_GROUP] = {ETI_FB_VECTOR(4), ETI_FB_SCALAR(4), ETI_FB_SCALAR(4), ETI_FB_VECTOR(2),
                 ETI_FB_SCALAR(4), ETI_FB_SCALAR(4)},
};

// ---- The parts of a payload

static et_status find_parts(const uint8_t *bytes, size_t size, eti_xnn_parts *parts,
                            et_error *err) {
  ET_CHECK(size >= XH_BYTES, err, ET_INVALID_ARGUMENT,
           "the payload: expected at least the %d bytes of a header, got %zu", XH_BYTES, size);
  if (memcmp(bytes + XH_MAGIC, "XH00", 4) != 0) {
    *parts = (eti_xnn_parts){.graph = bytes, .graph_bytes = size};
  } else {
    const uint64_t graph_at = eti_u32(bytes + XH_GRAPH_OFFSET);
    const uint64_t graph_bytes = eti_u32(bytes + XH_GRAPH_BYTES);
    const uint64_t data_at = eti_u32(bytes + XH_DATA_OFFSET);
    const uint64_t data_bytes = eti_u64(bytes + XH_DATA_BYTES);
    ET_CHECK(
        graph_bytes >= 8 && eti_inside(graph_at, graph_bytes, size) &&
            eti_inside(data_at, data_bytes, size) && data_at >= graph_at + graph_bytes,
        err, ET_INVALID_ARGUMENT,
        "the header's graph at %llu, %llu bytes, and constants at %llu, %llu bytes, do not fit "
        "one after the other into %zu bytes",
        (unsigned long long)graph_at, (unsigned long long)graph_bytes, (unsigned long long)data_at,
        (unsigned long long)data_bytes, size);
    *parts = (eti_xnn_parts){.graph = bytes + graph_at,
                             .graph_bytes = (size_t)graph_bytes,
                             .data = bytes + data_at,
                             .data_bytes = (size_t)data_bytes};
  }
  const uint8_t *identifier = parts->graph + 4;
  ET_CHECK(memcmp(identifier, "XN00", 4) == 0 || memcmp(identifier, "XN01", 4) == 0, err,
           ET_DELEGATE_INCOMPATIBLE,
           "the payload is no XNNPACK graph of a known version: expected the identifier XN00 or "
           "XN01, got bytes %x %x %x %x",
           identifier[0], identifier[1], identifier[2], identifier[3]);
  size_t where = 0;
  ET_CHECK(eti_fb_verify(parts->graph, parts->graph_bytes, schema, &where), err,
           ET_DELEGATE_INCOMPATIBLE, "the payload's graph is damaged at byte %zu of %zu", where,
           parts->graph_bytes);
  const uint8_t *root = eti_fb_root(parts->graph);
  parts->nodes = eti_fb_vector(root, GRAPH_NODES);
  parts->values = eti_fb_vector(root, GRAPH_VALUES);
  parts->constants = eti_fb_vector(root, GRAPH_CONSTANTS);
  parts->buffers = eti_fb_vector(root, GRAPH_BUFFERS);
  parts->n_externs = eti_fb_u32(root, GRAPH_N_EXTERNS);
  ET_CHECK(parts->nodes.data != NULL && parts->values.data != NULL, err, ET_INVALID_PROGRAM,
           "the payload's graph has no list of %s", parts->nodes.data == NULL ? "nodes" : "values");
  ET_CHECK(parts->n_externs <= XNN_MAX_EXTERNS, err, ET_INVALID_PROGRAM,
           "the payload's graph: expected at most %u arguments, got %lu", XNN_MAX_EXTERNS,
           (unsigned long)parts->n_externs);
  return ET_OK;
}

// ---- Values

// Finds the bytes of constant `index` of value `i_value`.
static et_status find_source(const eti_xnn_parts *parts, size_t i_value, uint32_t index,
                             eti_xnn_source *out, et_error *err) {
  if (parts->constants.data == NULL && index < parts->buffers.n) {
    const eti_vector storage = eti_fb_vector(eti_fb_at(parts->buffers, index), BUFFER_STORAGE);
    *out = (eti_xnn_source){.data = storage.data, .size = storage.n};
    ET_CHECK(storage.data != NULL, err, ET_INVALID_PROGRAM,
             "value %zu: constant buffer %lu has no bytes", i_value, (unsigned long)index);
    return ET_OK;
  }
  const size_t n = parts->constants.data == NULL ? parts->buffers.n : parts->constants.n;
  ET_CHECK(index < n, err, ET_INVALID_PROGRAM, "value %zu: constant %lu of %zu does not exist",
           i_value, (unsigned long)index, n);
  const uint8_t *entry = eti_fb_at(parts->constants, index);
  const char *key = eti_fb_string(entry, CONSTANT_KEY);
  const uint64_t size = eti_fb_u64(entry, CONSTANT_SIZE);
  if (key != NULL) {
    *out = (eti_xnn_source){.key = key};
    return ET_OK;
  }
  const uint64_t offset = eti_fb_u64(entry, CONSTANT_OFFSET);
  ET_CHECK(parts->data != NULL && eti_inside(offset, size, parts->data_bytes), err,
           ET_INVALID_PROGRAM,
           "value %zu: constant %lu has no key, and its %llu bytes at %llu are not among the "
           "payload's %zu bytes of constants",
           i_value, (unsigned long)index, (unsigned long long)size, (unsigned long long)offset,
           parts->data_bytes);
  *out = (eti_xnn_source){.data = parts->data + offset, .size = (size_t)size};
  return ET_OK;
}

static et_status read_shape(const uint8_t *tensor, size_t i, eti_xnn_value *v, et_error *err) {
  const eti_vector dims = eti_fb_vector(tensor, TENSOR_DIMS);
  const uint32_t rank = eti_fb_u32(tensor, TENSOR_N_DIMS);
  ET_CHECK(
      rank <= XNN_MAX_TENSOR_DIMS && dims.n == rank, err, ET_INVALID_PROGRAM,
      "value %zu: expected rank at most %d and one size per dimension, got rank %lu and %zu sizes",
      i, XNN_MAX_TENSOR_DIMS, (unsigned long)rank, dims.n);
  v->shape.rank = rank;
  for (uint32_t d = 0; d < rank; d++) v->shape.dims[d] = eti_u32(dims.data + 4 * (size_t)d);
  size_t bytes = 0;
  ET_CHECK(eti_xnn_shape_bytes(v->datatype, &v->shape, &bytes), err, ET_INVALID_PROGRAM,
           "value %zu: an empty shape, or one too large to address", i);
  v->constant_bytes = bytes;
  return ET_OK;
}

static et_status read_tensor(const eti_xnn_parts *parts, const uint8_t *tensor, size_t i,
                             eti_xnn_value *v, et_error *err) {
  ET_CHECK(tensor != NULL, err, ET_INVALID_PROGRAM, "value %zu has no tensor", i);
  const uint8_t *field = eti_fb_field(tensor, TENSOR_DATATYPE);
  const unsigned code = field == NULL ? 0 : eti_u16(field);
  ET_CHECK(eti_xnn_datatype_bits(code) != 0, err, ET_NOT_SUPPORTED,
           "value %zu: datatype %u is unknown to this runtime", i, code);
  v->datatype = (uint8_t)code;
  v->id = eti_fb_u32(tensor, TENSOR_ID);
  v->external_id = eti_fb_u32(tensor, TENSOR_EXTERNAL_ID);
  const uint32_t flags = eti_fb_u32(tensor, TENSOR_FLAGS);
  ET_CHECK(flags == 0 || flags == VALUE_INPUT || flags == VALUE_OUTPUT, err, ET_INVALID_PROGRAM,
           "value %zu: expected flags 1 (input), 2 (output) or 0, got 0x%lx", i,
           (unsigned long)flags);
  v->is_input = flags == VALUE_INPUT;
  v->is_output = flags == VALUE_OUTPUT;
  ET_CHECK(flags != 0 ? v->external_id < parts->n_externs : v->external_id == XNN_NO_ID, err,
           ET_INVALID_PROGRAM,
           "value %zu: expected an external id below %lu of inputs and outputs, and 0x%lx of other "
           "values, got 0x%lx with flags 0x%lx",
           i, (unsigned long)parts->n_externs, (unsigned long)XNN_NO_ID,
           (unsigned long)v->external_id, (unsigned long)flags);
  ET_TRY(read_shape(tensor, i, v, err));
  const uint32_t constant = eti_fb_u32(tensor, TENSOR_CONSTANT);
  v->is_constant = constant != 0;
  if (!v->is_constant) return ET_OK;
  ET_CHECK(flags == 0, err, ET_INVALID_PROGRAM, "value %zu is constant %lu and an argument at once",
           i, (unsigned long)constant);
  ET_TRY(find_source(parts, i, constant, &v->bytes, err));
  ET_CHECK(v->bytes.key != NULL || v->bytes.size >= v->constant_bytes, err, ET_INVALID_PROGRAM,
           "value %zu: constant %lu: expected at least the %zu bytes of its shape, got %zu", i,
           (unsigned long)constant, v->constant_bytes, v->bytes.size);
  return ET_OK;
}

static bool is_in_range(unsigned code, int32_t zero_point) {
  switch (code) {
    case ETI_XNN_qint8:
    case ETI_XNN_qcint8:
      return zero_point >= -128 && zero_point <= 127;
    case ETI_XNN_quint8:
      return zero_point >= 0 && zero_point <= 255;
    default:
      return zero_point == 0;
  }
}

// Scales are constant number `constant`, of `count` scales, or those listed in place.
static et_status read_scales(const eti_xnn_parts *parts, size_t i, eti_vector listed,
                             uint32_t constant, uint32_t count, eti_xnn_value *v, et_error *err) {
  size_t n = listed.n;
  if (constant != 0) {
    ET_TRY(find_source(parts, i, constant, &v->scales, err));
    n = count;
    const size_t each = v->scales_are_bf16 ? 2 : 4;
    ET_CHECK(v->scales.key != NULL || v->scales.size / each >= v->n_scales, err, ET_INVALID_PROGRAM,
             "value %zu: expected %zu scales, got %zu bytes", i, v->n_scales, v->scales.size);
  } else {
    v->scales = (eti_xnn_source){.data = listed.data, .size = listed.n * 4};
    v->scales_are_bf16 = false;
  }
  ET_CHECK(n == v->n_scales, err, ET_INVALID_PROGRAM, "value %zu: expected %zu scales, got %zu", i,
           v->n_scales, n);
  return ET_OK;
}

static et_status read_per_channel(const eti_xnn_parts *parts, const uint8_t *params, size_t i,
                                  eti_xnn_value *v, et_error *err) {
  v->channel_dim = eti_fb_u32(params, CHANNEL_DIM);
  ET_CHECK(v->datatype == ETI_XNN_qcint8 || v->datatype == ETI_XNN_qcint32 ||
               v->datatype == ETI_XNN_qcint4,
           err, ET_INVALID_PROGRAM,
           "value %zu: scales per channel, expected datatype qcint8, qcint32 or qcint4, got %s", i,
           eti_xnn_datatype_name(v->datatype));
  ET_CHECK(v->channel_dim < v->shape.rank, err, ET_INVALID_PROGRAM,
           "value %zu: channel dimension: expected less than the rank, %lu, got %ld", i,
           (unsigned long)v->shape.rank, (long)(int32_t)v->channel_dim);
  v->zero_point = v->datatype == ETI_XNN_qcint4 ? 8 : 0;
  v->n_scales = v->shape.dims[v->channel_dim];
  return read_scales(parts, i, eti_fb_vector(params, CHANNEL_SCALES),
                     eti_fb_u32(params, CHANNEL_CONSTANT), eti_fb_u32(params, CHANNEL_N_SCALES), v,
                     err);
}

static et_status read_per_tensor(const uint8_t *params, size_t i, eti_xnn_value *v, et_error *err) {
  const uint8_t *scale = eti_fb_field(params, TENSOR_SCALE);
  v->scale = scale == NULL ? 0 : eti_f32_from_bits(eti_u32(scale));
  v->zero_point = (int32_t)eti_fb_u32(params, TENSOR_ZERO_POINT);
  ET_CHECK(v->datatype == ETI_XNN_qint8 || v->datatype == ETI_XNN_quint8 ||
               v->datatype == ETI_XNN_qint32,
           err, ET_INVALID_PROGRAM,
           "value %zu: one scale per tensor, expected datatype qint8, quint8 or qint32, got %s", i,
           eti_xnn_datatype_name(v->datatype));
  ET_CHECK(isnormal(v->scale) && v->scale > 0, err, ET_INVALID_PROGRAM,
           "value %zu: expected a normal, positive scale, got %g", i, (double)v->scale);
  ET_CHECK(is_in_range(v->datatype, v->zero_point), err, ET_INVALID_PROGRAM,
           "value %zu: expected a zero point of %s, got %ld", i, eti_xnn_datatype_name(v->datatype),
           (long)v->zero_point);
  return ET_OK;
}

static et_status read_per_token(const uint8_t *params, size_t i, eti_xnn_value *v, et_error *err) {
  v->n_nonbatch_dims = eti_fb_u32(params, TOKEN_NONBATCH_DIMS);
  ET_CHECK(v->datatype == ETI_XNN_qdint8, err, ET_INVALID_PROGRAM,
           "value %zu: dynamically quantized, expected datatype qdint8, got %s", i,
           eti_xnn_datatype_name(v->datatype));
  ET_CHECK(v->n_nonbatch_dims >= 1 && v->n_nonbatch_dims <= v->shape.rank, err, ET_INVALID_PROGRAM,
           "value %zu: dimensions that share a scale: expected 1 to the rank, %lu, got %ld", i,
           (unsigned long)v->shape.rank, (long)(int32_t)v->n_nonbatch_dims);
  return ET_OK;
}

static et_status read_per_group(const eti_xnn_parts *parts, const uint8_t *params, size_t i,
                                eti_xnn_value *v, et_error *err) {
  v->channel_dim = eti_fb_u32(params, GROUP_CHANNEL_DIM);
  v->group_size = eti_fb_u32(params, GROUP_SIZE);
  v->zero_point = 8;
  ET_CHECK(v->datatype == ETI_XNN_qbint4 && v->shape.rank == 2 && v->channel_dim == 0, err,
           ET_INVALID_PROGRAM,
           "value %zu: scales per group, expected datatype qbint4, rank 2 and channel dimension 0, "
           "got %s, %lu and %ld",
           i, eti_xnn_datatype_name(v->datatype), (unsigned long)v->shape.rank,
           (long)(int32_t)v->channel_dim);
  ET_CHECK(v->group_size >= XNN_MIN_BLOCKSIZE && v->group_size % XNN_MIN_BLOCKSIZE == 0 &&
               v->shape.dims[1] % v->group_size == 0,
           err, ET_INVALID_PROGRAM,
           "value %zu: group size: expected a multiple of %d that divides the %zu columns, got %ld",
           i, XNN_MIN_BLOCKSIZE, v->shape.dims[1], (long)(int32_t)v->group_size);
  // Kernels of 14 rows read the scales of 14 activations, even of rows that do not exist.
  ET_CHECK(
      XNN_EXTRA_QUANTIZATION_PARAMS >= 13, err, ET_NOT_SUPPORTED,
      "value %zu has groups of 4-bit weights, which the linked XNNPACK multiplies wrongly on "
      "some processors (expected XNN_EXTRA_QUANTIZATION_PARAMS 13 or more, got %d): build with the "
      "XNNPACK that get_xnnpack.py makes",
      i, XNN_EXTRA_QUANTIZATION_PARAMS);
  v->n_scales = v->shape.dims[0] * (v->shape.dims[1] / v->group_size);
  v->scales_are_bf16 = true;
  const uint32_t constant = eti_fb_u32(params, GROUP_CONSTANT);
  const eti_vector halves = eti_fb_vector(params, GROUP_SCALES_BF16);
  const eti_vector scales = eti_fb_vector(params, GROUP_SCALES);
  if (constant == 0 && scales.n == 0 && halves.n == v->n_scales) {
    v->scales = (eti_xnn_source){.data = halves.data, .size = halves.n * 2};
    return ET_OK;
  }
  return read_scales(parts, i, scales, constant, eti_fb_u32(params, GROUP_N_SCALES), v, err);
}

static et_status read_value(const eti_xnn_parts *parts, size_t i, eti_xnn_value *v, et_error *err) {
  const uint8_t *value = eti_fb_at(parts->values, i);
  const uint8_t kind = eti_fb_u8(value, VALUE_KIND);
  const uint8_t *member = eti_fb_table(value, VALUE_UNION);
  ET_CHECK(kind != 0 && member != NULL, err, ET_INVALID_PROGRAM,
           "value %zu has no kind or no table", i);
  if (kind == VALUE_TENSOR) {
    ET_TRY(read_tensor(parts, member, i, v, err));
    ET_CHECK(v->datatype == ETI_XNN_fp32 || v->datatype == ETI_XNN_fp16 ||
                 v->datatype == ETI_XNN_bf16 || v->datatype == ETI_XNN_int32,
             err, ET_INVALID_PROGRAM, "value %zu: %s without quantization parameters", i,
             eti_xnn_datatype_name(v->datatype));
    return ET_OK;
  }
  ET_TRY(read_tensor(parts, eti_fb_table(member, QUANTIZED_TENSOR), i, v, err));
  v->quantization = eti_fb_u8(member, QUANTIZED_KIND);
  const uint8_t *params = eti_fb_table(member, QUANTIZED_UNION);
  ET_CHECK(params != NULL, err, ET_INVALID_PROGRAM, "value %zu has no quantization parameters", i);
  ET_CHECK(!v->is_constant || v->quantization != QUANT_TOKEN, err, ET_INVALID_PROGRAM,
           "value %zu is constant and dynamically quantized", i);
  switch (v->quantization) {
    case QUANT_CHANNEL:
      return read_per_channel(parts, params, i, v, err);
    case QUANT_TENSOR:
      return read_per_tensor(params, i, v, err);
    case QUANT_TOKEN:
      return read_per_token(params, i, v, err);
    case QUANT_GROUP:
      return read_per_group(parts, params, i, v, err);
    default:
      return ET_FAIL(err, ET_INVALID_PROGRAM, "value %zu: quantization kind %u is unknown", i,
                     v->quantization);
  }
}

// ---- Inputs of old payloads that are dynamically quantized by a field of the value

static bool is_dynamic_input(const eti_xnn_parts *parts, size_t i) {
  const uint8_t *value = eti_fb_at(parts->values, i);
  if (eti_fb_u8(value, VALUE_KIND) != VALUE_TENSOR) return false;
  const uint8_t *field = eti_fb_field(eti_fb_table(value, VALUE_UNION), TENSOR_DQ_DATATYPE);
  return field != NULL && eti_u16(field) != 0;
}

// Splits value i, a float input whose id refers to its quantized form. Adds that form as a value
// with this id, and the conversion as a node.
static et_status split_dynamic_input(const eti_xnn_parts *parts, size_t i, eti_xnn_payload *out,
                                     et_error *err) {
  eti_xnn_value *given = &out->values[i];
  const uint8_t *tensor = eti_fb_table(eti_fb_at(parts->values, i), VALUE_UNION);
  const unsigned code = eti_u16(eti_fb_field(tensor, TENSOR_DQ_DATATYPE));
  ET_CHECK(
      code == ETI_XNN_qint8 && given->is_input && given->shape.rank >= 1 &&
          (given->datatype == ETI_XNN_fp32 || given->datatype == ETI_XNN_fp16),
      err, ET_INVALID_PROGRAM,
      "value %zu: dynamically quantized, expected a float input and datatype qint8, got %s and "
      "%s",
      i, eti_xnn_datatype_name(given->datatype), eti_xnn_datatype_name(code));
  const size_t quantized = out->n_values++;
  out->values[quantized] = (eti_xnn_value){.datatype = ETI_XNN_qdint8,
                                           .quantization = QUANT_TOKEN,
                                           .id = given->id,
                                           .external_id = XNN_NO_ID,
                                           .shape = given->shape,
                                           .n_nonbatch_dims = 1};
  out->nodes[out->n_nodes++] = (eti_xnn_node){.kind = 18,
                                              .n_inputs = 1,
                                              .n_outputs = 1,
                                              .debug_handle = 65535,
                                              .output_min = -INFINITY,
                                              .output_max = INFINITY,
                                              .inputs = {(uint32_t)i},
                                              .outputs = {(uint32_t)quantized}};
  given->id = XNN_NO_ID;
  return ET_OK;
}

// ---- The payload

static et_status fill_externs(eti_xnn_payload *out, et_error *err) {
  for (size_t k = 0; k < out->n_externs; k++) out->externs[k] = ETI_XNN_NONE;
  for (size_t i = 0; i < out->n_values; i++) {
    const uint32_t at = out->values[i].external_id;
    if (at == XNN_NO_ID) continue;
    ET_CHECK(out->externs[at] == ETI_XNN_NONE, err, ET_INVALID_PROGRAM,
             "values %lu and %zu are both argument %lu", (unsigned long)out->externs[at], i,
             (unsigned long)at);
    ET_CHECK(eti_xnn_is_activation(out->values[i].datatype), err, ET_INVALID_PROGRAM,
             "value %zu: an argument cannot have datatype %s", i,
             eti_xnn_datatype_name(out->values[i].datatype));
    out->externs[at] = (uint32_t)i;
  }
  return ET_OK;
}

et_status eti_xnn_payload_read(const uint8_t *bytes, size_t size, eti_xnn_build_arena *arena,
                               eti_xnn_payload *out, et_error *err) {
  eti_xnn_parts parts;
  void *values, *nodes, *externs;
  ET_TRY(find_parts(bytes, size, &parts, err));
  const size_t n_values = parts.values.n;
  size_t n_split = 0;
  for (size_t i = 0; i < n_values; i++) n_split += is_dynamic_input(&parts, i);
  ET_TRY(eti_xnn_build_arena_alloc(arena, n_values + n_split, sizeof(eti_xnn_value), &values, err));
  ET_TRY(
      eti_xnn_build_arena_alloc(arena, parts.nodes.n + n_split, sizeof(eti_xnn_node), &nodes, err));
  ET_TRY(eti_xnn_build_arena_alloc(arena, parts.n_externs, sizeof(uint32_t), &externs, err));
  *out = (eti_xnn_payload){.values = values,
                           .nodes = nodes,
                           .externs = externs,
                           .n_values = n_values,
                           .n_externs = parts.n_externs};
  for (size_t i = 0; i < n_values; i++) ET_TRY(read_value(&parts, i, &out->values[i], err));
  for (size_t i = 0; i < n_values; i++) {
    if (is_dynamic_input(&parts, i)) ET_TRY(split_dynamic_input(&parts, i, out, err));
  }
  ET_TRY(fill_externs(out, err));
  eti_xnn_ids ids;
  ET_TRY(eti_xnn_index_ids(out, arena, &ids, err));
  return eti_xnn_read_nodes(&parts, &ids, arena, out, err);
}
