// protobuf.h — the fields of a message of Protocol Buffers, one after the other.
#ifndef ET_LLM_PROTOBUF_H
#define ET_LLM_PROTOBUF_H

#include "llm/text/text.h"
#include "runtime/et.h"

typedef struct eti_protobuf {
  eti_string message;
  size_t at;
  const char *name;  // of the message, for errors
  et_error *err;
} eti_protobuf;

static inline eti_protobuf eti_protobuf_over(eti_string message, const char *name, et_error *err) {
  return (eti_protobuf){message, 0, name, err};
}

typedef enum eti_protobuf_type {
  ETI_PROTOBUF_VARINT = 0,
  ETI_PROTOBUF_FIXED64 = 1,
  ETI_PROTOBUF_BYTES = 2,
  ETI_PROTOBUF_FIXED32 = 5,
} eti_protobuf_type;

typedef struct eti_protobuf_field {
  uint32_t number;
  eti_protobuf_type type;
  uint64_t value;    // of numbers
  eti_string bytes;  // of texts and messages
} eti_protobuf_field;

// The next field; false at the end, and after an error, which is then in *status.
bool eti_protobuf_next(eti_protobuf *reader, eti_protobuf_field *field, et_status *status);

// Whether a field has this number and type.
static inline bool eti_protobuf_is(const eti_protobuf_field *field, uint32_t number,
                                   eti_protobuf_type type) {
  return field->number == number && field->type == type;
}

// The value of a field of type float.
float eti_protobuf_float(const eti_protobuf_field *field);

#endif  // ET_LLM_PROTOBUF_H
