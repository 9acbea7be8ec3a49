// engine.c — an engine: the graph of a payload and the runtime of XNNPACK made from it, with all
// that belongs to them, and their end. Calls are execute.c's.
#include <string.h>

#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

et_status eti_xnn_initialize(et_error *err) {
  ET_TRY(eti_xnn_fail(xnn_initialize(&eti_xnn_allocator), err, "starting XNNPACK"));
  eti_xnn_tuned_install();
  return ET_OK;
}

static void release_args(eti_xnn_engine *engine) {
  for (size_t k = 0; engine->args != NULL && k < engine->graph.n_externs; k++)
    eti_xnn_memory_release(engine->args[k].copy);
  eti_xnn_memory_release(engine->args);
  eti_xnn_memory_release(engine->given);
  eti_xnn_memory_release(engine->externs);
}

void eti_xnn_engine_free(eti_xnn_engine *engine) {
  if (engine == NULL) return;
  if (engine->runtime != NULL) (void)xnn_delete_runtime(engine->runtime);
  release_args(engine);
  if (engine->graph.built != NULL) eti_xnn_graph_deinit(&engine->graph);
  eti_xnn_session_deinit(&engine->session);
  eti_xnn_tuned_free_schedules(engine->schedules);
  eti_xnn_memory_release(engine);
}

static et_status claim_args(eti_xnn_engine *engine, et_error *err) {
  const size_t n = engine->graph.n_externs;
  engine->args = eti_xnn_memory_claim((n + 1) * sizeof *engine->args);
  engine->given = eti_xnn_memory_claim((n + 1) * sizeof *engine->given);
  engine->externs = eti_xnn_memory_claim((n + 1) * sizeof *engine->externs);
  if (engine->args != NULL) memset(engine->args, 0, (n + 1) * sizeof *engine->args);
  ET_CHECK(engine->args != NULL && engine->given != NULL && engine->externs != NULL, err,
           ET_DELEGATE_OUT_OF_MEMORY, "no memory for %zu arguments", n);
  for (size_t k = 0; k < n; k++) {
    const eti_xnn_extern *const extern_ = &engine->graph.externs[k];
    if (!extern_->is_input && !extern_->is_output) continue;
    engine->externs[engine->n_active++].id = (uint32_t)k;
  }
  return ET_OK;
}

typedef struct creation {
  eti_xnn_delegate *delegate;
  eti_xnn_engine *engine;
  uint32_t flags;
  enum xnn_status status;
} creation;

static void create_runtime(void *ctx) {
  creation *const c = ctx;
  et_xnnpack_workspace *const workspace = c->delegate->options.workspace;
  c->status = xnn_create_runtime_v4(c->engine->graph.subgraph, &c->engine->session.provider,
                                    workspace == NULL ? NULL : workspace->workspace,
                                    &c->engine->pool, c->flags, &c->engine->runtime);
  if (c->status == xnn_status_success) eti_xnn_tuned_after_make(c->engine->runtime);
}

// In a region. On failure the caller frees what is there.
static et_status build(eti_xnn_delegate *delegate, eti_xnn_region *region, bool is_clocked,
                       const eti_xnn_shape *inputs, eti_xnn_engine *engine, et_error *err) {
  const eti_xnn_graph_config config = {.payload = delegate->payload,
                                       .payload_bytes = delegate->payload_bytes,
                                       .named = &delegate->named,
                                       .memory = &eti_xnn_allocator,
                                       .inputs = inputs,
                                       .on_weights = eti_xnn_session_name,
                                       .on_weights_ctx = &engine->session,
                                       .on_spent = delegate->options.on_spent,
                                       .on_spent_ctx = delegate->options.on_spent_ctx};
  ET_TRY(eti_xnn_graph_build(&engine->graph, &config, err));
  ET_TRY(claim_args(engine, err));
  engine->session.slabs.expected = engine->graph.packed_bytes;
  engine->session.on_packed = eti_xnn_graph_packed;
  engine->session.on_packed_ctx = &engine->graph;
  creation c = {
      .delegate = delegate, .engine = engine, .flags = is_clocked ? XNN_FLAG_BASIC_PROFILING : 0};
  if (!eti_xnn_region_run(region, create_runtime, &c)) c.status = xnn_status_out_of_memory;
  ET_TRY(eti_xnn_fail(c.status, err, "making XNNPACK's operators"));
  eti_xnn_graph_trim(&engine->graph);
  eti_xnn_session_forget(&engine->session);
  return ET_OK;
}

et_status eti_xnn_engine_make(eti_xnn_delegate *delegate, bool is_clocked,
                              const eti_xnn_shape *inputs, eti_xnn_engine **out, et_error *err) {
  eti_xnn_region region;
  eti_xnn_region_begin(&region);
  eti_xnn_engine *const engine = eti_xnn_memory_claim(sizeof *engine);
  et_status status;
  if (engine == NULL) {
    status = ET_FAIL(err, ET_DELEGATE_OUT_OF_MEMORY, "no memory for a delegate");
  } else {
    memset(engine, 0, sizeof *engine);
    eti_xnn_session_init(&engine->session, delegate->options.weights);
    status = build(delegate, &region, is_clocked, inputs, engine, err);
    if (status != ET_OK) eti_xnn_engine_free(engine);
  }
  eti_xnn_region_end(&region, status == ET_OK);
  if (status == ET_OK) *out = engine;
  return status;
}
