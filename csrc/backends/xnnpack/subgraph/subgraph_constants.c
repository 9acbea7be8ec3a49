// subgraph_constants.c — loads constants as XNNPACK reads them. They are used in place whenever
// possible, and copied only if they are misaligned, if XNN_EXTRA_BYTES beyond their end may be
// unmapped, or if their elements have to be widened.
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

#define SMALLEST_PAGE 4096u

// Whether the XNN_EXTRA_BYTES that XNNPACK may read past an array's end are in the page of its last
// byte, which is mapped.
static bool ends_within_page(const uint8_t *data, size_t bytes) {
  const uintptr_t last = (uintptr_t)data + bytes - 1;
  return last / SMALLEST_PAGE == (last + XNN_EXTRA_BYTES) / SMALLEST_PAGE;
}

// Whether the bytes of a blob stay in place when the blob is released.
static bool is_in_memory(const eti_xnn_constant *constant) {
  const et_source *const source = constant->blob.source;
  const et_source memory = et_source_from_memory(NULL, 0);
  return source != NULL && source->load == memory.load;
}

// The known end of the readable bytes around a constant: the end of the payload, or of a whole file
// in memory. Without it most weights of a network, which fill their pages, would be copied.
static const uint8_t *readable_end(const eti_xnn_builder *b, const eti_xnn_constant *constant) {
  if (constant == NULL) return b->config->payload + b->config->payload_bytes;
  if (!is_in_memory(constant)) return NULL;
  const et_source *const source = constant->blob.source;
  return (const uint8_t *)source->ctx + source->size;
}

static bool is_readable_beyond(const eti_xnn_builder *b, const eti_xnn_constant *constant,
                               const uint8_t *data, size_t bytes) {
  if (ends_within_page(data, bytes)) return true;
  const uintptr_t end = (uintptr_t)readable_end(b, constant);
  return end >= XNN_EXTRA_BYTES && (uintptr_t)data + bytes <= end - XNN_EXTRA_BYTES;
}

// Gets the bytes of a source; *constant: the entry that holds their blob, NULL for the payload's.
static et_status get_bytes(eti_xnn_builder *b, uint32_t value, const eti_xnn_source *source,
                           size_t needed, const uint8_t **data, eti_xnn_constant **constant) {
  *constant = NULL;
  *data = source->data;
  if (source->key == NULL) return ET_OK;
  eti_xnn_graph_state *state = b->state;
  et_blob blob;
  const et_status status = state->named.get(state->named.ctx, source->key, &blob, b->err);
  if (status != ET_OK) {
    ET_CONTEXT(b->err, "value %lu: ", (unsigned long)value);
    return status;
  }
  *constant = &state->constants[state->n_constants++];
  **constant = (eti_xnn_constant){.blob = blob};
  ET_CHECK(blob.size >= needed, b->err, ET_INVALID_EXTERNAL_DATA,
           "value %lu: named data '%s': expected at least %zu bytes, got %zu", (unsigned long)value,
           source->key, needed, blob.size);
  *data = blob.data;
  return ET_OK;
}

// Releases the blob of the last get_bytes.
static void release_last(eti_xnn_builder *b, const eti_xnn_constant *constant) {
  if (constant == NULL) return;
  eti_xnn_graph_state *state = b->state;
  state->n_constants--;
  if (state->named.release != NULL)
    state->named.release(state->named.ctx, &state->constants[state->n_constants].blob);
}

// Records the use of bytes, for eti_xnn_discardable.
static void record_use(eti_xnn_builder *b, const eti_xnn_constant *constant, const uint8_t *data,
                       size_t bytes, eti_xnn_constant_use use) {
  if (constant == NULL || is_in_memory(constant))
    eti_xnn_discardable_add(&b->state->discardable, data, bytes, use);
}

static eti_xnn_build_arena *arena_for(eti_xnn_builder *b, uint32_t value) {
  return b->is_packed[value] ? &b->state->build_arena : &b->state->graph_arena;
}

et_status eti_xnn_constant_bytes(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const size_t bytes = v->constant_bytes;
  const unsigned bits = eti_xnn_datatype_bits(v->datatype);
  const uint8_t *data;
  eti_xnn_constant *constant;
  ET_TRY(get_bytes(b, value, &v->bytes, bytes, &data, &constant));
  if (!eti_is_aligned(data, bits < 8 ? 1 : bits / 8) ||
      !is_readable_beyond(b, constant, data, bytes)) {
    void *copy;
    ET_TRY(eti_xnn_build_arena_alloc(arena_for(b, value), 1, bytes, &copy, b->err));
    memcpy(copy, data, bytes);
    record_use(b, constant, data, bytes, ETI_XNN_DISCARDABLE);
    release_last(b, constant);
    data = copy;
  } else {
    record_use(b, constant, data, bytes, b->is_packed[value] ? ETI_XNN_TO_PACK : ETI_XNN_IN_PLACE);
    if (constant != NULL) constant->is_packed = b->is_packed[value];
    b->uses_payload = b->uses_payload || (constant == NULL && !b->is_packed[value]);
  }
  b->addresses[value] = data;
  *out = data;
  return ET_OK;
}

et_status eti_xnn_constant_f32(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const size_t n = v->constant_bytes / 2;
  const uint8_t *data;
  eti_xnn_constant *constant;
  void *memory;
  ET_TRY(get_bytes(b, value, &v->bytes, v->constant_bytes, &data, &constant));
  ET_TRY(eti_xnn_build_arena_alloc(arena_for(b, value), n, sizeof(float), &memory, b->err));
  float *wide = memory;
  for (size_t i = 0; i < n; i++) {
    const uint16_t half = eti_u16(data + 2 * i);
    wide[i] = v->datatype == ETI_XNN_bf16 ? eti_bf16_to_f32(half) : eti_f16_to_f32(half);
  }
  record_use(b, constant, data, v->constant_bytes, ETI_XNN_DISCARDABLE);
  release_last(b, constant);
  b->addresses[value] = wide;
  *out = wide;
  return ET_OK;
}

static et_status check_scale(const eti_xnn_builder *b, uint32_t value, size_t i, float scale) {
  ET_CHECK(isnormal(scale) && scale > 0, b->err, ET_INVALID_PROGRAM,
           "value %lu: expected a normal, positive scale %zu, got %g", (unsigned long)value, i,
           (double)scale);
  return ET_OK;
}

et_status eti_xnn_constant_scales(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const bool is_group = v->quantization == QUANT_GROUP;
  const size_t n = v->n_scales, each = v->scales_are_bf16 ? 2 : 4;
  const uint8_t *data;
  eti_xnn_constant *constant;
  void *memory;
  ET_TRY(get_bytes(b, value, &v->scales, n * each, &data, &constant));
  ET_TRY(eti_xnn_build_arena_alloc(&b->state->build_arena, n + XNN_EXTRA_QUANTIZATION_PARAMS,
                                   is_group ? sizeof(uint16_t) : sizeof(float), &memory, b->err));
  for (size_t i = 0; i < n; i++) {
    if (!is_group) {
      const float scale = eti_f32_from_bits(eti_u32(data + 4 * i));
      ET_TRY(check_scale(b, value, i, scale));
      ((float *)memory)[i] = scale;
      continue;
    }
    // Upstream: rounds floats up by a factor, then truncates.
    const float wide =
        v->scales_are_bf16 ? 0 : eti_f32_from_bits(eti_u32(data + 4 * i)) * 1.00389105f;
    const uint16_t half =
        v->scales_are_bf16 ? eti_u16(data + 2 * i) : (uint16_t)(eti_f32_bits(wide) >> 16);
    ET_TRY(check_scale(b, value, i, eti_bf16_to_f32(half)));
    ((uint16_t *)memory)[i] = half;
  }
  record_use(b, constant, data, n * each, ETI_XNN_DISCARDABLE);
  release_last(b, constant);
  *out = memory;
  return ET_OK;
}
