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

// Elements of a type in a vector of the instruction set that a file is compiled for; 1 without one.
#if defined(__AVX512F__)
#define ETI_VECTOR_BYTES 64u
#elif defined(__AVX__)
#define ETI_VECTOR_BYTES 32u
#elif defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__)
#define ETI_VECTOR_BYTES 16u
#else
#define ETI_VECTOR_BYTES 1u
#endif
#define ETI_LANES(type) (ETI_VECTOR_BYTES > sizeof(type) ? ETI_VECTOR_BYTES / sizeof(type) : 1u)
// The elements of n that fill vectors, in a form from which compilers see that no others follow.
#define ETI_WHOLE_VECTORS(type, n) ((n) & ~(size_t)(ETI_LANES(type) - 1))

// Elements of complex numbers that are divided together.
#define ETI_LOOP_PIECE 16u

#define ETI_AT(type, base, i, stride) \
  (*(type *)(void *)((char *)(base) + (ptrdiff_t)(i) * (stride)))
#define ETI_CAT(type, base, i, stride) \
  (*(const type *)(const void *)((const char *)(base) + (ptrdiff_t)(i) * (stride)))

#endif  // ET_LOOP_H
