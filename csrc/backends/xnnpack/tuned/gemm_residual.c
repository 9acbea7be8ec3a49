// gemm_residual.c — see gemm_residual.h. Reads XNNPACK's inner structs, as gemm_override.c does.
#include "backends/xnnpack/tuned/gemm_residual.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <xnnpack/compute.h>
#include <xnnpack/igemm.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

#include "backends/xnnpack/tuned/gemm_kernels.h"
#include "runtime/check.h"

// Input, filter, bias: what XNNPACK's own functions read. Ours is behind them.
enum { RESIDUAL = 3 };

// The reshape that came before has put XNNPACK's limits where the kernel will find these.
static void put_residual(void *params, ptrdiff_t bytes) {
  ((eti_xnn_f32_residual *)params)->bytes = bytes;
}

static void add_to_gemm(struct gemm_context *c, ptrdiff_t bytes) {
  _Static_assert(sizeof(eti_xnn_f32_residual) <= sizeof c->params, "it lies in the context");
  _Static_assert(_Alignof(eti_xnn_f32_residual) <= _Alignof(struct gemm_context), "aligned");
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++)
    c->ukernel.function[u] = (xnn_gemm_ukernel_fn)eti_xnn_f32_gemm_add_6x16__avx2;
  put_residual(&c->params, bytes);
}

// A convolution to a single pixel has pointers for a row that stands alone.
static void add_to_igemm(struct igemm_context *c, bool is_of_one, ptrdiff_t bytes) {
  _Static_assert(sizeof(eti_xnn_f32_residual) <= sizeof c->params, "it lies in the context");
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++)
    c->ukernel.function[u] = is_of_one ? (xnn_igemm_ukernel_fn)eti_xnn_f32_igemm_add_1x16__avx2
                                       : (xnn_igemm_ukernel_fn)eti_xnn_f32_igemm_add_6x16__avx2;
  put_residual(&c->params, bytes);
}

static enum xnn_status set_up_product(struct xnn_operator *op, void *workspace, const void *x,
                                      void *y) {
  return op->type == xnn_operator_type_fully_connected_nc_f32
             ? xnn_setup_fully_connected_nc_f32(op, x, y)
             : xnn_setup_convolution2d_nhwc_f32(op, workspace, x, y);
}

static enum xnn_status set_up(const struct xnn_operator_data *opdata,
                              const struct xnn_value *values, size_t n_values,
                              pthreadpool_t threads) {
  (void)n_values;
  (void)threads;
  struct xnn_operator *const op = opdata->operator_objects[0];
  const uint8_t *const residual = values[opdata->inputs[RESIDUAL]].data;
  uint8_t *const y = values[opdata->outputs[0]].data;
  const enum xnn_status status =
      set_up_product(op, opdata->workspace, values[opdata->inputs[0]].data, y);
  if (status != xnn_status_success) return status;
  const ptrdiff_t bytes = (ptrdiff_t)((intptr_t)residual - (intptr_t)y);
  if (op->ukernel.type == xnn_microkernel_type_gemm) {
    ET_ASSERT(op->ukernel.gemm.nr == ETI_XNN_GEMM_COLS);
    add_to_gemm(&op->context.gemm.gemm.gemm, bytes);
  } else {
    ET_ASSERT(op->ukernel.type == xnn_microkernel_type_igemm &&
              op->ukernel.igemm.nr == ETI_XNN_GEMM_COLS);
    add_to_igemm(&op->context.igemm.igemm, op->output_height * op->output_width == 1, bytes);
  }
  return status;
}

void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual) {
  struct xnn_node *const node = &subgraph->nodes[subgraph->num_nodes - 1];
  ET_ASSERT(node->num_inputs == RESIDUAL && RESIDUAL < XNN_MAX_INPUTS);
  node->inputs[node->num_inputs++] = residual;
  node->setup = set_up;
}

#else
void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual) {
  (void)subgraph;
  (void)residual;
}
#endif
