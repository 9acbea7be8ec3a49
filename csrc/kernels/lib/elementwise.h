// elementwise.h — operators of one or two operands described by data: which type they compute in,
// which loop computes, which loops are specialised per instruction set. One run and one prepare
// function serve them all. Relies on promotion, iteration and the micro-kernels; knows no
// operator's name.
#ifndef ET_ELEMENTWISE_H
#define ET_ELEMENTWISE_H

#include "kernels/lib/iter.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/lib/promote.h"

#include <assert.h>

typedef enum eti_rule {
  ETI_RULE_SAME,     // computes in and gives the promoted type
  ETI_RULE_FLOAT,    // the same, integers and bool as f32
  ETI_RULE_COMPARE,  // computes in the promoted type, gives bool
  ETI_RULE_LOGICAL,  // each operand becomes bool, gives bool
} eti_rule;

typedef struct eti_elementwise {
  eti_rule rule;
  // By the type of computation (never a half), for types without micro-kernel.
  const eti_loop *loops;
  // Offset of the f32 loop in eti_eltwise, the f64 loop ETI_MICRO_F64 further, or ETI_NO_MICRO.
  size_t micro;
  size_t micro_int;  // offset of the integer loops there, or 0
  eti_loop halves;   // of both half types as bits, or NULL: they compute in f32
  size_t grain;      // 0 = cheap
  bool divides;      // an integer 0 as second operand is an error
  bool wide_right;   // one number on the right of halves is not rounded to a half first
#ifdef ET_SELECTED_LOOPS
  const char *uses, *uses_int;  // which of the tables' entries, for who selects
#endif
} eti_elementwise;

#define ETI_NO_MICRO SIZE_MAX
#ifdef ET_SELECTED_LOOPS
#define ETI_NOTE(field, kind, name) , .field = &ETI_USE_SYMBOL(kind, name)
#else
#define ETI_NOTE(field, kind, name)
#endif
#define ETI_MICRO_UNARY(name) offsetof(eti_eltwise, unary.name) ETI_NOTE(uses, unary, name)
#define ETI_MICRO_BINARY(name) offsetof(eti_eltwise, binary.name) ETI_NOTE(uses, binary, name)
#define ETI_MICRO_F64 (offsetof(eti_eltwise, unary_f64) - offsetof(eti_eltwise, unary))
static_assert(ETI_MICRO_F64 == offsetof(eti_eltwise, binary_f64) - offsetof(eti_eltwise, binary),
              "the f64 loop of an operator lies at one distance from its f32 loop");
#define ETI_MICRO_INT(name) offsetof(eti_eltwise, ints.name) ETI_NOTE(uses_int, ints, name)

// Parameters of a loop: numbers k[0], k[1] … in the type of computation; a number that is an
// operand lies at ETI_PARAM_OPERAND.
typedef union eti_params {
  double align;
  unsigned char bytes[ETI_FLAT_PARAMS];
} eti_params;

// The loop for a type of computation; NULL when there is none.
eti_loop eti_elementwise_loop(const eti_elementwise *op, et_dtype compute);

// Writes number i of the parameters; at most ETI_FLAT_PARAMS bytes in all.
void eti_params_set(eti_params *params, size_t i, const eti_scalar *value, et_dtype compute);
static inline eti_scalar eti_scalar_double(double d) {
  return (eti_scalar){.is_float = true, .d = d};
}

// ---- one operand: argument i_in, result i_out. fill (or NULL) writes the parameters once the type
// is known.
typedef et_status (*eti_fill_params)(const et_kernel_ctx *ctx, et_value *const *args,
                                     et_dtype compute, eti_params *params);
et_status eti_unary_run(et_kernel_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                        size_t i_out, eti_fill_params fill);
et_status eti_unary_prepare(et_prepare_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                            size_t i_out, eti_fill_params fill);

// ---- two operands: arguments 0 and 1, each a tensor or a number
et_status eti_binary_run(et_kernel_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                         size_t i_out, eti_fill_params fill);
et_status eti_binary_prepare(et_prepare_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                             size_t i_out, eti_fill_params fill);

// A plain operator of one operand: its description and both its functions. For lists.
#define ETI_UNARY_OPERATOR(name, description)                                  \
  static const eti_elementwise name##_op = description;                        \
  et_status op_##name##_out(et_kernel_ctx *ctx, et_value *const *args) {       \
    return eti_unary_run(ctx, args, &name##_op, 1, NULL);                      \
  }                                                                            \
  et_status prepare_##name##_out(et_prepare_ctx *ctx, et_value *const *args) { \
    return eti_unary_prepare(ctx, args, &name##_op, 1, NULL);                  \
  }

#endif  // ET_ELEMENTWISE_H
