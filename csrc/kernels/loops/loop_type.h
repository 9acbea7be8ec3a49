// loop_type.h — the signature of elementwise loops, shared by tables of micro-kernels and by
// iteration over tensors.
#ifndef ET_LOOP_TYPE_H
#define ET_LOOP_TYPE_H

#include <stddef.h>

// One row: p[i] and s[i] are pointer and byte stride of operand i (0 is the output, stride 0
// repeats one element). n ≥ 1.
typedef void (*eti_loop)(void *const p[], const ptrdiff_t s[], size_t n, const void *params);

#endif  // ET_LOOP_TYPE_H
