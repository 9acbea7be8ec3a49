// xnnpack_backend.c — the delegate "XnnpackBackend": its three functions, init, execute and
// destroy. engine.c makes engines, execute.c runs calls, subgraph.h reads payloads.
#include "backends/xnnpack/delegate.h"
#include "backends/xnnpack/workspace.h"
#include "runtime/check.h"

// The options of an entry. A caller's entry is the first member of an et_xnnpack.
static et_xnnpack_options options_of(const et_backend *backend) {
  if (backend != &et_backend_xnnpack) return ((const et_xnnpack *)(const void *)backend)->options;
  return (et_xnnpack_options){.workspace = NULL};
}

static et_status measure(const et_delegate_init *init) {
  eti_xnn_alloc_region region;
  eti_xnn_alloc_region_begin(&region);
  const et_status status = eti_xnn_payload_check(init->payload, init->payload_bytes,
                                                 &eti_xnn_allocator, NULL, init->prepare->err);
  eti_xnn_alloc_region_end(&region, false);
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
                                 .domain = options.domain != NULL ? options.domain : init->backend,
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
  eti_xnn_engine_free(delegate->profiled);
  eti_xnn_unlock(delegate->options.workspace);
}

const et_backend et_backend_xnnpack = {
    .id = "XnnpackBackend",
    .init = init,
    .execute = eti_xnn_execute,
    .destroy = destroy,
};
