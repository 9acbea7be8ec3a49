// workspace.h — memory for intermediate values that delegates share, and its lock: XNNPACK keeps a
// list of the runtimes that use a workspace, and moves the pointers of all of them when one needs
// more.
#ifndef ET_XNNPACK_WORKSPACE_H
#define ET_XNNPACK_WORKSPACE_H

#include <pthread.h>
#include <xnnpack.h>

#include "backends/xnnpack/et_xnnpack.h"

struct et_xnnpack_workspace {
  // Held while a runtime that uses it is created, reshaped, set up, run or deleted.
  pthread_mutex_t lock;
  xnn_workspace_t workspace;
};

// Without a workspace (NULL) there is nothing to lock.
static inline void eti_xnn_lock(et_xnnpack_workspace *workspace) {
  if (workspace != NULL) (void)pthread_mutex_lock(&workspace->lock);
}
static inline void eti_xnn_unlock(et_xnnpack_workspace *workspace) {
  if (workspace != NULL) (void)pthread_mutex_unlock(&workspace->lock);
}

#endif  // ET_XNNPACK_WORKSPACE_H
