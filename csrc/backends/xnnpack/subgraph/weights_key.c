// weights_key.c — makes the keys of packed weights for a cache that outlives the graph. XNNPACK
// looks up its cache by the addresses of a filter and a bias. The packed bytes depend on more. The
// key contains all of it: the node's parameters, the types, shapes and scales of its operands
// and of its result, and the keys of the constants in named data.
#include <string.h>

#include "backends/xnnpack/subgraph/subgraph_builder.h"

enum { MAX_BYTES = 2048, MAX_NAMES = 4 };

typedef struct key_bytes {
  uint8_t bytes[MAX_BYTES];
  size_t n;
  const char *names[MAX_NAMES];  // of filter, bias and the scales of both
  size_t n_names;
  bool is_complete;  // else the weights get no key
} key_bytes;

static void append(key_bytes *t, const void *data, size_t bytes) {
  if (bytes > MAX_BYTES - t->n) {
    t->is_complete = false;
    return;
  }
  memcpy(t->bytes + t->n, data, bytes);
  t->n += bytes;
}

static void append_number(key_bytes *t, uint64_t number) {
  append(t, &number, sizeof number);
}

static void append_data_key(key_bytes *t, const eti_xnn_source *source) {
  if (source->key == NULL) {
    t->is_complete = t->is_complete && source->data == NULL;  // else bytes without a key
    return;
  }
  append(t, source->key, strlen(source->key) + 1);
  t->names[t->n_names++] = source->key;
}

static void append_value(key_bytes *t, const eti_xnn_value *v) {
  append_number(t, (uint64_t)v->datatype << 8 | v->quantization);
  append(t, &v->scale, sizeof v->scale);
  append(t, &v->zero_point, sizeof v->zero_point);
  if (!v->is_constant) return;
  append_number(t, v->shape.rank);
  for (uint32_t d = 0; d < v->shape.rank; d++) append_number(t, v->shape.dims[d]);
  append_number(t, v->channel_dim);
  append_number(t, v->group_size);
  append_number(t, (uint64_t)v->n_scales << 1 | v->scales_are_bf16);
  append_data_key(t, &v->bytes);
  append_data_key(t, &v->scales);
}

static void append_window(key_bytes *t, const eti_xnn_window *p) {
  const uint32_t numbers[] = {p->kernel[0],   p->kernel[1],     p->stride[0],    p->stride[1],
                              p->dilation[0], p->dilation[1],   p->padding[0],   p->padding[1],
                              p->padding[2],  p->padding[3],    p->group_inputs, p->group_outputs,
                              p->groups,      p->adjustment[0], p->adjustment[1]};
  append(t, numbers, sizeof numbers);
}

static bool has_window(uint8_t family) {
  return family == XNN_FAMILY_CONV || family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_DECONV;
}

void eti_xnn_report_weights_key(const eti_xnn_builder *b, const eti_xnn_node *node) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool packs =
      has_window(family) || family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_MATMUL;
  if (b->config->on_weights_key == NULL || !packs) return;
  const uint32_t filter = node->inputs[1];
  const uint32_t bias = node->n_inputs > 2 ? node->inputs[2] : ETI_XNN_NONE;
  const void *const kernel = b->addresses[filter];
  const void *const bias_data = bias == ETI_XNN_NONE ? NULL : b->addresses[bias];
  if (kernel == NULL || (bias != ETI_XNN_NONE && bias_data == NULL)) return;
  key_bytes t = {.is_complete = true};
  append_number(&t, (uint64_t)node->kind << 32 | node->flags);
  if (has_window(family)) append_window(&t, &node->p.window);
  append_value(&t, &b->payload->values[node->inputs[0]]);
  append_value(&t, &b->payload->values[node->outputs[0]]);
  append_value(&t, &b->payload->values[filter]);
  if (bias != ETI_XNN_NONE) append_value(&t, &b->payload->values[bias]);
  if (t.is_complete)
    b->config->on_weights_key(b->config->on_weights_key_ctx, kernel, bias_data, t.bytes, t.n,
                              t.names, t.n_names);
}
