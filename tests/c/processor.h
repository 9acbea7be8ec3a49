// processor.h — simulates processors with fewer instruction sets, for tests: XNNPACK and the
// micro-kernels choose kernels as on that processor. No name adds instructions that this processor
// lacks. The variable ET_TEST_PROCESSOR names a processor for a whole test.
//
//   sse2        x86-64 without extensions
//   zen         AMD's first Zen: as avx2, and XNNPACK has float products of its own for it
//   avx2        with AVX2, FMA and F16C
//   avxvnni     the same with products of int8 in AVX-VNNI
//   avx512      AVX-512 F, BW, DQ and VL, without products of int8 and without half floats
//   avx512vnni  the same with products of int8 in AVX-512 VNNI, without those on tiles
#ifndef ET_TESTS_PROCESSOR_H
#define ET_TESTS_PROCESSOR_H

#include <stdbool.h>

// Call this before XNNPACK is started and kernels are prepared. False: no processor has that name.
bool processor_limit(const char *name);

#endif  // ET_TESTS_PROCESSOR_H
