// engine.c — makes and frees engines: the graph of a payload, XNNPACK's runtime for it, and their
// arguments. execute.c runs calls.
#include <string.h>

#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/workspace.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

et_status eti_xnn_initialize(et_error *err) {
  ET_TRY(eti_xnn_check(xnn_initialize(&eti_xnn_allocator), err, "starting XNNPACK"));
  eti_xnn_tuned_install();
  return ET_OK;
}

static void free_args(eti_xnn_engine *engine) {
  for (size_t k = 0; engine->args != NULL && k < engine->graph.n_externs; k++)
    eti_xnn_free(engine->args[k].copy);
  eti_xnn_free(engine->args);
  eti_xnn_free(engine->given);
  eti_xnn_free(engine->externs);
  eti_xnn_free(engine->pool.costs);
}

void eti_xnn_engine_free(eti_xnn_engine *engine) {
  if (engine == NULL) return;
  if (engine->runtime != NULL) (void)xnn_delete_runtime(engine->runtime);
  free_args(engine);
  if (engine->graph.state != NULL) eti_xnn_graph_deinit(&engine->graph);
  eti_xnn_weights_provider_deinit(&engine->weights);
  eti_xnn_tuned_free_schedules(engine->schedules);
  eti_xnn_free(engine);
}

static et_status alloc_args(eti_xnn_engine *engine, et_error *err) {
  const size_t n = engine->graph.n_externs;
  engine->args = eti_xnn_alloc((n + 1) * sizeof *engine->args);
  engine->given = eti_xnn_alloc((n + 1) * sizeof *engine->given);
  engine->externs = eti_xnn_alloc((n + 1) * sizeof *engine->externs);
  if (engine->args != NULL) memset(engine->args, 0, (n + 1) * sizeof *engine->args);
  ET_CHECK(engine->args != NULL && engine->given != NULL && engine->externs != NULL, err,
           ET_DELEGATE_OUT_OF_MEMORY, "out of memory: %zu arguments of a delegate", n);
  for (size_t k = 0; k < n; k++) {
    const eti_xnn_extern *const extern_ = &engine->graph.externs[k];
    if (!extern_->is_input && !extern_->is_output) continue;
    engine->externs[engine->n_active++].id = (uint32_t)k;
  }
  return ET_OK;
}

// Room for twice as many jobs as nodes, half empty.
static et_status alloc_costs(eti_xnn_engine *engine, et_error *err) {
  size_t n = 16;
  while (n < 4 * engine->graph.n_nodes) n *= 2;
  engine->pool.costs = eti_xnn_alloc(n * sizeof *engine->pool.costs);
  ET_CHECK(engine->pool.costs != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
           "out of memory: the costs of %zu nodes", engine->graph.n_nodes);
  engine->pool.n_costs = n;
  engine->pool.clock_ns = et_clock_ns;
  eti_xnn_forget_job_costs(&engine->pool);
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
  c->status = xnn_create_runtime_v4(c->engine->graph.subgraph, &c->engine->weights.interface,
                                    workspace == NULL ? NULL : workspace->workspace,
                                    &c->engine->pool, c->flags, &c->engine->runtime);
  if (c->status == xnn_status_success) eti_xnn_tuned_after_make(c->engine->runtime);
}

// Builds an engine, in a region. On failure the caller frees the engine.
static et_status build_engine(eti_xnn_delegate *delegate, eti_xnn_alloc_region *region,
                              bool is_profiled, const eti_xnn_shape *inputs, eti_xnn_engine *engine,
                              et_error *err) {
  const eti_xnn_graph_config config = {.payload = delegate->payload,
                                       .payload_bytes = delegate->payload_bytes,
                                       .named = &delegate->named,
                                       .memory = &eti_xnn_allocator,
                                       .inputs = inputs,
                                       .on_weights_key = eti_xnn_weights_provider_add_key,
                                       .on_weights_key_ctx = &engine->weights,
                                       .on_discardable = delegate->options.on_spent,
                                       .on_discardable_ctx = delegate->options.on_spent_ctx};
  ET_TRY(eti_xnn_graph_build(&engine->graph, &config, err));
  ET_TRY(alloc_args(engine, err));
  ET_TRY(alloc_costs(engine, err));
  engine->weights.arena.expected = engine->graph.packed_bytes;
  engine->weights.on_packed = eti_xnn_graph_on_packed;
  engine->weights.on_packed_ctx = &engine->graph;
  creation c = {
      .delegate = delegate, .engine = engine, .flags = is_profiled ? XNN_FLAG_BASIC_PROFILING : 0};
  if (!eti_xnn_alloc_region_run(region, create_runtime, &c)) c.status = xnn_status_out_of_memory;
  ET_TRY(eti_xnn_check(c.status, err, "creating XNNPACK's operators"));
  eti_xnn_weights_provider_prove(&engine->weights, &delegate->named);
  eti_xnn_graph_trim(&engine->graph);
  eti_xnn_weights_provider_seal(&engine->weights);
  return ET_OK;
}

et_status eti_xnn_engine_make(eti_xnn_delegate *delegate, bool is_profiled,
                              const eti_xnn_shape *inputs, eti_xnn_engine **out, et_error *err) {
  eti_xnn_alloc_region region;
  eti_xnn_alloc_region_begin(&region);
  eti_xnn_engine *const engine = eti_xnn_alloc(sizeof *engine);
  et_status status;
  if (engine == NULL) {
    status = ET_FAIL(err, ET_DELEGATE_OUT_OF_MEMORY, "out of memory: the engine of a delegate");
  } else {
    memset(engine, 0, sizeof *engine);
    eti_xnn_weights_provider_init(&engine->weights, delegate->options.weights, delegate->domain);
    status = build_engine(delegate, &region, is_profiled, inputs, engine, err);
    if (status != ET_OK) eti_xnn_engine_free(engine);
  }
  eti_xnn_alloc_region_end(&region, status == ET_OK);
  if (status == ET_OK) *out = engine;
  return status;
}
