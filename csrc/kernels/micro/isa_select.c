// isa_select.c — see isa_select.h. CPU features are read with cpuid and xgetbv instead of the
// compiler's helper library, which bare builds lack. The cache is the only writable datum of the
// kernels: an atomic that, outside of tests, is only ever set to one value.
#include "kernels/micro/isa_select.h"

#include <stdatomic.h>
#include <stdbool.h>

#if ETI_HAVE_X86
#include <cpuid.h>

enum {
  LEAF1_FMA = 1 << 12,
  LEAF1_OSXSAVE = 1 << 27,
  LEAF1_F16C = 1 << 29,
  LEAF7_AVX2 = 1 << 5,
};
#define LEAF7_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)  // F DQ BW VL
#define XCR0_AVX 0x6u      // SSE and AVX registers saved by the system
#define XCR0_AVX512 0xE6u  // also masks and the upper registers

static unsigned saved_registers(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return low;
}

static eti_isa detect(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return ETI_ISA_SCALAR;
  const unsigned needs1 = (unsigned)LEAF1_FMA | (unsigned)LEAF1_OSXSAVE | (unsigned)LEAF1_F16C;
  if ((c & needs1) != needs1) return ETI_ISA_SCALAR;
  const unsigned saved = saved_registers();
  if ((saved & XCR0_AVX) != XCR0_AVX) return ETI_ISA_SCALAR;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & (unsigned)LEAF7_AVX2) == 0)
    return ETI_ISA_SCALAR;
  const bool avx512 = (b & LEAF7_AVX512) == LEAF7_AVX512 && (saved & XCR0_AVX512) == XCR0_AVX512;
  return avx512 ? ETI_ISA_AVX512 : ETI_ISA_AVX2;
}
#elif ETI_HAVE_NEON
static eti_isa detect(void) {
  return ETI_ISA_NEON;
}
#else
static eti_isa detect(void) {
  return ETI_ISA_SCALAR;
}
#endif

static atomic_int cache = -1;

eti_isa eti_cpu_isa(void) {
  int isa = atomic_load_explicit(&cache, memory_order_relaxed);
  if (isa < 0) {
    isa = (int)detect();
    atomic_store_explicit(&cache, isa, memory_order_relaxed);
  }
  return (eti_isa)isa;
}

void eti_cpu_isa_limit(eti_isa limit) {
  const eti_isa isa = detect();
  const bool scalar = limit == ETI_ISA_SCALAR ||
                      (isa == ETI_ISA_NEON && limit != ETI_ISA_NEON && limit != ETI_ISA_COUNT);
  const int answer = scalar ? (int)ETI_ISA_SCALAR : (int)(limit < isa ? limit : isa);
  atomic_store_explicit(&cache, answer, memory_order_relaxed);
}
