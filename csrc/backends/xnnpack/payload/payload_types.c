// payload_types.c — the payload's element types; the elements and bytes of a shape.
#include "backends/xnnpack/payload/payload.h"
#include "runtime/bytes.h"

typedef struct datatype_info {
  const char *name;
  uint8_t bits;
  bool is_activation;
  uint8_t scalar_type;
} datatype_info;

#define N_DATATYPE_CODES 15
static const datatype_info datatypes[N_DATATYPE_CODES] = {
#define XNN_DATATYPE(code, name, bits, is_activation, scalar_type) \
  [code] = {#name, bits, is_activation, scalar_type},
    XNN_DATATYPE_LIST(XNN_DATATYPE)
#undef XNN_DATATYPE
};

const char *eti_xnn_datatype_name(unsigned code) {
  return code < N_DATATYPE_CODES && datatypes[code].name != NULL ? datatypes[code].name : "?";
}

unsigned eti_xnn_datatype_bits(unsigned code) {
  return code < N_DATATYPE_CODES ? datatypes[code].bits : 0;
}

bool eti_xnn_is_activation(unsigned code) {
  return code < N_DATATYPE_CODES && datatypes[code].is_activation;
}

et_dtype eti_xnn_scalar_type(unsigned code) {
  return (et_dtype)datatypes[code].scalar_type;
}

bool eti_xnn_shape_bytes(unsigned datatype, const eti_xnn_shape *shape, size_t *bytes) {
  const unsigned bits = eti_xnn_datatype_bits(datatype);
  size_t n = 1, row = 1;
  for (uint32_t d = 0; d < shape->rank; d++) {
    if (shape->dims[d] == 0) return false;
    if (d + 1 == shape->rank && bits == 4) {
      row = shape->dims[d] / 2 + shape->dims[d] % 2;
    } else if (!eti_mul(n, shape->dims[d], &n)) {
      return false;
    }
  }
  // XNNPACK counts in bits and adds paddings unchecked: a small part of the address space is left.
  return eti_mul(n, row, &n) && eti_mul(n, bits == 4 ? 1 : bits / 8, &n) &&
         n <= (SIZE_MAX >> 8 < UINT64_C(1) << 48 ? SIZE_MAX >> 8 : UINT64_C(1) << 48) &&
         ((*bytes = n), true);
}

size_t eti_xnn_shape_count(const eti_xnn_shape *shape) {
  size_t n = 1;
  for (uint32_t d = 0; d < shape->rank; d++) n *= shape->dims[d];
  return n;
}
