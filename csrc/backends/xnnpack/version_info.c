// version_info.c — see version_info.h. Instruction sets are those that cpuinfo detects, by which
// XNNPACK chooses its kernels. Knows nothing of delegates.
#include "backends/xnnpack/version_info.h"

#include <stdbool.h>

#include "backends/xnnpack/tuned/tuned.h"

#if defined(__has_include)
#if __has_include(<cpuinfo.h>)
#include <cpuinfo.h>
#define HAS_CPUINFO 1
#endif
#endif

const char *eti_xnn_version(void) {
  return ET_XNNPACK_VERSION;
}

#if defined(HAS_CPUINFO)
typedef struct instruction_set {
  const char *name;
  bool (*is_present)(void);
} instruction_set;

#if defined(__x86_64__) || defined(__i386__)
static bool has_avx512skx(void) {
  return cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512bw() && cpuinfo_has_x86_avx512dq() &&
         cpuinfo_has_x86_avx512vl();
}
static bool has_avx512vnni(void) {
  return has_avx512skx() && cpuinfo_has_x86_avx512vnni();
}
static bool has_avx512vnnigfni(void) {
  return has_avx512vnni() && cpuinfo_has_x86_gfni();
}
#endif

static const instruction_set sets[] = {
#if defined(__x86_64__) || defined(__i386__)
    {"sse4.1", cpuinfo_has_x86_sse4_1},
    {"avx", cpuinfo_has_x86_avx},
    {"f16c", cpuinfo_has_x86_f16c},
    {"fma3", cpuinfo_has_x86_fma3},
    {"avx2", cpuinfo_has_x86_avx2},
    {"avxvnni", cpuinfo_has_x86_avxvnni},
    {"avx512f", cpuinfo_has_x86_avx512f},
    {"avx512skx", has_avx512skx},
    {"avx512vnni", has_avx512vnni},
    {"avx512vnnigfni", has_avx512vnnigfni},
    {"avx512fp16", cpuinfo_has_x86_avx512fp16},
#else
    {"neon", cpuinfo_has_arm_neon},        {"neonfp16arith", cpuinfo_has_arm_neon_fp16_arith},
    {"neondot", cpuinfo_has_arm_neon_dot}, {"neonbf16", cpuinfo_has_arm_neon_bf16},
    {"neoni8mm", cpuinfo_has_arm_i8mm},
#endif
};

size_t eti_xnn_instruction_sets(const char **names, size_t n) {
  if (!cpuinfo_initialize()) return 0;
  size_t n_found = 0;
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    if (!sets[i].is_present()) continue;
    if (n_found < n) names[n_found] = sets[i].name;
    n_found++;
  }
  return n_found;
}
#else
size_t eti_xnn_instruction_sets(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}
#endif

size_t eti_xnn_own_kernels(const char **names, size_t n) {
  return eti_xnn_tuned_names(names, n);
}
