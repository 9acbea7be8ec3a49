// weights_key.c — names packed weights for a cache that outlives the graph. XNNPACK asks its cache
// by the addresses of a filter and a bias; whether what is found there is what it would pack
// depends on much more, all of which goes into the name: the node's parameters, the types, shapes
// and scales of its operands and of its result, and the keys under which the constants lie in named
// data.
#include <string.h>

#include "backends/xnnpack/subgraph/subgraph_builder.h"

enum { MOST_BYTES = 2048 };

typedef struct text {
  uint8_t bytes[MOST_BYTES];
  size_t n;
  bool is_complete;
} text;

static void add(text *t, const void *data, size_t bytes) {
  if (bytes > MOST_BYTES - t->n) {
    t->is_complete = false;
    return;
  }
  memcpy(t->bytes + t->n, data, bytes);
  t->n += bytes;
}

static void add_number(text *t, uint64_t number) {
  add(t, &number, sizeof number);
}

static void add_key(text *t, const eti_xnn_source *source) {
  if (source->key == NULL) {
    t->is_complete = t->is_complete && source->data == NULL;  // has bytes but no key
    return;
  }
  add(t, source->key, strlen(source->key) + 1);
}

static void add_value(text *t, const eti_xnn_value *v) {
  add_number(t, (uint64_t)v->datatype << 8 | v->quantization);
  add(t, &v->scale, sizeof v->scale);
  add(t, &v->zero_point, sizeof v->zero_point);
  if (!v->is_constant) return;
  add_number(t, v->shape.rank);
  for (uint32_t d = 0; d < v->shape.rank; d++) add_number(t, v->shape.dims[d]);
  add_number(t, v->channel_dim);
  add_number(t, v->group_size);
  add_number(t, (uint64_t)v->n_scales << 1 | v->scales_are_bf16);
  add_key(t, &v->bytes);
  add_key(t, &v->scales);
}

static void add_window(text *t, const eti_xnn_window *p) {
  const uint32_t numbers[] = {p->kernel[0],   p->kernel[1],     p->stride[0],    p->stride[1],
                              p->dilation[0], p->dilation[1],   p->padding[0],   p->padding[1],
                              p->padding[2],  p->padding[3],    p->group_inputs, p->group_outputs,
                              p->groups,      p->adjustment[0], p->adjustment[1]};
  add(t, numbers, sizeof numbers);
}

static bool has_window(uint8_t family) {
  return family == XNN_FAMILY_CONV || family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_DECONV;
}

void eti_xnn_tell_weights(const eti_xnn_builder *b, const eti_xnn_node *node) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool packs =
      has_window(family) || family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_MATMUL;
  if (b->config->on_weights == NULL || !packs) return;
  const uint32_t filter = node->inputs[1];
  const uint32_t bias = node->n_inputs > 2 ? node->inputs[2] : ETI_XNN_NONE;
  const void *const kernel = b->addresses[filter];
  const void *const bias_data = bias == ETI_XNN_NONE ? NULL : b->addresses[bias];
  if (kernel == NULL || (bias != ETI_XNN_NONE && bias_data == NULL)) return;
  text t = {.is_complete = true};
  add_number(&t, (uint64_t)node->kind << 32 | node->flags);
  if (has_window(family)) add_window(&t, &node->p.window);
  add_value(&t, &b->payload->values[node->inputs[0]]);
  add_value(&t, &b->payload->values[node->outputs[0]]);
  add_value(&t, &b->payload->values[filter]);
  if (bias != ETI_XNN_NONE) add_value(&t, &b->payload->values[bias]);
  if (t.is_complete)
    b->config->on_weights(b->config->on_weights_ctx, kernel, bias_data, t.bytes, t.n);
}
