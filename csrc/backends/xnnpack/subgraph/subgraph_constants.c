// subgraph_constants.c — brings constants to memory as XNNPACK reads them. They are used where they
// lie whenever possible: copied only when misaligned, when reading a little beyond their end could
// leave a page, or when their elements must become wider.
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

#define SMALLEST_PAGE 4096u

// XNNPACK reads XNN_EXTRA_BYTES beyond an array's end. Within the page of its last byte that is
// harmless, whatever lies there.
static bool ends_within_page(const uint8_t *data, size_t bytes) {
  const uintptr_t last = (uintptr_t)data + bytes - 1;
  return last / SMALLEST_PAGE == (last + XNN_EXTRA_BYTES) / SMALLEST_PAGE;
}

// Whether it stays where it is without being held.
static bool is_in_memory(const eti_xnn_constant *constant) {
  const et_source *const source = constant->blob.source;
  const et_source memory = et_source_from_memory(NULL, 0);
  return source != NULL && source->load == memory.load;
}

// Where the bytes end that are readable around a constant, as far as that is known: the payload's,
// or a whole file's that lies in memory. Most weights of a network fill their pages, and would have
// to be copied otherwise.
static const uint8_t *readable_end(const eti_xnn_builder *b, const eti_xnn_constant *constant) {
  if (constant == NULL) return b->config->payload + b->config->payload_bytes;
  if (!is_in_memory(constant)) return NULL;
  const et_source *const source = constant->blob.source;
  return (const uint8_t *)source->ctx + source->size;
}

static bool may_be_read_beyond(const eti_xnn_builder *b, const eti_xnn_constant *constant,
                               const uint8_t *data, size_t bytes) {
  if (ends_within_page(data, bytes)) return true;
  const uintptr_t end = (uintptr_t)readable_end(b, constant);
  return end >= XNN_EXTRA_BYTES && (uintptr_t)data + bytes <= end - XNN_EXTRA_BYTES;
}

// Gets a source's bytes; `constant` is the entry that holds them, NULL for those of the payload.
static et_status get(eti_xnn_builder *b, uint32_t value, const eti_xnn_source *source,
                     size_t needed, const uint8_t **data, eti_xnn_constant **constant) {
  *constant = NULL;
  *data = source->data;
  if (source->key == NULL) return ET_OK;
  eti_xnn_built *built = b->built;
  et_blob blob;
  const et_status status = built->named.get(built->named.ctx, source->key, &blob, b->err);
  if (status != ET_OK) {
    ET_CONTEXT(b->err, "value %lu: ", (unsigned long)value);
    return status;
  }
  *constant = &built->constants[built->n_constants++];
  **constant = (eti_xnn_constant){.blob = blob};
  ET_CHECK(blob.size >= needed, b->err, ET_INVALID_EXTERNAL_DATA,
           "value %lu: named data '%s' has %zu bytes, %zu are needed", (unsigned long)value,
           source->key, blob.size, needed);
  *data = blob.data;
  return ET_OK;
}

// The last blob that was got is not needed any longer.
static void put_back(eti_xnn_builder *b, const eti_xnn_constant *constant) {
  if (constant == NULL) return;
  eti_xnn_built *built = b->built;
  built->n_constants--;
  if (built->named.release != NULL)
    built->named.release(built->named.ctx, &built->constants[built->n_constants].blob);
}

// Notes what becomes of the bytes that were got.
static void note_use(eti_xnn_builder *b, const eti_xnn_constant *constant, const uint8_t *data,
                     size_t bytes, eti_xnn_use use) {
  if (constant == NULL || is_in_memory(constant))
    eti_xnn_spent_add(&b->built->spent, data, bytes, use);
}

static eti_xnn_heap *heap_for(eti_xnn_builder *b, uint32_t value) {
  return b->is_packed[value] ? &b->built->temporary : &b->built->kept;
}

et_status eti_xnn_constant_bytes(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const size_t bytes = v->constant_bytes;
  const unsigned bits = eti_xnn_datatype_bits(v->datatype);
  const uint8_t *data;
  eti_xnn_constant *constant;
  ET_TRY(get(b, value, &v->bytes, bytes, &data, &constant));
  if (!eti_is_aligned(data, bits < 8 ? 1 : bits / 8) ||
      !may_be_read_beyond(b, constant, data, bytes)) {
    void *copy;
    ET_TRY(eti_xnn_take(heap_for(b, value), 1, bytes, &copy, b->err));
    memcpy(copy, data, bytes);
    note_use(b, constant, data, bytes, ETI_XNN_READ_ONCE);
    put_back(b, constant);
    data = copy;
  } else {
    note_use(b, constant, data, bytes, b->is_packed[value] ? ETI_XNN_TO_PACK : ETI_XNN_IN_PLACE);
    if (constant != NULL) constant->is_packed = b->is_packed[value];
    b->uses_payload = b->uses_payload || (constant == NULL && !b->is_packed[value]);
  }
  b->addresses[value] = data;
  *out = data;
  return ET_OK;
}

et_status eti_xnn_constant_floats(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const size_t n = v->constant_bytes / 2;
  const uint8_t *data;
  eti_xnn_constant *constant;
  void *room;
  ET_TRY(get(b, value, &v->bytes, v->constant_bytes, &data, &constant));
  ET_TRY(eti_xnn_take(heap_for(b, value), n, sizeof(float), &room, b->err));
  float *wide = room;
  for (size_t i = 0; i < n; i++) {
    const uint16_t half = eti_u16(data + 2 * i);
    wide[i] = v->datatype == ETI_XNN_bf16 ? eti_bf16_to_f32(half) : eti_f16_to_f32(half);
  }
  note_use(b, constant, data, v->constant_bytes, ETI_XNN_READ_ONCE);
  put_back(b, constant);
  b->addresses[value] = wide;
  *out = wide;
  return ET_OK;
}

static et_status check_scale(const eti_xnn_builder *b, uint32_t value, size_t i, float scale) {
  ET_CHECK(isnormal(scale) && scale > 0, b->err, ET_INVALID_PROGRAM,
           "value %lu: scale %zu is %g; needs a normal, positive number", (unsigned long)value, i,
           (double)scale);
  return ET_OK;
}

et_status eti_xnn_constant_scales(eti_xnn_builder *b, uint32_t value, const void **out) {
  const eti_xnn_value *v = &b->payload->values[value];
  const bool is_group = v->quantization == QUANT_GROUP;
  const size_t n = v->n_scales, each = v->scales_are_bf16 ? 2 : 4;
  const uint8_t *data;
  eti_xnn_constant *constant;
  void *room;
  ET_TRY(get(b, value, &v->scales, n * each, &data, &constant));
  ET_TRY(eti_xnn_take(&b->built->temporary, n + XNN_EXTRA_QUANTIZATION_PARAMS,
                      is_group ? sizeof(uint16_t) : sizeof(float), &room, b->err));
  for (size_t i = 0; i < n; i++) {
    if (!is_group) {
      const float scale = eti_f32_from_bits(eti_u32(data + 4 * i));
      ET_TRY(check_scale(b, value, i, scale));
      ((float *)room)[i] = scale;
      continue;
    }
    // Upstream: rounds floats up by scaling, then cuts.
    const float wide =
        v->scales_are_bf16 ? 0 : eti_f32_from_bits(eti_u32(data + 4 * i)) * 1.00389105f;
    const uint16_t half =
        v->scales_are_bf16 ? eti_u16(data + 2 * i) : (uint16_t)(eti_f32_bits(wide) >> 16);
    ET_TRY(check_scale(b, value, i, eti_bf16_to_f32(half)));
    ((uint16_t *)room)[i] = half;
  }
  note_use(b, constant, data, n * each, ETI_XNN_READ_ONCE);
  put_back(b, constant);
  *out = room;
  return ET_OK;
}
