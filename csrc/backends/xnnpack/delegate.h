// delegate.h — one delegate of a loaded method, shared by the files that make it
// (xnnpack_backend.c, engine.c), run it (execute.c) and profile it (profile.c). The record lies in
// the method's memory; all of XNNPACK's objects belong to `engine`. The engine can be made from the
// payload at any time: again after memory ran out during a run, and a second time for profiled
// runs.
#ifndef ET_XNNPACK_DELEGATE_H
#define ET_XNNPACK_DELEGATE_H

#include <xnnpack.h>

#include "backends/xnnpack/et_xnnpack.h"
#include "backends/xnnpack/subgraph/subgraph.h"
#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/pthreadpool_shim.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/weights/weights_cache.h"

// An argument of a call: the shape and data that XNNPACK's runtime was given.
typedef struct eti_xnn_arg {
  eti_xnn_shape shape;  // in memory order
  void *data;           // where XNNPACK reads or writes
  void *copy;           // of an argument that XNNPACK must not access in place; NULL: none
  size_t copy_bytes;
} eti_xnn_arg;

typedef struct eti_xnn_engine {
  eti_xnn_graph graph;
  eti_xnn_weights_provider weights;
  xnn_runtime_t runtime;
  struct pthreadpool pool;             // of the runtime; refers to the pool of the current call
  bool is_shaped;                      // the runtime was reshaped to the shapes in args
  bool is_set_up;                      // … and set up with the data in args
  eti_xnn_arg *args;                   // [graph.n_externs]
  eti_xnn_shape *given;                // [graph.n_externs] shapes of the current call
  struct xnn_external_value *externs;  // [n_active]
  size_t n_active;                     // externs that are inputs or outputs
  eti_xnn_q8_schedule *schedules;      // of its int8 weights; NULL without any
} eti_xnn_engine;

typedef struct eti_xnn_delegate {
  et_xnnpack_options options;
  const void *domain;  // of the options, or the entry of the table of backends
  const uint8_t *payload;
  size_t payload_bytes;
  et_named_data named;
  eti_xnn_engine *engine;    // NULL after memory ran out: the next call makes it again
  eti_xnn_engine *profiled;  // one that measures every node; NULL before the first profiled run
} eti_xnn_delegate;

// Initialises XNNPACK and installs the tuned kernels. Any thread, any number of times.
et_status eti_xnn_initialize(et_error *err);

// Makes an engine from the payload; on failure nothing remains. The workspace's lock is held.
// inputs: the shapes that it will be given first, by external id; NULL: any.
et_status eti_xnn_engine_make(eti_xnn_delegate *delegate, bool is_profiled,
                              const eti_xnn_shape *inputs, eti_xnn_engine **out, et_error *err);
void eti_xnn_engine_free(eti_xnn_engine *engine);  // the workspace's lock is held; NULL allowed

// Reports the nodes that ran, with their times, to the call's hooks; profile.c.
et_status eti_xnn_report_profile(const eti_xnn_engine *engine, const et_delegate_call *call);

et_status eti_xnn_execute(void *handle, const et_delegate_call *call);

#endif  // ET_XNNPACK_DELEGATE_H
