// xnn_writer.h — writes delegate payloads from plain structs, for tests that need payloads which no
// exporter emits. Knows the format's slots and nothing of the reader's code; checks nothing, so
// that tests can write unsound payloads. Constants lie in the payload, or under a key.
#ifndef ET_XNN_WRITER_H
#define ET_XNN_WRITER_H

#include "backends/xnnpack/payload/payload_schema.h"
#include "pte_writer.h"

#define X_MAX 16

typedef struct x_value {
  unsigned datatype, rank;
  uint32_t dims[7];
  unsigned constant;  // index into the constants; 0 = none
  unsigned flags;     // 1 input, 2 output
  uint32_t external;  // of an input or output
  unsigned quantization;
  float scale;
  int zero_point;
  unsigned scales;  // constant with the scales
  uint32_t n_scales, channel_dim, group_size, n_nonbatch_dims;
  unsigned dq_datatype;
} x_value;

typedef struct x_node {
  unsigned code, n_slots;
  uint32_t slots[20];
  uint32_t lists[3][7], n_list[3];  // slot k is a list when its length is not 0
  bool has_bounds;
  float min, max;
} x_node;

typedef struct x_constant {
  const char *key;  // NULL: data
  const void *data;
  size_t size;
} x_constant;

typedef struct x_graph {
  x_value values[X_MAX];  // ids are their numbers
  x_node nodes[X_MAX];
  x_constant constants[X_MAX];  // entry 0 is the placeholder
  size_t n_values, n_nodes, n_constants;
  uint32_t n_externs;
  bool has_buffers;        // constants lie in the flatbuffer's own table, as old exporters wrote
  const char *identifier;  // NULL: "XN01"
} x_graph;

static inline uint32_t x_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

// A table of n slots of four bytes, all present.
static inline size_t x_table(writer *w, unsigned n) {
  uint16_t vtable[2 + 20] = {(uint16_t)(4 + 2 * n), (uint16_t)(4 + 4 * n)};
  for (unsigned k = 0; k < n; k++) vtable[2 + k] = (uint16_t)(4 + 4 * k);
  const size_t at = w_claim(w, 4 + 2 * n);
  memcpy(w->bytes + at, vtable, 4 + 2 * n);
  const size_t table = w_claim(w, 4 + 4 * n);
  w_u32(w, table, (uint32_t)(table - at));
  return table;
}

static inline void x_put(writer *w, size_t table, unsigned slot, uint32_t v) {
  w_u32(w, table + 4 + 4 * slot, v);
}

static inline void x_link(writer *w, size_t table, unsigned slot, size_t target) {
  x_put(w, table, slot, (uint32_t)(target - (table + 4 + 4 * slot)));
}

static inline size_t x_list(writer *w, const uint32_t *list, size_t n) {
  const size_t at = w_claim(w, 4 + 4 * n);
  w_u32(w, at, (uint32_t)n);
  for (size_t i = 0; i < n; i++) w_u32(w, at + 4 + 4 * i, list[i]);
  return at;
}

static inline void x_tensor(writer *w, size_t tensor, const x_value *v, uint32_t id) {
  const uint32_t external = v->flags == 0 ? 0xffffffffu : v->external;
  const uint32_t fields[] = {v->datatype, v->rank,  0,  v->constant,
                             external,    v->flags, id, v->dq_datatype};
  for (unsigned k = 0; k < 8; k++) x_put(w, tensor, k, fields[k]);
  x_link(w, tensor, TENSOR_DIMS, x_list(w, v->dims, v->rank));
}

static inline void x_quantization(writer *w, size_t table, const x_value *v) {
  static const unsigned n_slots[] = {0, 4, 2, 1, 6};
  const size_t params = x_table(w, n_slots[v->quantization]);
  x_link(w, table, QUANTIZED_UNION, params);
  x_put(w, table, QUANTIZED_KIND, v->quantization);
  if (v->quantization == QUANT_TENSOR) {
    x_put(w, params, TENSOR_SCALE, x_bits(v->scale));
    x_put(w, params, TENSOR_ZERO_POINT, (uint32_t)v->zero_point);
  } else if (v->quantization == QUANT_TOKEN) {
    x_put(w, params, TOKEN_NONBATCH_DIMS, v->n_nonbatch_dims);
  } else if (v->quantization == QUANT_CHANNEL) {
    x_put(w, params, CHANNEL_DIM, v->channel_dim);
    x_put(w, params, CHANNEL_CONSTANT, v->scales);
    x_put(w, params, CHANNEL_N_SCALES, v->n_scales);
    x_link(w, params, CHANNEL_SCALES, x_list(w, NULL, 0));
  } else {
    x_put(w, params, GROUP_CHANNEL_DIM, v->channel_dim);
    x_put(w, params, GROUP_SIZE, v->group_size);
    x_put(w, params, GROUP_CONSTANT, v->scales);
    x_put(w, params, GROUP_N_SCALES, v->n_scales);
    x_link(w, params, GROUP_SCALES, x_list(w, NULL, 0));
    x_link(w, params, GROUP_SCALES_BF16, x_list(w, NULL, 0));
  }
}

static inline size_t x_write_value(writer *w, const x_value *v, uint32_t id) {
  const size_t entry = x_table(w, 2);
  x_put(w, entry, VALUE_KIND, v->quantization == 0 ? VALUE_TENSOR : VALUE_QUANTIZED);
  if (v->quantization == 0) {
    const size_t tensor = x_table(w, 8);
    x_link(w, entry, VALUE_UNION, tensor);
    x_tensor(w, tensor, v, id);
    return entry;
  }
  const size_t quantized = x_table(w, 3);
  x_link(w, entry, VALUE_UNION, quantized);
  const size_t tensor = x_table(w, 8);
  x_link(w, quantized, QUANTIZED_TENSOR, tensor);
  x_tensor(w, tensor, v, id);
  x_quantization(w, quantized, v);
  return entry;
}

static inline size_t x_write_node(writer *w, const x_node *n, uint32_t number) {
  const size_t entry = w_table(w, n->has_bounds ? 0xfu : 0x7u);
  w_set(w, entry, NODE_KIND, n->code);
  w_set(w, entry, NODE_DEBUG_HANDLE, 100 + number);
  const size_t table = x_table(w, n->n_slots);
  w_u32(w, entry + 8 + 8 * NODE_UNION, (uint32_t)(table - (entry + 8 + 8 * NODE_UNION)));
  for (unsigned k = 0; k < n->n_slots; k++) x_put(w, table, k, n->slots[k]);
  for (unsigned k = 0; k < 3; k++) {
    if (n->n_list[k] > 0) x_link(w, table, k, x_list(w, n->lists[k], n->n_list[k]));
  }
  if (n->has_bounds) {
    const size_t bounds = x_table(w, 2);
    x_put(w, bounds, MIN_MAX_MIN, x_bits(n->min));
    x_put(w, bounds, MIN_MAX_MAX, x_bits(n->max));
    w_u32(w, entry + 8 + 8 * NODE_MIN_MAX, (uint32_t)(bounds - (entry + 8 + 8 * NODE_MIN_MAX)));
  }
  return entry;
}

// Room for n offsets to tables, as a field of the root.
static inline size_t x_tables(writer *w, size_t root, unsigned slot, size_t n) {
  const size_t at = w_claim(w, 4 + 4 * n);
  w_u32(w, at, (uint32_t)n);
  w_u32(w, root + 8 + 8 * slot, (uint32_t)(at - (root + 8 + 8 * slot)));
  return at + 4;
}

static inline void x_write_constants(writer *w, const x_graph *g, size_t list, size_t *data_bytes) {
  for (size_t i = 0; i < g->n_constants; i++) {
    const x_constant *c = &g->constants[i];
    const size_t entry = w_table(w, c->key != NULL ? 0x7u : 0x3u);
    w_u32(w, list + 4 * i, (uint32_t)(entry - (list + 4 * i)));
    w_set(w, entry, CONSTANT_OFFSET, c->key != NULL ? UINT64_MAX : *data_bytes);
    w_set(w, entry, CONSTANT_SIZE, c->size);
    if (c->key != NULL) {
      const size_t n = strlen(c->key), text = w_claim(w, 4 + n + 1);
      w_u32(w, text, (uint32_t)n);
      memcpy(w->bytes + text + 4, c->key, n + 1);
      w_u32(w, entry + 8 + 8 * CONSTANT_KEY, (uint32_t)(text - (entry + 8 + 8 * CONSTANT_KEY)));
    } else {
      *data_bytes += (c->size + 15) & ~(size_t)15;
    }
  }
}

// The elements of a vector of bytes are aligned to 16, like those of Buffer.
static inline void x_write_buffers(writer *w, const x_graph *g, size_t list) {
  for (size_t i = 0; i < g->n_constants; i++) {
    const x_constant *c = &g->constants[i];
    const size_t entry = w_table(w, c->data != NULL ? 0x1u : 0x0u);
    w_u32(w, list + 4 * i, (uint32_t)(entry - (list + 4 * i)));
    if (c->data == NULL) continue;
    const size_t at = w_claim(w, 32 + c->size), count = (at + 4 + 15) / 16 * 16 - 4;
    w_u32(w, count, (uint32_t)c->size);
    memcpy(w->bytes + count + 4, c->data, c->size);
    w_link(w, entry, BUFFER_STORAGE, count);
  }
}

// A whole payload with its header; free() its bytes.
static inline writer x_write(const x_graph *g) {
  writer w = {0};
  size_t data_bytes = 0;
  const size_t header = w_claim(&w, 32), graph = w_claim(&w, 8);
  const unsigned constants_slot = g->has_buffers ? GRAPH_BUFFERS : GRAPH_CONSTANTS;
  const size_t root = w_table(
      &w, 1u << GRAPH_NODES | 1u << GRAPH_VALUES | 1u << GRAPH_N_EXTERNS | 1u << constants_slot);
  w_u32(&w, graph, (uint32_t)(root - graph));
  memcpy(w.bytes + graph + 4, g->identifier == NULL ? "XN01" : g->identifier, 4);
  w_set(&w, root, GRAPH_N_EXTERNS, g->n_externs);
  const size_t nodes = x_tables(&w, root, GRAPH_NODES, g->n_nodes);
  for (size_t i = 0; i < g->n_nodes; i++) {
    const size_t at = x_write_node(&w, &g->nodes[i], (uint32_t)i);
    w_u32(&w, nodes + 4 * i, (uint32_t)(at - (nodes + 4 * i)));
  }
  const size_t values = x_tables(&w, root, GRAPH_VALUES, g->n_values);
  for (size_t i = 0; i < g->n_values; i++) {
    const size_t at = x_write_value(&w, &g->values[i], (uint32_t)i);
    w_u32(&w, values + 4 * i, (uint32_t)(at - (values + 4 * i)));
  }
  const size_t constants = x_tables(&w, root, constants_slot, g->n_constants);
  if (g->has_buffers) {
    x_write_buffers(&w, g, constants);
  } else {
    x_write_constants(&w, g, constants, &data_bytes);
  }
  (void)w_claim(&w, (16 - w.size % 16) % 16);
  const size_t graph_bytes = w.size - graph, data = w_claim(&w, data_bytes);
  for (size_t i = 0, at = data; i < g->n_constants && !g->has_buffers; i++) {
    const x_constant *c = &g->constants[i];
    if (c->key != NULL || c->size == 0) continue;
    memcpy(w.bytes + at, c->data, c->size);
    at += (c->size + 15) & ~(size_t)15;
  }
  memcpy(w.bytes + header + 4, "XH00", 4);
  memcpy(w.bytes + header + 8, (uint16_t[]){30}, 2);
  w_u32(&w, header + 10, (uint32_t)graph);
  w_u32(&w, header + 14, (uint32_t)graph_bytes);
  w_u32(&w, header + 18, (uint32_t)data);
  memcpy(w.bytes + header + 22, (uint64_t[]){data_bytes}, 8);
  return w;
}

#endif  // ET_XNN_WRITER_H
