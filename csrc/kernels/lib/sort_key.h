// sort_key.h — sort keys of elements: integers that compare as the values do, with NaN last and
// both zeros equal. All kernels that sort use them. Relies on et_dtype alone.
#ifndef ET_SORT_KEY_H
#define ET_SORT_KEY_H

#include "runtime/et.h"

#include <stddef.h>
#include <stdint.h>

// Keys of types of at most 4 bytes fit in 32 bits.
typedef uint64_t (*eti_key_fn)(const void *element);

// The key of NaN in a floating-point type of the given size. Other types may use the value, too.
#define ETI_KEY_NAN(bytes) ((bytes) == 8 ? UINT64_MAX : UINT32_MAX)

extern const eti_key_fn eti_sort_keys[ET_DTYPE_COUNT];  // NULL where there is no order

// The keys of n elements `stride` bytes apart.
typedef void (*eti_keys_fn)(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys);
extern const eti_keys_fn eti_sort_key_rows[ET_DTYPE_COUNT];

// ---- sorting with scratch: numbers of 32 bits of key above 32 bits of position

// Sorts a[0..n) by the upper 32 bits, keeping the order of equal ones; returns a or b, where the
// result is.
uint64_t *eti_sort_by_key(uint64_t *a, uint64_t *b, size_t n);

// The positions (lower 32 bits) of n < 2^32 elements of a dtype in order, those of equal elements
// ascending, in work or work + n. flip: all ones of the keys' width to sort descending. Keys of 32
// bits stay in the upper bits, flipped.
uint64_t *eti_sort_positions(uint8_t dtype, const char *p, ptrdiff_t stride, size_t n,
                             uint64_t flip, uint64_t *work);

#endif  // ET_SORT_KEY_H
