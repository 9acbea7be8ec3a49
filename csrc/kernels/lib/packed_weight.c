// packed_weight.c — see packed_weight.h.
#include "kernels/lib/packed_weight.h"

#include "kernels/lib/shape.h"

static size_t panels_of(size_t n) {
  return (n + ETI_GEMM_STORED - 1) / ETI_GEMM_STORED;
}

et_status eti_unpacked_weight_init(const et_kernel_ctx *ctx, const char *op, const int64_t *sizes,
                                   size_t rank, const et_tensor *panels, eti_unpacked_weight *out) {
  size_t numel = 1;
  ET_CHECK(rank >= 1 && rank <= sizeof out->sizes / sizeof out->sizes[0], ctx->err,
           ET_INVALID_ARGUMENT, "%s: weight: expected 1 to 5 sizes, got %zu", op, rank);
  *out = (eti_unpacked_weight){.value = {.tag = ET_TENSOR}};
  for (size_t d = rank; d-- > 0;) {
    ET_CHECK(sizes[d] >= 1 && sizes[d] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "%s: weight: size %zu: expected 1 to %ld, got %lld", op, d, (long)INT32_MAX,
             (long long)sizes[d]);
    out->sizes[d] = (int32_t)sizes[d];
    out->strides[d] = (ptrdiff_t)numel;
    const bool overflows = __builtin_mul_overflow(numel, (size_t)sizes[d], &numel);
    ET_CHECK(!overflows && numel <= panels->numel, ctx->err, ET_INVALID_ARGUMENT,
             "%s: weight: expected at most the %zu elements of its panels, got more", op,
             panels->numel);
  }
  out->tensor = (et_tensor){.data = panels->data,
                            .sizes = out->sizes,
                            .strides = out->strides,
                            .numel = numel,
                            .capacity = numel,
                            .dtype = panels->dtype,
                            .rank = (uint8_t)rank,
                            .flags = panels->flags};
  out->value.as.tensor = &out->tensor;
  return ET_OK;
}

et_status eti_unpacked_weight_taps_first(const et_kernel_ctx *ctx, const char *op,
                                         const et_tensor *panels, eti_unpacked_weight *weight) {
  char found[ETI_TENSOR_TEXT];
  const int32_t *const s = panels->sizes;
  const size_t channels = (size_t)weight->sizes[0], taps = weight->tensor.numel / channels;
  ET_CHECK(panels->dtype == ET_F32 && panels->rank == 4 && s[0] == 1 && s[1] == 1 &&
               (size_t)s[2] == taps && (size_t)s[3] == channels && eti_is_contiguous(panels),
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: weight: expected contiguous f32[1, 1, %zu, %zu] for %zu channels, got %s", op, taps,
           channels, channels, eti_tensor_text(panels, found));
  for (size_t d = 0; d < weight->tensor.rank; d++)
    weight->strides[d] = d < 2 ? 1 : weight->strides[d] * (ptrdiff_t)channels;
  return ET_OK;
}

et_status eti_packed_weight_check(const et_kernel_ctx *ctx, const char *op, const et_tensor *panels,
                                  size_t groups, size_t n, size_t k) {
  char found[ETI_TENSOR_TEXT];
  const int32_t *const s = panels->sizes;
  ET_CHECK(panels->dtype == ET_F32 && panels->rank == 4 && (size_t)s[0] == groups &&
               (size_t)s[1] == panels_of(n) && (size_t)s[2] == k && s[3] == ETI_GEMM_STORED &&
               eti_is_contiguous(panels),
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: weight: expected contiguous panels f32[%zu, %zu, %zu, %d] for %zu columns in each "
           "group, got %s",
           op, groups, panels_of(n), k, (int)ETI_GEMM_STORED, n, eti_tensor_text(panels, found));
  return ET_OK;
}

eti_gemm_operand eti_packed_weight_operand(const eti_gemm_kernel *kernel, const void *panels,
                                           size_t group, size_t n, size_t k) {
  const size_t panel = ETI_GEMM_STORED * k;
  return (eti_gemm_operand){.data = (const float *)panels + group * panels_of(n) * panel,
                            .height = kernel->nr,
                            .panel_step = panel,
                            .k_step = ETI_GEMM_STORED,
                            .stored = ETI_GEMM_STORED};
}
