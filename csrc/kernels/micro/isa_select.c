// isa_select.c — see isa_select.h. CPU features are read with cpuid and xgetbv, or from the ID
// registers that Linux shows on AArch64, instead of the compiler's helper library, which bare
// builds lack. Two atomics are the only writable data of the kernels: one for the features of the
// CPU, which is only ever set to one value, and one for those in use, which only tests limit.
#include "kernels/micro/isa_select.h"

#include <stdatomic.h>

// Instruction sets of the CPU: the best, its best products of bytes and of bf16, sets of bits of
// all that it has (AVX-VNNI beside AVX-512, SDOT beside SMMLA), and permutations of bytes.
typedef struct features {
  eti_isa isa;
  eti_dot dot;
  eti_bf16 bf16;
  unsigned dots, bf16s;
  bool vbmi;
} features;

static const features none = {.dots = 1u << ETI_DOT_NONE, .bf16s = 1u << ETI_BF16_NONE};

// Adds products of bytes, which are better than those before.
static void add_dot(features *f, eti_dot dot) {
  f->dots |= 1u << dot;
  f->dot = dot;
}

static void add_bf16(features *f, eti_bf16 bf16) {
  f->bf16s |= 1u << bf16;
  f->bf16 = bf16;
}

#if ETI_HAVE_X86
#include <cpuid.h>

enum {
  LEAF1_FMA = 1 << 12,
  LEAF1_OSXSAVE = 1 << 27,
  LEAF1_F16C = 1 << 29,
  LEAF7_AVX2 = 1 << 5,
  LEAF7_AVX512_VBMI = 1 << 1,   // of ecx
  LEAF7_AVX512_VNNI = 1 << 11,  // of ecx
  LEAF7_AMX_BF16 = 1 << 22,     // of edx
  LEAF7_AMX_TILE = 1 << 24,
  LEAF7_AMX_INT8 = 1 << 25,
  LEAF7_1_AVX_VNNI = 1 << 4,  // of eax of its second part
  LEAF7_1_AVX512_BF16 = 1 << 5,
};
#define LEAF7_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)  // F DQ BW VL
#define XCR0_AVX 0x6u      // SSE and AVX registers saved by the system
#define XCR0_AVX512 0xE6u  // also masks and the upper registers
#define XCR0_AMX 0x60000u  // tiles and their configuration

static unsigned saved_registers(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return low;
}

#define LEAF7_AMX_I8 ((unsigned)LEAF7_AMX_TILE | (unsigned)LEAF7_AMX_INT8)
#if defined(ET_AMX_EMULATED)  // a build of the tests, with the functions of amx_tiles.h in C
static unsigned usable_tiles(unsigned leaf7, unsigned saved) {
  (void)saved;
  return leaf7 | LEAF7_AMX_I8 | (unsigned)LEAF7_AMX_BF16;
}
#else
// Asks Linux for the tiles of AMX. False if it refuses. A process may ask again.
static bool system_lends_tiles(void) {
#if defined(__linux__)
  enum { SYS_ARCH_PRCTL = 158, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  long result = SYS_ARCH_PRCTL;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long)ARCH_REQ_XCOMP_PERM), "S"((long)XFEATURE_XTILEDATA)
                   : "rcx", "r11", "memory");
  return result == 0;
#else
  return false;
#endif
}

// The same features; 0 if tiles or their int8 products are missing or refused.
static unsigned usable_tiles(unsigned leaf7, unsigned saved) {
  const bool has = (leaf7 & LEAF7_AMX_I8) == LEAF7_AMX_I8 && (saved & XCR0_AMX) == XCR0_AMX;
  return has && system_lends_tiles() ? leaf7 : 0;
}
#endif

static features detect(void) {
  features f = none;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const unsigned needs1 = (unsigned)LEAF1_FMA | (unsigned)LEAF1_OSXSAVE | (unsigned)LEAF1_F16C;
  if ((c & needs1) != needs1) return f;
  const unsigned saved = saved_registers();
  if ((saved & XCR0_AVX) != XCR0_AVX) return f;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & (unsigned)LEAF7_AVX2) == 0) return f;
  const bool avx512 = (b & LEAF7_AVX512) == LEAF7_AVX512 && (saved & XCR0_AVX512) == XCR0_AVX512;
  f.vbmi = avx512 && (c & (unsigned)LEAF7_AVX512_VBMI) != 0;
  const bool avx512_vnni = avx512 && (c & (unsigned)LEAF7_AVX512_VNNI) != 0;
  const unsigned tiles = avx512_vnni ? usable_tiles(d, saved) : 0;
  unsigned more = 0;
  if (a < 1 || !__get_cpuid_count(7, 1, &more, &b, &c, &d)) more = 0;
  f.isa = avx512 ? ETI_ISA_AVX512 : ETI_ISA_AVX2;
  if ((more & (unsigned)LEAF7_1_AVX_VNNI) != 0) add_dot(&f, ETI_DOT_AVX_VNNI);
  if (avx512 && !avx512_vnni) f.dot = ETI_DOT_NONE;
  if (avx512_vnni) add_dot(&f, ETI_DOT_AVX512_VNNI);
  const bool has_bf16 = avx512 && (more & (unsigned)LEAF7_1_AVX512_BF16) != 0;
  if (has_bf16) add_bf16(&f, ETI_BF16_AVX512);
  if (tiles != 0) add_dot(&f, ETI_DOT_AMX);
  if (has_bf16 && (tiles & (unsigned)LEAF7_AMX_BF16) != 0) add_bf16(&f, ETI_BF16_AMX);
  return f;
}
#elif ETI_HAVE_NEON
// SDOT is bits 44 to 47 of ID_AA64ISAR0_EL1; SMMLA is bits 52 to 55 of ID_AA64ISAR1_EL1 and BFMLALB
// bits 44 to 47. Linux lets programs read them.
static features detect(void) {
  bool has_dot = false, has_i8mm = false, has_bf16 = false;
#if defined(__linux__)
  unsigned long isar0, isar1;
  __asm__("mrs %0, ID_AA64ISAR0_EL1" : "=r"(isar0));
  __asm__("mrs %0, ID_AA64ISAR1_EL1" : "=r"(isar1));
  has_dot = (isar0 >> 44 & 15) != 0;
  has_i8mm = has_dot && (isar1 >> 52 & 15) != 0;
  has_bf16 = (isar1 >> 44 & 15) != 0;
#endif
#if defined(__ARM_FEATURE_DOTPROD)
  has_dot = true;
#endif
#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
  has_i8mm = true;
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  has_bf16 = true;
#endif
  features f = none;
  f.isa = ETI_ISA_NEON;
  if (has_dot) add_dot(&f, ETI_DOT_NEON);
  if (has_i8mm) add_dot(&f, ETI_DOT_I8MM);
  if (has_bf16) add_bf16(&f, ETI_BF16_NEON);
  return f;
}
#else
static features detect(void) {
  return none;
}
#endif

// Features as one number: a byte each for isa, dot with vbmi, dots, and bf16 with bf16s.
enum { DOT_SHIFT = 8, DOTS_SHIFT = 16, BF16_SHIFT = 24, BF16S_SHIFT = 26, VBMI = 1 << 15 };
enum { ISA_MASK = 255, DOT_MASK = 127, DOTS_MASK = 255, BF16_MASK = 3, BF16S_MASK = 15 };
_Static_assert(ETI_DOT_COUNT <= 8 && ETI_BF16_COUNT <= 4, "features take at most 30 bits");

static atomic_int detected = -1, in_use = -1;

static int pack(features f) {
  return (int)f.isa | (int)f.dot << DOT_SHIFT | (int)f.dots << DOTS_SHIFT |
         (int)f.bf16 << BF16_SHIFT | (int)f.bf16s << BF16S_SHIFT | (f.vbmi ? VBMI : 0);
}

// The features of this CPU. They are read once: in a virtual machine cpuid takes microseconds.
static features detect_once(void) {
  int all = atomic_load_explicit(&detected, memory_order_relaxed);
  if (all < 0) atomic_store_explicit(&detected, all = pack(detect()), memory_order_relaxed);
  return (features){
      .isa = (eti_isa)(all & ISA_MASK),
      .dot = (eti_dot)(all >> DOT_SHIFT & DOT_MASK),
      .bf16 = (eti_bf16)(all >> BF16_SHIFT & BF16_MASK),
      .dots = (unsigned)(all >> DOTS_SHIFT & DOTS_MASK),
      .bf16s = (unsigned)(all >> BF16S_SHIFT & BF16S_MASK),
      .vbmi = (all & VBMI) != 0,
  };
}

static int keep(features f) {
  f.vbmi = f.vbmi && (f.dot == ETI_DOT_AVX512_VNNI || f.dot == ETI_DOT_AMX);
  const int all = pack(f);
  atomic_store_explicit(&in_use, all, memory_order_relaxed);
  return all;
}

static int cached(void) {
  const int all = atomic_load_explicit(&in_use, memory_order_relaxed);
  return all >= 0 ? all : keep(detect_once());
}

eti_isa eti_cpu_isa(void) {
  return (eti_isa)(cached() & ISA_MASK);
}

eti_dot eti_cpu_dot(void) {
  return (eti_dot)(cached() >> DOT_SHIFT & DOT_MASK);
}

eti_bf16 eti_cpu_bf16(void) {
  return (eti_bf16)(cached() >> BF16_SHIFT & BF16_MASK);
}

bool eti_cpu_permutes_bytes(void) {
  return (cached() & VBMI) != 0;
}

void eti_cpu_isa_limit(eti_isa limit) {
  features f = detect_once();
  const bool scalar = limit == ETI_ISA_SCALAR ||
                      (f.isa == ETI_ISA_NEON && limit != ETI_ISA_NEON && limit != ETI_ISA_COUNT);
  if (limit != ETI_ISA_COUNT) {
    f.isa = scalar ? ETI_ISA_SCALAR : limit < f.isa ? limit : f.isa;
    f.dot = ETI_DOT_NONE;
    f.bf16 = ETI_BF16_NONE;
  }
  (void)keep(f);
}

bool eti_cpu_dot_limit(eti_dot dot) {
  features f = detect_once();
  if ((f.dots >> dot & 1u) == 0) return false;
  if (dot == ETI_DOT_AVX_VNNI) f.isa = ETI_ISA_AVX2;
  f.dot = dot;
  f.bf16 = ETI_BF16_NONE;
  (void)keep(f);
  return true;
}

bool eti_cpu_bf16_limit(eti_bf16 bf16) {
  features f = detect_once();
  if ((f.bf16s >> bf16 & 1u) == 0) return false;
  f.dot = ETI_DOT_NONE;
  f.bf16 = bf16;
  (void)keep(f);
  return true;
}
