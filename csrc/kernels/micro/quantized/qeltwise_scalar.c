// qeltwise_scalar.c — the loops of qeltwise.h for any machine. Also chooses between the variants.
#include "kernels/micro/quantized/qeltwise.h"

#include "kernels/micro/isa_select.h"

static inline size_t run_vectors(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                                 size_t b_step, const eti_qbinary *k, size_t n, int kind) {
  (void)out, (void)a, (void)b, (void)a_step, (void)b_step, (void)k, (void)n, (void)kind;
  return 0;
}

static inline void lookup_bytes(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = table[in[i] + 128];
}

#define ISA(name) name##__scalar
#define QELTWISE_TABLE eti_qeltwise_scalar
#include "kernels/micro/quantized/qeltwise.body.h"

const eti_qeltwise_micro *eti_qeltwise_micro_best(void) {
  static const eti_qeltwise_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_qeltwise_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_qeltwise_avx2,
      [ETI_ISA_AVX512] = &eti_qeltwise_avx512,
#endif
  };
#if ETI_HAVE_X86
  if (eti_cpu_permutes_bytes()) return &eti_qeltwise_avx512vbmi;
#endif
  const eti_qeltwise_micro *const best = variants[eti_cpu_isa()];
  return best != NULL ? best : &eti_qeltwise_scalar;
}
