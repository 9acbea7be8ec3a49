// order.h — the order of elements, as numbers: keys that compare as the values do, with NaN last
// and both zeros equal. Every kernel that sorts shares it. Relies on et_dtype alone.
#ifndef ET_ORDER_H
#define ET_ORDER_H

#include "runtime/et.h"

typedef uint64_t (*eti_key_fn)(const void *element);

#define ETI_KEY_NAN UINT64_MAX  // of floating-point types; other types may have it, too

extern const eti_key_fn eti_order_keys[ET_DTYPE_COUNT];  // NULL where there is no order

#endif  // ET_ORDER_H
