// flush_x86.h — denormals as zeros, read and written, while a function runs: bits of MXCSR. With
// them, fused multiply-adds give the bits of VDPBF16PS.
#ifndef ET_MICRO_FLUSH_X86_H
#define ET_MICRO_FLUSH_X86_H

#include <immintrin.h>

#define ETI_MXCSR_FLUSH 0x8040u  // flush to zero, denormals are zeros

// Returns the bits to give to eti_flush_end. Arithmetic between the two stands in a function that
// is not inlined: a compiler may move it past these calls otherwise.
static inline unsigned eti_flush_begin(void) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | ETI_MXCSR_FLUSH);
  return before;
}

static inline void eti_flush_end(unsigned before) {
  _mm_setcsr(before);
}

#endif  // ET_MICRO_FLUSH_X86_H
