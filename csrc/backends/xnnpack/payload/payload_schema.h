// payload_schema.h — slot numbers, type codes and header fields of the delegate payload, as
// constants.
#ifndef ET_XNNPACK_PAYLOAD_SCHEMA_H
#define ET_XNNPACK_PAYLOAD_SCHEMA_H

// ---- The header before the flatbuffer, packed little-endian. A payload may be a flatbuffer
// without a header.
enum {
  XH_MAGIC = 4,  // "XH00"; a flatbuffer without header has its identifier here
  XH_GRAPH_OFFSET = 10,
  XH_GRAPH_BYTES = 14,
  XH_DATA_OFFSET = 18,
  XH_DATA_BYTES = 22,
  XH_BYTES = 30,
};

#define XNN_MAX_EXTERNS 4096u
#define XNN_NO_ID 0xffffffffu  // no value; no external position
#define XNN_NAMED_OFFSET UINT64_MAX

// ---- Slots
enum {
  GRAPH_VERSION,
  GRAPH_NODES,
  GRAPH_VALUES,
  GRAPH_N_EXTERNS,
  GRAPH_INPUT_IDS,
  GRAPH_OUTPUT_IDS,
  GRAPH_BUFFERS,  // of old payloads: constants inside the flatbuffer
  GRAPH_MEM_SIZES,
  GRAPH_CONSTANTS,
};
enum { BUFFER_STORAGE };
enum { CONSTANT_OFFSET, CONSTANT_SIZE, CONSTANT_KEY };
enum { NODE_KIND, NODE_UNION, NODE_DEBUG_HANDLE, NODE_MIN_MAX };
enum { MIN_MAX_MIN, MIN_MAX_MAX };
enum { VALUE_KIND, VALUE_UNION };
enum {
  TENSOR_DATATYPE,
  TENSOR_N_DIMS,
  TENSOR_DIMS,
  TENSOR_CONSTANT,
  TENSOR_EXTERNAL_ID,
  TENSOR_FLAGS,
  TENSOR_ID,
  TENSOR_DQ_DATATYPE,
};
enum { QUANTIZED_TENSOR, QUANTIZED_KIND, QUANTIZED_UNION };
enum { CHANNEL_SCALES, CHANNEL_DIM, CHANNEL_CONSTANT, CHANNEL_N_SCALES };
enum { TENSOR_SCALE, TENSOR_ZERO_POINT };
enum { TOKEN_NONBATCH_DIMS };
enum {
  GROUP_SCALES,
  GROUP_CHANNEL_DIM,
  GROUP_SIZE,
  GROUP_SCALES_BF16,
  GROUP_CONSTANT,
  GROUP_N_SCALES,
};

// ---- Codes
enum { VALUE_TENSOR = 1, VALUE_QUANTIZED };
enum { QUANT_NONE, QUANT_CHANNEL, QUANT_TENSOR, QUANT_TOKEN, QUANT_GROUP };
enum { VALUE_INPUT = 1u, VALUE_OUTPUT = 2u };

// X(code, name, bits of an element, whether activations may have it, ScalarType of such a tensor).
// Names are XNNPACK's; codes are the payload's, which differ from XNNPACK's beyond 9.
#define XNN_DATATYPE_LIST(X)       \
  X(1, fp32, 32, true, ET_F32)     \
  X(2, fp16, 16, true, ET_F16)     \
  X(3, qint8, 8, true, ET_I8)      \
  X(4, quint8, 8, true, ET_U8)     \
  X(5, qint32, 32, false, ET_I32)  \
  X(6, qcint8, 8, false, ET_I8)    \
  X(7, qcint32, 32, false, ET_I32) \
  X(8, qcint4, 4, false, ET_U8)    \
  X(9, qdint8, 8, false, ET_I8)    \
  X(10, qbint4, 4, false, ET_U8)   \
  X(12, int32, 32, true, ET_I32)   \
  X(14, bf16, 16, true, ET_BF16)

#endif  // ET_XNNPACK_PAYLOAD_SCHEMA_H
