#include "llm/formats/protobuf.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

#include <string.h>

static et_status read_varint(eti_protobuf *r, uint64_t *value) {
  const size_t begin = r->at;
  *value = 0;
  for (unsigned shift = 0; shift < 70 && r->at < r->message.n; shift += 7) {
    const uint8_t byte = r->message.bytes[r->at++];
    if (shift < 64) *value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return ET_OK;
  }
  return ET_FAIL(r->err, ET_INVALID_EXTERNAL_DATA,
                 "%s: expected a number of at most 10 bytes at byte %zu of %zu, got no end",
                 r->name, begin, r->message.n);
}

static et_status take(eti_protobuf *r, uint64_t n, eti_string *bytes) {
  ET_CHECK(n <= r->message.n - r->at, r->err, ET_INVALID_EXTERNAL_DATA,
           "%s: expected a field of %llu bytes at byte %zu of %zu, got its end before", r->name,
           (unsigned long long)n, r->at, r->message.n);
  *bytes = (eti_string){r->message.bytes + r->at, (size_t)n};
  r->at += (size_t)n;
  return ET_OK;
}

static et_status read_field(eti_protobuf *r, eti_protobuf_field *field) {
  const size_t begin = r->at;
  uint64_t tag, n;
  ET_TRY(read_varint(r, &tag));
  ET_CHECK(tag >> 3 >= 1 && tag >> 3 < 1u << 29, r->err, ET_INVALID_EXTERNAL_DATA,
           "%s: expected a field number from 1 to 2^29 - 1 at byte %zu, got %llu", r->name, begin,
           (unsigned long long)(tag >> 3));
  *field = (eti_protobuf_field){(uint32_t)(tag >> 3), (eti_protobuf_type)(tag & 7), 0, {NULL, 0}};
  switch (tag & 7) {
    case ETI_PROTOBUF_VARINT:
      return read_varint(r, &field->value);
    case ETI_PROTOBUF_BYTES:
      ET_TRY(read_varint(r, &n));
      return take(r, n, &field->bytes);
    case ETI_PROTOBUF_FIXED64:
      ET_TRY(take(r, 8, &field->bytes));
      field->value = eti_u64(field->bytes.bytes);
      return ET_OK;
    case ETI_PROTOBUF_FIXED32:
      ET_TRY(take(r, 4, &field->bytes));
      field->value = eti_u32(field->bytes.bytes);
      return ET_OK;
    default:
      return ET_FAIL(r->err, ET_INVALID_EXTERNAL_DATA,
                     "%s: expected a field of type 0, 1, 2 or 5 at byte %zu, got %d", r->name,
                     begin, (int)(tag & 7));
  }
}

bool eti_protobuf_next(eti_protobuf *r, eti_protobuf_field *field, et_status *status) {
  *status = ET_OK;
  if (r->at == r->message.n) return false;
  *status = read_field(r, field);
  return *status == ET_OK;
}

float eti_protobuf_float(const eti_protobuf_field *field) {
  const uint32_t bits = (uint32_t)field->value;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
