// weights_identity.c — the identity that packed weights depend on (et_xnnpack.h): XNNPACK's version
// and the CPU's features.
#include <cpuinfo.h>
#include <stdint.h>
#include <string.h>

#include "backends/xnnpack/et_xnnpack.h"

#if CPUINFO_ARCH_X86 || CPUINFO_ARCH_X86_64 || CPUINFO_ARCH_ARM || CPUINFO_ARCH_ARM64
// Hashes the CPU's features and models, by which XNNPACK chooses its micro-kernels.
static void hash_cpu(uint64_t *hash) {
  *hash = 0;
  if (!cpuinfo_initialize()) return;
  uint8_t facts[sizeof cpuinfo_isa];
  memcpy(facts, &cpuinfo_isa, sizeof facts);
  *hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof facts; i++) *hash = (*hash ^ facts[i]) * 0x100000001b3u;
  for (uint32_t i = 0; i < cpuinfo_get_uarchs_count(); i++)
    *hash = (*hash ^ (uint64_t)cpuinfo_get_uarch(i)->uarch) * 0x100000001b3u;
}
#else
static void hash_cpu(uint64_t *hash) {
  *hash = 0;
}
#endif

void et_xnnpack_identity(char text[ET_XNNPACK_IDENTITY_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  static const char version[] = "XNNPACK " ET_XNNPACK_VERSION ", CPU ";
  _Static_assert(sizeof version + 16 <= ET_XNNPACK_IDENTITY_BYTES, "the identity fits");
  uint64_t hash;
  hash_cpu(&hash);
  memcpy(text, version, sizeof version - 1);
  for (size_t i = 0; i < 16; i++) text[sizeof version - 1 + i] = digits[hash >> (60 - 4 * i) & 15];
  text[sizeof version + 15] = '\0';
}
