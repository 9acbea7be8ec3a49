// instance.c — objects that a caller owns (et_xnnpack.h): the entry for a table of backends, shared
// workspaces, and the identity that packed weights depend on.
#include <cpuinfo.h>
#include <string.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

void et_xnnpack_init(et_xnnpack *xnnpack, const et_xnnpack_options *options) {
  xnnpack->backend = et_backend_xnnpack;
  xnnpack->options = *options;
}

et_status et_xnnpack_workspace_open(et_xnnpack_workspace **out, et_error *err) {
  ET_TRY(eti_xnn_initialize(err));
  et_xnnpack_workspace *const workspace = eti_xnn_alloc(sizeof *workspace);
  ET_CHECK(workspace != NULL, err, ET_OUT_OF_MEMORY, "out of memory: a workspace");
  memset(workspace, 0, sizeof *workspace);
  const enum xnn_status made = xnn_create_workspace(&workspace->workspace);
  if (made != xnn_status_success || pthread_mutex_init(&workspace->lock, NULL) != 0) {
    if (made == xnn_status_success) (void)xnn_release_workspace(workspace->workspace);
    eti_xnn_free(workspace);
    return made != xnn_status_success
               ? eti_xnn_check(made, err, "creating a workspace")
               : ET_FAIL(err, ET_OUT_OF_RESOURCES, "cannot make a lock for a workspace");
  }
  *out = workspace;
  return ET_OK;
}

void et_xnnpack_workspace_close(et_xnnpack_workspace *workspace) {
  if (workspace == NULL) return;
  (void)xnn_release_workspace(workspace->workspace);
  (void)pthread_mutex_destroy(&workspace->lock);
  eti_xnn_free(workspace);
}

// ---- Identity

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
