// xnnpack_backend.c — the delegate "XnnpackBackend": from a payload to a runtime of XNNPACK, and
// its end. Running is execute.c's, reading payloads subgraph.h's.
#include <string.h>

#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/tuned/tuned_kernels.h"
#include "backends/xnnpack/tuned/dwconv.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

// ---- What XNNPACK needs

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
  eti_xnn_release_quads(engine->quads);
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
  if (c->status == xnn_status_success) eti_xnn_use_own_depthwise(c->engine->runtime);
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

// ---- The three functions of a backend

// A caller's entry is the first member of its et_xnnpack.
static et_xnnpack_options options_of(const et_backend *backend) {
  if (backend != &et_backend_xnnpack) return ((const et_xnnpack *)(const void *)backend)->options;
  return (et_xnnpack_options){.workspace = NULL};
}

static et_status measure(const et_delegate_init *init) {
  eti_xnn_region region;
  eti_xnn_region_begin(&region);
  const et_status status = eti_xnn_payload_check(init->payload, init->payload_bytes,
                                                 &eti_xnn_allocator, NULL, init->prepare->err);
  eti_xnn_region_end(&region, false);
  return status;
}

static et_status init(et_delegate_init *init, void **handle) {
  et_error *const err = init->prepare->err;
  const et_xnnpack_options options = options_of(init->backend);
  ET_TRY(eti_xnn_initialize(err));
  eti_xnn_delegate *const delegate =
      et_prepare_alloc(init->prepare, sizeof *delegate, _Alignof(eti_xnn_delegate));
  if (init->prepare->measuring) return measure(init);
  ET_TRY(et_prepare_status(init->prepare));
  *delegate = (eti_xnn_delegate){.options = options,
                                 .payload = init->payload,
                                 .payload_bytes = init->payload_bytes,
                                 .named = *init->named_data};
  init->keep_payload = true;
  eti_xnn_lock(options.workspace);
  const et_status status = eti_xnn_engine_make(delegate, false, NULL, &delegate->engine, err);
  eti_xnn_unlock(options.workspace);
  if (status == ET_OK) *handle = delegate;
  return status;
}

static void destroy(void *handle) {
  eti_xnn_delegate *const delegate = handle;
  eti_xnn_lock(delegate->options.workspace);
  eti_xnn_engine_free(delegate->engine);
  eti_xnn_engine_free(delegate->clocked);
  eti_xnn_unlock(delegate->options.workspace);
}

const et_backend et_backend_xnnpack = {
    .id = "XnnpackBackend",
    .init = init,
    .execute = eti_xnn_execute,
    .destroy = destroy,
};
