// processor.c — see processor.h. Linked into all C tests.
#include "processor.h"

#include "kernels/micro/isa_select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(ET_HAVE_XNNPACK) && defined(__x86_64__)
#include <cpuinfo.h>

// XNNPACK reads cpuinfo when it starts, which is after this.
static void limit_xnnpack(eti_isa limit, eti_dot dot, bool is_zen) {
  if (!cpuinfo_initialize()) abort();
  if (is_zen) ((struct cpuinfo_core *)(uintptr_t)cpuinfo_get_core(0))->uarch = cpuinfo_uarch_zen;
  struct cpuinfo_x86_isa *const isa = &cpuinfo_isa;
  isa->avx512fp16 = isa->avx512bf16 = isa->avx512vbmi = isa->gfni = false;
  isa->amx_bf16 = isa->amx_tile = isa->amx_int8 = isa->amx_fp16 = false;
  isa->avx_vnni_int8 = isa->avx_vnni_int16 = isa->avx_ne_convert = false;
  isa->avx10_1 = isa->avx10_2 = false;
  if (dot != ETI_DOT_AVX512_VNNI) isa->avx512vnni = false;
  if (dot == ETI_DOT_NONE) isa->avxvnni = false;
  if (limit != ETI_ISA_AVX512)
    isa->avx512f = isa->avx512bw = isa->avx512dq = isa->avx512vl = isa->avx512cd = false;
  if (limit == ETI_ISA_SCALAR) {
    isa->sse3 = isa->ssse3 = isa->sse4_1 = isa->sse4_2 = false;
    isa->avx = isa->f16c = isa->fma3 = isa->avx2 = false;
  }
}
#else
static void limit_xnnpack(eti_isa limit, eti_dot dot, bool is_zen) {
  (void)limit;
  (void)dot;
  (void)is_zen;
}
#endif

bool processor_limit(const char *name) {
  static const struct {
    const char *name;
    eti_isa limit;
    eti_dot dot;
    bool is_zen;
  } processors[] = {
      {"sse2", ETI_ISA_SCALAR, ETI_DOT_NONE, false},
      {"zen", ETI_ISA_AVX2, ETI_DOT_NONE, true},
      {"avx2", ETI_ISA_AVX2, ETI_DOT_NONE, false},
      {"avxvnni", ETI_ISA_AVX2, ETI_DOT_AVX_VNNI, false},
      {"avx512", ETI_ISA_AVX512, ETI_DOT_NONE, false},
      {"avx512vnni", ETI_ISA_AVX512, ETI_DOT_AVX512_VNNI, false},
  };
  for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++) {
    if (strcmp(name, processors[i].name) != 0) continue;
    eti_cpu_isa_limit(processors[i].limit);
    if (processors[i].dot != ETI_DOT_NONE) (void)eti_cpu_dot_limit(processors[i].dot);
    limit_xnnpack(processors[i].limit, processors[i].dot, processors[i].is_zen);
    return true;
  }
  return false;
}

__attribute__((constructor)) static void read_environment(void) {
  const char *const name = getenv("ET_TEST_PROCESSOR");
  if (name == NULL || name[0] == '\0' || processor_limit(name)) return;
  printf("ET_TEST_PROCESSOR is '%s', expected sse2, zen, avx2, avxvnni, avx512 or avx512vnni\n",
         name);
  exit(2);
}
