// message_text.c — see message_text.h. Relies on nothing but et.h; compiles to nothing in builds
// without messages.
#include "runtime/message_text.h"

#include "runtime/check.h"

#include <string.h>

#if ET_MESSAGES

const char *eti_kind_name(const et_value *v) {
  static const char *const names[] = {"None",    "Tensor",     "String",   "Double",
                                      "Int",     "Bool",       "BoolList", "DoubleList",
                                      "IntList", "TensorList", "(tag 10)", "OptionalTensorList"};
  if (v == NULL) return "nothing";
  return v->tag < sizeof names / sizeof names[0] ? names[v->tag] : "an unknown kind";
}

static size_t put(eti_text *out, size_t n, const char *text) {
  const size_t length = strlen(text);
  ET_ASSERT(n + length < sizeof out->text);
  memcpy(out->text + n, text, length + 1);
  return n + length;
}

static size_t put_number(eti_text *out, size_t n, int64_t v) {
  char digits[24];
  size_t at = sizeof digits - 1;
  digits[at] = '\0';
  const bool is_negative = v < 0;
  if (is_negative) v = -v;
  do {
    digits[--at] = (char)('0' + v % 10);
    v /= 10;
  } while (v > 0);
  if (is_negative) digits[--at] = '-';
  return put(out, n, digits + at);
}

eti_text eti_value_text(const et_value *v) {
  eti_text out;
  size_t n = 0;
  const et_tensor *const t = v != NULL && v->tag == ET_TENSOR ? v->as.tensor : NULL;
  if (t != NULL) {
    n = put(&out, n, et_dtype_name((et_dtype)t->dtype));
    n = put(&out, n, " ");
  }
  n = put(&out, n, eti_kind_name(v));
  if (t != NULL) {
    n = put(&out, n, " of rank ");
    n = put_number(&out, n, t->rank);
  }
  return out;
}

// The list "[…]" of the sizes, or of the dim order where there are no sizes.
static eti_text list_text(const int32_t *sizes, const uint8_t *dim_order, size_t rank) {
  enum { LONGEST_MEMBER = 16 };  // ", ", eleven digits, "…"
  eti_text out;
  size_t n = put(&out, 0, "[");
  for (size_t d = 0; d < rank; d++) {
    if (n + LONGEST_MEMBER + sizeof "]" > sizeof out.text) {
      n = put(&out, n, "…");
      break;
    }
    if (d > 0) n = put(&out, n, ", ");
    n = put_number(&out, n, sizes != NULL ? sizes[d] : dim_order != NULL ? dim_order[d] : (int)d);
  }
  (void)put(&out, n, "]");
  return out;
}

eti_text eti_sizes_text(const int32_t *sizes, size_t rank) {
  return list_text(sizes, NULL, rank);
}

eti_text eti_dim_order_text(const uint8_t *dim_order, size_t rank) {
  return list_text(NULL, dim_order, rank);
}

#endif
