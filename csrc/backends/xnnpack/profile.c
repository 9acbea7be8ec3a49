// profile.c — tells a traced run's hooks what XNNPACK's clocks noted: an event per operator that
// ran, in the order of their runs, in whole microseconds. Fused nodes have no operator of their
// own, so operators are led back to nodes of the payload only when none was fused.
#include <string.h>

#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

// The names one after the other, each with a NUL, and the times, in one block.
typedef struct notes {
  size_t n;
  uint64_t *us;
  char *names;
  size_t names_bytes;
} notes;

static et_status read_notes(xnn_runtime_t runtime, notes *out, et_error *err) {
  static const char what[] = "reading the clocks of nodes";
  size_t bytes = sizeof out->n;
  ET_TRY(eti_xnn_fail(xnn_get_runtime_profiling_info(runtime, xnn_profile_info_num_operators, bytes,
                                                     &out->n, &bytes),
                      err, what));
  out->names_bytes = 0;
  // Asked with no room, XNNPACK says how much is needed.
  (void)xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, 0, NULL,
                                       &out->names_bytes);
  const size_t times_bytes = out->n * sizeof *out->us;
  out->us = eti_xnn_memory_claim(times_bytes + out->names_bytes + 1);
  ET_CHECK(out->us != NULL, err, ET_DELEGATE_OUT_OF_MEMORY, "no memory for the clocks of %zu nodes",
           out->n);
  out->names = (char *)(out->us + out->n);
  enum xnn_status status = xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing,
                                                          times_bytes, out->us, &bytes);
  if (status == xnn_status_success) {
    status = xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name,
                                            out->names_bytes, out->names, &bytes);
  }
  return eti_xnn_fail(status, err, what);
}

static et_status tell(const eti_xnn_engine *engine, const notes *all,
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

et_status eti_xnn_report(const eti_xnn_engine *engine, const et_delegate_call *call) {
  notes all = {.n = 0};
  et_status status = read_notes(engine->runtime, &all, call->err);
  if (status == ET_OK) status = tell(engine, &all, call);
  eti_xnn_memory_release(all.us);
  return status;
}
