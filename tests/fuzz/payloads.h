// payloads.h — delegate payloads inside a file: their offsets, an estimate of the work of a run
// (long runs are left out: the test is for memory safety, not for endurance), and a mutator.
#ifndef ET_FUZZ_PAYLOADS_H
#define ET_FUZZ_PAYLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Changes one field of a sound payload; mutate_xnnpack.c.
void fuzz_change_payload(uint8_t *bytes, size_t size, unsigned seed);

// The offset of the first payload at or after `from`, a multiple of 16 like that of segments;
// `size` if there is none.
static inline size_t fuzz_find_payload(const uint8_t *bytes, size_t size, size_t from) {
  for (size_t at = (from + 15) / 16 * 16; at + 32 <= size; at += 16) {
    if (memcmp(bytes + at + 4, "XH00", 4) == 0) return at;
  }
  return size;
}

#ifdef ET_HAVE_XNNPACK
#include "backends/xnnpack/payload/payload.h"

#include <stdlib.h>

#define FUZZ_MAX_WORK 2e7  // multiplications, about

static inline double fuzz_work_of(const eti_xnn_node *node, const eti_xnn_shape *shapes) {
  double one = 1, filter = 1;
  const eti_xnn_shape *out = &shapes[node->outputs[0]], *in = &shapes[node->inputs[0]];
  const eti_xnn_family family = (eti_xnn_family)eti_xnn_kind_of(node)->family;
  for (uint32_t d = 0; d < out->rank; d++) one *= (double)out->dims[d];
  if (family == XNN_FAMILY_UNARY || family == XNN_FAMILY_BINARY || family == XNN_FAMILY_SLICE)
    return one;  // work for each element of the result
  for (uint32_t d = 0; d < in->rank; d++) filter *= d > 0 ? (double)in->dims[d] : 1;
  if (family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_MATMUL)
    filter = in->rank > 0 ? (double)in->dims[in->rank - 1] : 1;
  if (family == XNN_FAMILY_CONV || family == XNN_FAMILY_DECONV)
    filter =
        (double)node->p.window.kernel[0] * node->p.window.kernel[1] * node->p.window.group_inputs;
  if (family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_AVG_POOL ||
      family == XNN_FAMILY_MAX_POOL || family == XNN_FAMILY_ARG_MAX)
    filter = (double)node->p.window.kernel[0] * node->p.window.kernel[1];
  return one * (family == XNN_FAMILY_MEAN || node->n_inputs > 1 || filter > 0 ? filter : 1);
}

// Whether a run of a payload would take long; false for a payload that cannot run.
static inline bool fuzz_is_too_much(const uint8_t *bytes, size_t size,
                                    const struct xnn_allocator *allocator) {
  eti_xnn_build_arena arena = {.allocator = allocator};
  eti_xnn_payload payload;
  et_error err;
  double work = 0;
  if (eti_xnn_payload_read(bytes, size, &arena, &payload, &err) == ET_OK) {
    eti_xnn_shape *shapes = calloc(payload.n_values + 1, sizeof *shapes);
    if (shapes == NULL) abort();
    for (size_t i = 0; i < payload.n_values; i++) shapes[i] = payload.values[i].shape;
    const bool is_sound = eti_xnn_infer_shapes(&payload, shapes, &err) == ET_OK;
    for (size_t i = 0; is_sound && i < payload.n_nodes; i++)
      work += fuzz_work_of(&payload.nodes[i], shapes);
    free(shapes);
  }
  eti_xnn_build_arena_free(&arena);
  return work > FUZZ_MAX_WORK;
}
#endif

#endif  // ET_FUZZ_PAYLOADS_H
