// profile.c — reports XNNPACK's profile of a run to its hooks: an event per operator that ran, in
// the order in which they ran, in whole microseconds. Nodes that XNNPACK fused have no operator, so
// operators get the debug handles of the payload's nodes only when none was fused.
#include <string.h>

#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

// Times and names in one block. The names follow each other, each with a NUL.
typedef struct profile {
  size_t n;
  uint64_t *us;
  char *names;
  size_t names_bytes;
} profile;

static et_status read_profile(xnn_runtime_t runtime, profile *out, et_error *err) {
  static const char what[] = "reading the profile";
  size_t bytes = sizeof out->n;
  ET_TRY(eti_xnn_check(xnn_get_runtime_profiling_info(runtime, xnn_profile_info_num_operators,
                                                      bytes, &out->n, &bytes),
                       err, what));
  out->names_bytes = 0;
  // Without a buffer XNNPACK returns the size that it needs.
  (void)xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, 0, NULL,
                                       &out->names_bytes);
  const size_t times_bytes = out->n * sizeof *out->us;
  out->us = eti_xnn_alloc(times_bytes + out->names_bytes + 1);
  ET_CHECK(out->us != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
           "out of memory: the profile of %zu nodes", out->n);
  out->names = (char *)(out->us + out->n);
  enum xnn_status status = xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing,
                                                          times_bytes, out->us, &bytes);
  if (status == xnn_status_success) {
    status = xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name,
                                            out->names_bytes, out->names, &bytes);
  }
  return eti_xnn_check(status, err, what);
}

static et_status report_events(const eti_xnn_engine *engine, const profile *all,
                               const et_delegate_call *call) {
  const eti_xnn_graph *const graph = &engine->graph;
  const char *name = all->names;
  size_t at = 0;
  for (size_t i = 0; i < all->n; i++) {
    const bool is_known = all->n == graph->n_nodes;
    const char *const own_name = eti_xnn_tuned_next_name(engine->runtime, &at);
    const et_event event = {.kind = ET_EVENT_NODE,
                            .operator_name = own_name == NULL ? name : own_name,
                            .ns = all->us[i] * 1000,
                            .debug_handle = is_known ? graph->origins[i].debug_handle : SIZE_MAX};
    const et_status status = call->hooks->on_event(call->hooks->ctx, &event);
    if (status != ET_OK) return ET_FAIL(call->err, status, "stopped by an event hook");
    name += strlen(name) + 1;
  }
  return ET_OK;
}

et_status eti_xnn_report_profile(const eti_xnn_engine *engine, const et_delegate_call *call) {
  profile all = {.n = 0};
  et_status status = read_profile(engine->runtime, &all, call->err);
  if (status == ET_OK) status = report_events(engine, &all, call);
  eti_xnn_free(all.us);
  return status;
}
