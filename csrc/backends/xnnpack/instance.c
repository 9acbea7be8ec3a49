// instance.c — objects that a caller owns (et_xnnpack.h): the entry for a table of backends, and
// shared workspaces.
#include <string.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
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
