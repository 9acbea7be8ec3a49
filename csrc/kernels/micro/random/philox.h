// philox.h — the random numbers of a stream, many at a time: bits of Philox4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and uniform and normal numbers from
// them. A number is a function of the stream and of its position, so any part can be drawn at any
// time. Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_PHILOX_H
#define ET_MICRO_PHILOX_H

#include "kernels/micro/isa_select.h"

#include <stddef.h>
#include <stdint.h>

typedef struct eti_philox_stream {
  uint64_t seed, call;
} eti_philox_stream;

enum { ETI_PHILOX_BLOCK = 64 };  // numbers drawn at a time, at most

typedef struct eti_philox_micro {
  // Numbers first … first + n - 1 of the stream, 64 bits each; room for ETI_PHILOX_BLOCK.
  void (*bits)(const eti_philox_stream *s, uint64_t first, size_t n, uint64_t *out);
  // Multiples of 2^-24 and of 2^-53 in [0, 1); of 2^-places, 1 ≤ places ≤ 24, when that is fewer.
  void (*uniform_f32)(float *out, const uint64_t *bits, size_t n, unsigned places);
  void (*uniform_f64)(double *out, const uint64_t *bits, size_t n);
  // Standard normals, a pair from each two numbers (Box and Muller); n is even.
  void (*normal)(double *out, const uint64_t *bits, size_t n);
  // Exponential numbers of rate 1.
  void (*exponential)(double *out, const uint64_t *bits, size_t n);
} eti_philox_micro;

extern const eti_philox_micro eti_philox_scalar;
#if ETI_HAVE_X86
extern const eti_philox_micro eti_philox_avx2;
extern const eti_philox_micro eti_philox_avx512;
#endif

// The variant of this CPU.
const eti_philox_micro *eti_philox_micro_get(void);

#endif  // ET_MICRO_PHILOX_H
