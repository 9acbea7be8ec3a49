// gemm_residual.c — f32 gemm with residual: the last product of a branch and the sum of a skip
// connection in one pass over the result. As separate nodes the result is written by the product,
// read and written by the sum and, if the sum has bounds, read and written once more. Bits are the
// same: each sum is rounded before the residual is added.
//
// The product is defined as XNNPACK's node. Then the residual is added as an input, and the setup
// function is replaced.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm/gemm_override.h"
#include "backends/xnnpack/tuned/own_node.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "runtime/check.h"

// The index after input, filter and bias, which XNNPACK's own functions read.
enum { RESIDUAL = 3 };
_Static_assert(RESIDUAL < XNN_MAX_INPUTS, "a node has room for the residual");

// The kernels read an eti_xnn_f32_residual where XNNPACK's reshape has written its two limits.
_Static_assert(sizeof(eti_xnn_f32_residual) <= sizeof(((struct gemm_context *)0)->params) &&
                   sizeof(eti_xnn_f32_residual) <= sizeof(((struct igemm_context *)0)->params) &&
                   _Alignof(eti_xnn_f32_residual) <= _Alignof(struct gemm_context),
               "the parameters have room for the residual");

static void set_residual(void *params, ptrdiff_t bytes) {
  ((eti_xnn_f32_residual *)params)->bytes = bytes;
}

static void add_to_gemm(struct gemm_context *c, const eti_xnn_gemm_table *t, ptrdiff_t bytes) {
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++)
    c->ukernel.function[u] = (xnn_gemm_ukernel_fn)t->gemm_add;
  set_residual(&c->params, bytes);
}

// XNNPACK has made the indirection buffer for the kernel that it chose, of one row or of all.
static void add_to_igemm(struct igemm_context *c, const eti_xnn_gemm_table *t, ptrdiff_t bytes) {
  const eti_xnn_fn chosen = (eti_xnn_fn)c->ukernel.function[XNN_UARCH_DEFAULT];
  const bool is_1_row = chosen == t->igemm_1_row || chosen == t->igemm_add_1_row;
  ET_ASSERT(is_1_row || chosen == t->igemm || chosen == t->igemm_add);
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++)
    c->ukernel.function[u] = (xnn_igemm_ukernel_fn)(is_1_row ? t->igemm_add_1_row : t->igemm_add);
  set_residual(&c->params, bytes);
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
  eti_xnn_unused_in_setup(n_values, threads);
  struct xnn_operator *const op = opdata->operator_objects[0];
  const uint8_t *const residual = values[opdata->inputs[RESIDUAL]].data;
  uint8_t *const y = values[opdata->outputs[0]].data;
  const enum xnn_status status =
      set_up_product(op, opdata->workspace, values[opdata->inputs[0]].data, y);
  if (status != xnn_status_success) return status;
  const eti_xnn_gemm_table *const t = eti_xnn_f32_gemm_table();
  const ptrdiff_t bytes = (ptrdiff_t)((intptr_t)residual - (intptr_t)y);
  if (op->ukernel.type == xnn_microkernel_type_gemm) {
    ET_ASSERT(op->ukernel.gemm.nr == t->layout.nr);
    add_to_gemm(&op->context.gemm.gemm.gemm, t, bytes);
  } else {
    ET_ASSERT(op->ukernel.type == xnn_microkernel_type_igemm &&
              op->ukernel.igemm.nr == t->layout.nr);
    add_to_igemm(&op->context.igemm.igemm, t, bytes);
  }
  return status;
}

// XNNPACK uses other kernels for fewer columns than a panel has.
bool eti_xnn_has_gemm_residual(size_t n_cols) {
  const eti_xnn_gemm_table *const t = eti_xnn_f32_gemm_table();
  return t != NULL && n_cols >= t->layout.nr;
}

void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual) {
  struct xnn_node *const node = eti_xnn_last_node(subgraph);
  ET_ASSERT(node->num_inputs == RESIDUAL);
  eti_xnn_add_input(node, residual);
  node->setup = set_up;
}
