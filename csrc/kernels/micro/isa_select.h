// isa_select.h — which instruction set the micro-kernels of this process use. Read once, cached in
// one atomic; every family of micro-kernels keeps its own const table indexed by eti_isa and asks
// here. Relies on the compiler's target macros and cpuid; knows no kernel.
#ifndef ET_ISA_SELECT_H
#define ET_ISA_SELECT_H

// Ascending within one architecture: a family that lacks a variant uses the next lower one it has.
typedef enum eti_isa {
  ETI_ISA_SCALAR = 0,
  ETI_ISA_AVX2 = 1,    // AVX2 + FMA + F16C
  ETI_ISA_AVX512 = 2,  // F + BW + DQ + VL, and everything of AVX2
  ETI_ISA_NEON = 3,
  ETI_ISA_COUNT = 4,
} eti_isa;

// Defined where the build has the files of that instruction set, so that tables can name their
// entries.
#if (defined(__x86_64__) || defined(_M_X64)) && !defined(ET_NO_SIMD)
#define ETI_HAVE_X86 1
#else
#define ETI_HAVE_X86 0
#endif
#if defined(__aarch64__) && !defined(ET_NO_SIMD)
#define ETI_HAVE_NEON 1
#else
#define ETI_HAVE_NEON 0
#endif

// The best instruction set of this CPU and operating system. Thread-safe.
eti_isa eti_cpu_isa(void);

// For tests: from now on eti_cpu_isa answers at most `limit`, as a lesser CPU would. Methods
// prepared before must not be run after. ETI_ISA_COUNT lifts the limit.
void eti_cpu_isa_limit(eti_isa limit);

#endif  // ET_ISA_SELECT_H
