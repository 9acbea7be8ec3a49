// payload_parts.h — views into a payload and the index of its ids, shared by the reader of values
// (payload.c) and the reader of nodes (payload_nodes.c).
#ifndef ET_XNNPACK_PAYLOAD_PARTS_H
#define ET_XNNPACK_PAYLOAD_PARTS_H

#include "backends/xnnpack/payload/payload.h"
#include "runtime/flatbuf.h"

// The parts of a payload. The flatbuffer is verified, but for the nodes' own tables.
typedef struct eti_xnn_parts {
  const uint8_t *graph;
  size_t graph_bytes;
  const uint8_t *data;  // constants after the flatbuffer; NULL without a header
  size_t data_bytes;
  eti_vector nodes, values, constants, buffers;
  uint32_t n_externs;
} eti_xnn_parts;

// The ids of all values, sorted.
typedef struct eti_xnn_ids {
  const void *list;
  size_t n;
} eti_xnn_ids;
// Makes the index in the arena. Refuses two values with one id.
et_status eti_xnn_index_ids(const eti_xnn_payload *payload, eti_xnn_build_arena *arena,
                            eti_xnn_ids *ids, et_error *err);
bool eti_xnn_find_id(const eti_xnn_ids *ids, uint32_t id, uint32_t *value);

// Appends the nodes to those of `out`, and checks that each value is written once, by a node,
// before it is read.
et_status eti_xnn_read_nodes(const eti_xnn_parts *parts, const eti_xnn_ids *ids,
                             eti_xnn_build_arena *arena, eti_xnn_payload *out, et_error *err);

#endif  // ET_XNNPACK_PAYLOAD_PARTS_H
