// memory_bound.c — see memory_bound.h. Reads XNNPACK's inner structs, as gemm_override.c does.
#include "backends/xnnpack/tuned/memory_bound.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <xnnpack/compute.h>
#include <xnnpack/config.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

// As in XNNPACK's transpose.h and vbinary.h, which need more of its sources.
void xnn_x8_transposec_ukernel__32x32_reuse_switch_avx2(const void *, void *, size_t, size_t,
                                                        size_t, size_t);
void xnn_qs8_vmul_minmax_fp32_ukernel__avx_mul16_ld64_u16(size_t, const void *, const void *,
                                                          void *, const void *);

static const xnn_transposec_ukernel_fn their_transposition =
    (xnn_transposec_ukernel_fn)xnn_x8_transposec_ukernel__32x32_reuse_switch_avx2;
static const xnn_vbinary_ukernel_fn their_product =
    (xnn_vbinary_ukernel_fn)xnn_qs8_vmul_minmax_fp32_ukernel__avx_mul16_ld64_u16;

// What a thread takes at once: a microsecond or more of it.
enum { BYTES_A_TILE = 8192 };

static size_t n_ranges(const struct compute_parameters *work) {
  switch (work->type) {
    case xnn_parallelization_type_2d_tile_2d:
      return 2;
    case xnn_parallelization_type_3d_tile_2d:
      return 3;
    case xnn_parallelization_type_4d_tile_2d:
      return 4;
    default:
      return 0;
  }
}

// The last two ranges are those of a kernel's call: pixels, and lines.
static void interleave(struct xnn_operator *op) {
  struct transpose_context *const context = &op->context.transpose;
  struct compute_parameters *const work = &op->compute[0];
  const size_t n = n_ranges(work);
  if (n < 2 || work->range[n - 1] != 3 || context->output_stride[n - 2] != 3 ||
      context->const_size_ukernel != their_transposition)
    return;
  context->const_size_ukernel = (xnn_transposec_ukernel_fn)eti_xnn_x8_interleave_3__avx2;
  work->tile[0] = BYTES_A_TILE;
}

// ---- Two operands: rows of one, and of the other one the same row or another

static void run_rows(void *context, size_t first, size_t count) {
  const struct elementwise_binary_context *const c = context;
  const size_t last = XNN_MAX_TENSOR_DIMS - 2;
  const uint8_t *a = (const uint8_t *)c->a + first * c->a_stride[last];
  const uint8_t *b = (const uint8_t *)c->b + first * c->b_stride[last];
  uint8_t *y = (uint8_t *)c->y + first * c->y_stride[last];
  for (size_t i = 0; i < count; i++) {
    c->ukernel(c->elements, a, b, y, (const union xnn_binary_uparams *)&c->params);
    a += c->a_stride[last];
    b += c->b_stride[last];
    y += c->y_stride[last];
  }
}

static void cut_rows(struct xnn_operator *op) {
  struct elementwise_binary_context *const context = &op->context.elementwise_binary;
  struct compute_parameters *const work = &op->compute[0];
  if (context->ukernel == their_product)
    context->ukernel = (xnn_vbinary_ukernel_fn)eti_xnn_qs8_multiply__avx2;
  if (work->type != xnn_parallelization_type_1d ||
      work->task_1d != (pthreadpool_task_1d_t)xnn_compute_elementwise_binary_1d)
    return;
  work->type = xnn_parallelization_type_1d_tile_1d;
  work->task_1d_tile_1d = run_rows;
  work->tile[0] = context->elements < BYTES_A_TILE ? BYTES_A_TILE / context->elements : 1;
}

// ---- All

void eti_xnn_tile_light(xnn_runtime_t runtime) {
  _Static_assert(
      sizeof(eti_xnn_qs8_product) == sizeof(((union xnn_qs8_mul_minmax_params *)NULL)->scalar),
      "the kernel gets XNNPACK's parameters");
  for (size_t i = 0; i < runtime->num_ops; i++) {
    struct xnn_operator *const op = runtime->opdata[i].operator_objects[0];
    if (op == NULL) continue;
    struct compute_parameters *const work = &op->compute[0];
    if (op->type == xnn_operator_type_transpose_nd_x8) interleave(op);
    if (op->type == xnn_operator_type_binary_elementwise) cut_rows(op);
    if (op->lookup_table != NULL && work->type == xnn_parallelization_type_1d_tile_1d &&
        work->tile[0] < BYTES_A_TILE)
      work->tile[0] = BYTES_A_TILE;
  }
}

size_t eti_xnn_own_light(const char **names, size_t n) {
  const struct xnn_transpose_config *const moves = xnn_init_transpose_config();
  const struct xnn_binary_elementwise_config *const products = xnn_init_qs8_vmul_config();
  size_t n_found = 0;
  if (moves != NULL && moves->x8.const_size_ukernel == their_transposition) {
    if (n_found < n) names[n_found] = "x8_transposec_of_3_lines";
    n_found++;
  }
  if (products != NULL && products->op_ukernel == their_product) {
    if (n_found < n) names[n_found] = "qs8_vmul";
    n_found++;
  }
  return n_found;
}

#else
size_t eti_xnn_own_light(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

void eti_xnn_tile_light(xnn_runtime_t runtime) {
  (void)runtime;
}
#endif
