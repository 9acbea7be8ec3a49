// contract.h — predicates for the contracts of loops and micro-kernels, used with ET_ASSERT at the
// head of each entry point. Debug builds check them for every instruction set; release builds have
// none of their code. Overlap of operands is not checked: a damaged file may cause it, and then
// gets other numbers, never other memory. Relies on runtime/check.h.
#ifndef ET_KERNELS_CONTRACT_H
#define ET_KERNELS_CONTRACT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/check.h"

// True if p can hold n elements of a type: an aligned address; any address for none.
#define ETI_HOLDS(p, n, type) \
  ((n) == 0 || ((p) != NULL && (uintptr_t)(const void *)(p) % _Alignof(type) == 0))

// True if p has such an address, or is NULL because the operand is absent.
#define ETI_HOLDS_OR_NULL(p, type) ((uintptr_t)(const void *)(p) % _Alignof(type) == 0)

#endif  // ET_KERNELS_CONTRACT_H
