// order.h — the order of elements, as numbers: keys that compare as the values do, with NaN last
// and both zeros equal. Every kernel that sorts shares it. Relies on et_dtype alone.
#ifndef ET_ORDER_H
#define ET_ORDER_H

#include "runtime/et.h"

// Of types of at most 4 bytes, keys fit in 32 bits.
typedef uint64_t (*eti_key_fn)(const void *element);

// Of a floating-point type of so many bytes; other types may have it, too.
#define ETI_KEY_NAN(bytes) ((bytes) == 8 ? UINT64_MAX : UINT32_MAX)

extern const eti_key_fn eti_order_keys[ET_DTYPE_COUNT];  // NULL where there is no order

#endif  // ET_ORDER_H
