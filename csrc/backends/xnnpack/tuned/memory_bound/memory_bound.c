// memory_bound.c — tiles and kernels of memory-bound operators: see memory_bound.h.
#include "backends/xnnpack/tuned/memory_bound/memory_bound.h"

#include "backends/xnnpack/tuned/xnn_private.h"
#include "kernels/micro/isa_select.h"

enum { TILE_BYTES = 8192 };  // per tile: a microsecond or more

static const xnn_transposec_ukernel_fn original_transposec =
    (xnn_transposec_ukernel_fn)xnn_x8_transposec_ukernel__32x32_reuse_switch_avx2;
static const xnn_vbinary_ukernel_fn original_vmul =
    (xnn_vbinary_ukernel_fn)xnn_qs8_vmul_minmax_fp32_ukernel__avx_mul16_ld64_u16;
static const xnn_vbinary_ukernel_fn original_vadd =
    (xnn_vbinary_ukernel_fn)xnn_qs8_vadd_minmax_ukernel__avx512skx_mul32_ld128_u16;

// ---- Transposition

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

// The last two ranges are those of a kernel's call: pixels and planes.
static void tune_transpose(struct xnn_operator *op) {
  struct transpose_context *const context = &op->context.transpose;
  struct compute_parameters *const work = &op->compute[0];
  const size_t n = n_ranges(work);
  if (n < 2 || work->range[n - 1] != 3 || context->output_stride[n - 2] != 3 ||
      context->const_size_ukernel != original_transposec)
    return;
  context->const_size_ukernel = (xnn_transposec_ukernel_fn)eti_xnn_x8_interleave_3__avx2;
  work->tile[0] = TILE_BYTES;
}

// ---- Binary operators: rows of one operand, and the same row or another of the other operand

static void run_binary_rows(void *context, size_t first, size_t count) {
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

static bool has_vnni(void) {
  return eti_cpu_dot() == ETI_DOT_AVX512_VNNI || eti_cpu_dot() == ETI_DOT_AMX;
}

static void tune_binary(struct xnn_operator *op) {
  struct elementwise_binary_context *const context = &op->context.elementwise_binary;
  struct compute_parameters *const work = &op->compute[0];
  if (context->ukernel == original_vmul)
    context->ukernel = (xnn_vbinary_ukernel_fn)eti_xnn_qs8_vmul__avx2;
  if (context->ukernel == original_vadd && has_vnni())
    context->ukernel = (xnn_vbinary_ukernel_fn)eti_xnn_qs8_vadd__avx512vnni;
  if (work->type != xnn_parallelization_type_1d ||
      work->task_1d != (pthreadpool_task_1d_t)xnn_compute_elementwise_binary_1d)
    return;
  work->type = xnn_parallelization_type_1d_tile_1d;
  work->task_1d_tile_1d = run_binary_rows;
  work->tile[0] = context->elements < TILE_BYTES ? TILE_BYTES / context->elements : 1;
}

// ---- All

void eti_xnn_memory_bound_after_reshape(xnn_runtime_t runtime) {
  _Static_assert(
      sizeof(eti_xnn_qs8_vmul_params) == sizeof(((union xnn_qs8_mul_minmax_params *)NULL)->scalar),
      "the kernel reads XNNPACK's parameters as eti_xnn_qs8_vmul_params");
  _Static_assert(sizeof(eti_xnn_qs8_vadd_params) == sizeof(struct xnn_qs8_add_minmax_params),
                 "the kernel reads XNNPACK's parameters as eti_xnn_qs8_vadd_params");
  for (size_t i = 0; i < runtime->num_ops; i++) {
    struct xnn_operator *const op = runtime->opdata[i].operator_objects[0];
    if (op == NULL) continue;
    struct compute_parameters *const work = &op->compute[0];
    if (op->type == xnn_operator_type_transpose_nd_x8) tune_transpose(op);
    if (op->type == xnn_operator_type_binary_elementwise) tune_binary(op);
    if (op->lookup_table != NULL && work->type == xnn_parallelization_type_1d_tile_1d &&
        work->tile[0] < TILE_BYTES)
      work->tile[0] = TILE_BYTES;
  }
}

size_t eti_xnn_memory_bound_names(const char **names, size_t n) {
  const struct xnn_transpose_config *const transpose = xnn_init_transpose_config();
  const struct xnn_binary_elementwise_config *const vmul = xnn_init_qs8_vmul_config();
  const struct xnn_binary_elementwise_config *const vadd = xnn_init_qs8_vadd_config();
  size_t n_found = 0;
  if (transpose != NULL && transpose->x8.const_size_ukernel == original_transposec) {
    if (n_found < n) names[n_found] = "x8_transposec_of_3_lines";
    n_found++;
  }
  if (vmul != NULL && vmul->op_ukernel == original_vmul) {
    if (n_found < n) names[n_found] = "qs8_vmul";
    n_found++;
  }
  if (vadd != NULL && vadd->op_ukernel == original_vadd && has_vnni()) {
    if (n_found < n) names[n_found] = "qs8_vadd";
    n_found++;
  }
  return n_found;
}
