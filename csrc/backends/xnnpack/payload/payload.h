// payload.h — a delegate payload as plain structs: values, nodes, arguments. eti_xnn_payload_read
// proves the structure: every id is a value's index, every list has its length, every number is in
// its range. check_types.c and infer_shapes.c then check whether the nodes' types and shapes fit.
// Relies on flatbuf.h; knows XNNPACK only by its limits.
#ifndef ET_XNNPACK_PAYLOAD_H
#define ET_XNNPACK_PAYLOAD_H

#include "backends/xnnpack/payload/build_arena.h"
#include "backends/xnnpack/payload/payload_schema.h"
#include "backends/xnnpack/payload/value_shape.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETI_XNN_NONE UINT32_MAX  // no value
#define ETI_XNN_MAX_INPUTS 5

enum {
#define XNN_DATATYPE(code, name, bits, is_activation, scalar_type) ETI_XNN_##name = code,
  XNN_DATATYPE_LIST(XNN_DATATYPE)
#undef XNN_DATATYPE
};

typedef enum eti_xnn_family {
  XNN_FAMILY_NONE,
  XNN_FAMILY_UNARY,
  XNN_FAMILY_BINARY,
  XNN_FAMILY_LINEAR,
  XNN_FAMILY_SOFTMAX,
  XNN_FAMILY_TRANSPOSE,
  XNN_FAMILY_CONV,
  XNN_FAMILY_DEPTHWISE,
  XNN_FAMILY_DECONV,
  XNN_FAMILY_RESIZE,
  XNN_FAMILY_PAD,
  XNN_FAMILY_AVG_POOL,
  XNN_FAMILY_MAX_POOL,
  XNN_FAMILY_ARG_MAX,
  XNN_FAMILY_CONVERT,
  XNN_FAMILY_MEAN,
  XNN_FAMILY_RESHAPE,
  XNN_FAMILY_CAT,
  XNN_FAMILY_SLICE,
  XNN_FAMILY_MATMUL,
  XNN_FAMILY_COPY,
  XNN_FAMILY_COUNT,
} eti_xnn_family;

typedef struct eti_xnn_kind {
  const char *name;  // NULL: no such kind
  uint8_t family, layout;
  int16_t operator;  // an xnn_unary_operator or xnn_binary_operator
} eti_xnn_kind;
#define ETI_XNN_KINDS 48
extern const eti_xnn_kind eti_xnn_kinds[ETI_XNN_KINDS];

// The place of constant bytes: named data under a key, or the payload.
typedef struct eti_xnn_source {
  const char *key;      // NULL: data
  const uint8_t *data;  // NULL without a key too: no constant
  size_t size;          // of data
} eti_xnn_source;

typedef struct eti_xnn_value {
  uint8_t datatype;
  uint8_t quantization;  // QUANT_…
  uint32_t id;           // unique, but for XNN_NO_ID, which nothing refers to
  uint32_t external_id;  // XNN_NO_ID: internal
  bool is_input, is_output;
  bool is_constant;
  bool is_index;  // positions, written by ArgMaxPooling2d
  eti_xnn_shape shape;
  eti_xnn_source bytes;   // is_constant
  size_t constant_bytes;  // of the shape and the type
  // Quantization: one scale and zero point, or scales per channel or group.
  float scale;
  int32_t zero_point;
  uint32_t channel_dim, n_nonbatch_dims, group_size;
  size_t n_scales;
  eti_xnn_source scales;
  bool scales_are_bf16;
} eti_xnn_value;

typedef struct eti_xnn_window {
  uint32_t padding[4];  // top, right, bottom, left
  uint32_t kernel[2], stride[2], dilation[2];
  uint32_t group_inputs, group_outputs, groups;
  uint32_t adjustment[2];
} eti_xnn_window;

typedef struct eti_xnn_node {
  uint8_t kind;  // row of eti_xnn_kinds
  uint8_t n_inputs, n_outputs;
  uint32_t index;  // in the payload
  uint32_t debug_handle, flags;
  float output_min, output_max;
  uint32_t inputs[ETI_XNN_MAX_INPUTS];  // values; a missing bias is ETI_XNN_NONE
  uint32_t outputs[2];
  union {
    eti_xnn_window window;
    struct {
      size_t n, n_more;
      size_t list[XNN_MAX_TENSOR_DIMS], more[XNN_MAX_TENSOR_DIMS];
      float value;
    } dims;  // a permutation; a shape; offsets and sizes; paddings before and after
    uint32_t size[2];
    uint32_t axis;
    float slope;
  } p;
} eti_xnn_node;

typedef struct eti_xnn_payload {
  size_t n_values, n_nodes, n_externs;
  eti_xnn_value *values;
  eti_xnn_node *nodes;
  uint32_t *externs;  // [n_externs] the value at each position, or ETI_XNN_NONE
} eti_xnn_payload;

// Reads and checks a payload. The structs lie in the arena; sources point into the payload.
et_status eti_xnn_payload_read(const uint8_t *bytes, size_t size, eti_xnn_build_arena *arena,
                               eti_xnn_payload *out, et_error *err);

// Checks that each node can be defined for the types of its operands, by XNNPACK's node or those
// that subgraph_nodes.c composes.
et_status eti_xnn_check_types(const eti_xnn_payload *payload, et_error *err);

// Computes the shape of every value, node by node. shapes [n_values]: those of inputs and constants
// are given, the others are written.
et_status eti_xnn_infer_shapes(const eti_xnn_payload *payload, eti_xnn_shape *shapes,
                               et_error *err);

static inline const eti_xnn_kind *eti_xnn_kind_of(const eti_xnn_node *node) {
  return &eti_xnn_kinds[node->kind];
}
// Whether a node limits its results.
static inline bool eti_xnn_has_bounds(const eti_xnn_node *node) {
  return node->output_min > -INFINITY || node->output_max < INFINITY;
}
const char *eti_xnn_datatype_name(unsigned datatype);  // "fp32"; "?"
unsigned eti_xnn_datatype_bits(unsigned datatype);     // 0 for none
bool eti_xnn_is_activation(unsigned datatype);
et_dtype eti_xnn_scalar_type(unsigned datatype);

// The bytes of a shape; false when it is empty or does not fit, with room for what XNNPACK adds,
// into the address space. A row of 4-bit elements starts at a byte.
bool eti_xnn_shape_bytes(unsigned datatype, const eti_xnn_shape *shape, size_t *bytes);
// The number of elements, of a shape whose bytes fit.
size_t eti_xnn_shape_count(const eti_xnn_shape *shape);

// Prepends "node 3 (Conv2d, debug handle 7): " to the message of a failure.
et_status eti_xnn_at_node(const eti_xnn_node *node, et_status status, et_error *err);

#endif  // ET_XNNPACK_PAYLOAD_H
