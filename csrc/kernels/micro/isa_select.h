// isa_select.h — the instruction set that the micro-kernels of this process use. Read once, cached
// in one atomic; every family of micro-kernels has its own const table indexed by eti_isa. Relies
// on the compiler's target macros and cpuid; knows no kernel.
//
// Linux lets a process use the tiles of AMX after it asked for them, which happens here at the
// first read. From then on signal frames have room for 8 KiB of tiles; where a thread has an
// alternate signal stack that is too small for that, the system refuses, and AMX is not used.
#ifndef ET_ISA_SELECT_H
#define ET_ISA_SELECT_H

#include <stdbool.h>

// Instruction sets, ascending within one architecture: a family that lacks a variant uses the next
// lower one that it has.
typedef enum eti_isa {
  ETI_ISA_SCALAR = 0,
  ETI_ISA_AVX2 = 1,    // AVX2 + FMA + F16C
  ETI_ISA_AVX512 = 2,  // F + BW + DQ + VL, and everything of AVX2
  ETI_ISA_NEON = 3,
  ETI_ISA_COUNT = 4,
} eti_isa;

// Instructions that add four products of bytes to a sum of 32 bits, which only some CPUs of an
// instruction set above have.
typedef enum eti_dot {
  ETI_DOT_NONE = 0,
  ETI_DOT_AVX_VNNI = 1,     // with AVX2
  ETI_DOT_AVX512_VNNI = 2,  // with AVX-512
  ETI_DOT_NEON = 3,         // SDOT
  ETI_DOT_I8MM = 4,         // SDOT, and SMMLA for two rows and two columns
  ETI_DOT_AMX = 5,          // with ETI_DOT_AVX512_VNNI: TDPBUSD on tiles of 16 rows
  ETI_DOT_COUNT = 6,
} eti_dot;

// Instructions that add products of bf16 to a sum of f32, which only some CPUs of an instruction
// set above have.
typedef enum eti_bf16 {
  ETI_BF16_NONE = 0,
  ETI_BF16_AVX512 = 1,  // VDPBF16PS, with AVX-512
  ETI_BF16_NEON = 2,    // BFMLALB, BFMLALT
  ETI_BF16_AMX = 3,     // with ETI_BF16_AVX512: TDPBF16PS on tiles of 16 rows, in another order
  ETI_BF16_COUNT = 4,
} eti_bf16;

// Defined if the build has the files of that instruction set, so that tables can name their
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

// The products of bytes of this CPU. Thread-safe.
eti_dot eti_cpu_dot(void);

// The products of bf16 of this CPU. Thread-safe.
eti_bf16 eti_cpu_bf16(void);

// True if this CPU has AVX-512 VBMI, which permutes bytes, beside VPDPBUSD on 512 bits.
// Thread-safe.
bool eti_cpu_permutes_bytes(void);

// Limits eti_cpu_isa to `limit`, as on a lesser CPU without products of bytes or bf16, for tests.
// Methods prepared before must not run after. ETI_ISA_COUNT removes the limit.
void eti_cpu_isa_limit(eti_isa limit);
// Limits eti_cpu_isa and eti_cpu_dot to the products of bytes `dot` and the instruction set that
// they come with, without products of bf16. Returns false, and changes nothing, if this CPU lacks
// them.
bool eti_cpu_dot_limit(eti_dot dot);
// Limits eti_cpu_isa and eti_cpu_bf16 in the same way, without products of bytes.
bool eti_cpu_bf16_limit(eti_bf16 bf16);

#endif  // ET_ISA_SELECT_H
