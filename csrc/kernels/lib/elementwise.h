// elementwise.h — operators of one or two operands described by data: the type they compute in, the
// loop that computes, and the loops of each instruction set. One run and one prepare function serve
// all of them. Relies on promotion, iteration and the micro-kernels; knows no operator's name.
#ifndef ET_ELEMENTWISE_H
#define ET_ELEMENTWISE_H

#include "kernels/lib/iter.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/lib/promote.h"

typedef enum eti_rule {
  ETI_RULE_SAME,     // computes in and gives the promoted type
  ETI_RULE_FLOAT,    // the same, integers and bool as f32
  ETI_RULE_COMPARE,  // computes in the promoted type, gives bool
  ETI_RULE_LOGICAL,  // each operand becomes bool, gives bool
} eti_rule;

typedef struct eti_elementwise {
  eti_rule rule;
  // Loops by type of computation (never a half), for types without micro-kernel.
  const eti_loop *loops;
  eti_float_loop micro;    // of f32 and f64, per instruction set
  eti_int_loop micro_int;  // of integers
  eti_loop halves;         // of both half types as bits, or NULL: they compute in f32
  size_t grain;            // 0 = cheap
  bool divides;            // an integer 0 as second operand is an error
  bool wide_right;         // a number on the right of halves is not rounded to a half
#ifdef ET_SELECTED_LOOPS
  const char *uses, *uses_int;  // references for build-kernels, which finds the loops by them
#endif
} eti_elementwise;

#ifdef ET_SELECTED_LOOPS
#define ETI_NOTE(field, kind, name) , .field = &ETI_USE_SYMBOL(kind, name)
#else
#define ETI_NOTE(field, kind, name)
#endif
#define ETI_MICRO_UNARY(name) ETI_UNARY_##name ETI_NOTE(uses, unary, name)
#define ETI_MICRO_BINARY(name) ETI_BINARY_##name ETI_NOTE(uses, binary, name)
#define ETI_MICRO_INT(name) ETI_INT_##name ETI_NOTE(uses_int, ints, name)

// Parameters of a loop: numbers k[0], k[1] … in the type of computation; a number that is an
// operand is at ETI_PARAM_OPERAND.
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

// Defines a plain operator whose arguments are its operands and out: its two functions and its
// description, as designated initialisers. Each operator is a constant of its own, not a row of a
// table, so that a selective build drops the others.
#define ETI_UNARY_OPERATOR(name, ...)                                    \
  static const eti_elementwise name##_op = {__VA_ARGS__};                \
  et_status op_##name(et_kernel_ctx *ctx, et_value *const *args) {       \
    return eti_unary_run(ctx, args, &name##_op, 1, NULL);                \
  }                                                                      \
  et_status prepare_##name(et_prepare_ctx *ctx, et_value *const *args) { \
    return eti_unary_prepare(ctx, args, &name##_op, 1, NULL);            \
  }
#define ETI_BINARY_OPERATOR(name, ...)                                   \
  static const eti_elementwise name##_op = {__VA_ARGS__};                \
  et_status op_##name(et_kernel_ctx *ctx, et_value *const *args) {       \
    return eti_binary_run(ctx, args, &name##_op, 2, NULL);               \
  }                                                                      \
  et_status prepare_##name(et_prepare_ctx *ctx, et_value *const *args) { \
    return eti_binary_prepare(ctx, args, &name##_op, 2, NULL);           \
  }

#endif  // ET_ELEMENTWISE_H
