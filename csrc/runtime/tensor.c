// tensor.c — shapes, strides and resizing. The only code that changes the sizes of a loaded tensor.
#include "runtime/tensor.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

size_t et_tensor_bytes(const et_tensor *t) {
  return t->numel * et_dtype_bytes((et_dtype)t->dtype);
}

bool eti_shape_numel(const int32_t *sizes, size_t rank, size_t element_bytes, size_t *numel) {
  ET_ASSERT(rank <= ET_MAX_RANK);
  size_t bytes = element_bytes, n = 1;
  for (size_t d = 0; d < rank; d++) {
    if (sizes[d] < 0 || !eti_mul(bytes, sizes[d] == 0 ? 1 : (size_t)sizes[d], &bytes)) return false;
    n *= (size_t)sizes[d];
  }
  *numel = n;
  return bytes <= PTRDIFF_MAX;
}

void eti_fill_strides(const int32_t *sizes, const uint8_t *dim_order, size_t rank,
                      ptrdiff_t *strides) {
  ptrdiff_t stride = 1;
  for (size_t k = rank; k-- > 0;) {
    const size_t d = dim_order[k];
    ET_ASSERT(d < rank && sizes[d] >= 0);
    strides[d] = stride;
    stride *= sizes[d] == 0 ? 1 : sizes[d];
  }
}

bool eti_is_permutation(const uint8_t *dim_order, size_t rank) {
  ET_ASSERT(rank <= ET_MAX_RANK);
  uint32_t seen = 0;
  for (size_t k = 0; k < rank; k++) {
    if (dim_order[k] >= rank) return false;
    seen |= 1u << dim_order[k];
  }
  return seen == (1u << rank) - 1;
}

static size_t next_wide(const int32_t *sizes, const uint8_t *order, size_t rank, size_t *k) {
  for (; *k < rank; (*k)++) {
    const size_t d = order == NULL ? *k : order[*k];
    if (sizes[d] != 1) return d;
  }
  return ET_MAX_RANK;
}

bool eti_same_order(const int32_t *sizes, const uint8_t *a, const uint8_t *b, size_t rank) {
  for (size_t i = 0, j = 0; i < rank; i++, j++) {
    if (next_wide(sizes, a, rank, &i) != next_wide(sizes, b, rank, &j)) return false;
  }
  return true;
}

et_status et_tensor_resize(et_tensor *t, const int32_t *sizes, size_t rank, et_error *err) {
  ET_CHECK(rank == t->rank, err, ET_NOT_SUPPORTED,
           "tensor: expected rank %d, which never changes, got %zu", t->rank, rank);
  size_t d = 0;
  while (d < rank && sizes[d] == t->sizes[d]) d++;
  if (d == rank) return ET_OK;
  ET_CHECK(t->flags & ET_TENSOR_DYNAMIC, err, ET_NOT_SUPPORTED,
           "tensor of static shape, dimension %zu: expected %ld, got %ld", d, (long)t->sizes[d],
           (long)sizes[d]);
  size_t numel;
  ET_CHECK(eti_shape_numel(sizes, rank, et_dtype_bytes((et_dtype)t->dtype), &numel) &&
               numel <= t->capacity,
           err, ET_NOT_SUPPORTED,
           "tensor, dimension %zu: expected sizes for at most the %zu elements planned, got %ld", d,
           t->capacity, (long)sizes[d]);
  memmove(t->sizes, sizes, rank * sizeof *sizes);
  eti_fill_strides(t->sizes, t->dim_order, rank, t->strides);
  t->numel = numel;
  return ET_OK;
}
