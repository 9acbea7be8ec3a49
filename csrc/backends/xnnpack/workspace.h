// workspace.h — memory for intermediate values that delegates share, with the lock by which they
// take turns: XNNPACK keeps a list of the runtimes that use a workspace, and moves the pointers of
// all of them when one needs more.
#ifndef ET_XNNPACK_WORKSPACE_H
#define ET_XNNPACK_WORKSPACE_H

#include <pthread.h>
#include <xnnpack.h>

#include "backends/xnnpack/et_xnnpack.h"

struct et_xnnpack_workspace {
  pthread_mutex_t
      lock;  // held while a runtime that uses it is made, reshaped, set up, run, deleted
  xnn_workspace_t workspace;
};

// Without a workspace there is nobody to wait for.
static inline void eti_xnn_lock(et_xnnpack_workspace *workspace) {
  if (workspace != NULL) (void)pthread_mutex_lock(&workspace->lock);
}
static inline void eti_xnn_unlock(et_xnnpack_workspace *workspace) {
  if (workspace != NULL) (void)pthread_mutex_unlock(&workspace->lock);
}

#endif  // ET_XNNPACK_WORKSPACE_H
