// loop.h — shared parts of loop templates: names, element access, and the promise that lets them
// vectorise. Operands of one call either coincide or do not overlap as far as results are defined,
// so contiguous loops are marked free of dependences. (A damaged file may break this; it then gets
// other numbers, never other memory.)
#ifndef ET_LOOP_H
#define ET_LOOP_H

#include "kernels/contract.h"
#include "kernels/dtype_sets.h"
#include "kernels/loops/loop_type.h"
#include "runtime/et.h"

#include <math.h>
#include <string.h>

#define ETI_LOOP_PASTE(name, suffix) name##_##suffix
#define ETI_LOOP_NAME(name, suffix) ETI_LOOP_PASTE(name, suffix)

#if defined(__clang__)
#define ETI_NO_DEPENDENCES _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define ETI_NO_DEPENDENCES _Pragma("GCC ivdep")
#else
#define ETI_NO_DEPENDENCES
#endif

// Attribute of functions that calls specialise by constant arguments.
#if defined(__GNUC__)
#define ETI_LOOP_INLINE static inline __attribute__((always_inline))
#else
#define ETI_LOOP_INLINE static inline
#endif

// Elements per piece when strided elements are packed; shorter rests run one by one.
#define ETI_LOOP_PIECE 16u
#define ETI_LOOP_FEW 8u

#define ETI_AT(type, base, i, stride) \
  (*(type *)(void *)((char *)(base) + (ptrdiff_t)(i) * (stride)))
#define ETI_CAT(type, base, i, stride) \
  (*(const type *)(const void *)((const char *)(base) + (ptrdiff_t)(i) * (stride)))

#endif  // ET_LOOP_H
