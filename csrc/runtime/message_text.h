// message_text.h — kinds of values, sizes and dim orders as texts in messages. Texts are returned
// by value, so that a message's arguments can call these functions. Builds without messages have
// empty ones.
#ifndef ET_MESSAGE_TEXT_H
#define ET_MESSAGE_TEXT_H

#include "runtime/config.h"
#include "runtime/et.h"

typedef struct eti_text {
  char text[80];
} eti_text;

#if ET_MESSAGES

// Name of a value's kind: "Tensor"; "nothing" for NULL.
const char *eti_kind_name(const et_value *v);

// Kind of a value, with the element type and rank of a tensor: "f32 Tensor of rank 2".
eti_text eti_value_text(const et_value *v);

// Lists such as "[2, 3]", shortened with "…" when they are too long. A dim order that is NULL is
// 0, 1, 2, …
eti_text eti_sizes_text(const int32_t *sizes, size_t rank);
eti_text eti_dim_order_text(const uint8_t *dim_order, size_t rank);

#else

static inline const char *eti_kind_name(const et_value *v) {
  (void)v;
  return "?";
}

static inline eti_text eti_value_text(const et_value *v) {
  (void)v;
  return (eti_text){""};
}

static inline eti_text eti_sizes_text(const int32_t *sizes, size_t rank) {
  (void)sizes, (void)rank;
  return (eti_text){""};
}

static inline eti_text eti_dim_order_text(const uint8_t *dim_order, size_t rank) {
  (void)dim_order, (void)rank;
  return (eti_text){""};
}

#endif

#endif  // ET_MESSAGE_TEXT_H
