// iter.h — walks over several tensors together: broadcasting, any dim orders, mixed element types,
// threads. Loops get one row at a time, as pointers and byte strides, and know nothing else.
//   eti_map    runs an elementwise loop over an output and its inputs, the usual case; casts in
//              blocks
//   eti_flat   the same, set up once in prepare for operands of one layout: run is one call
//   eti_iter   the merged index space itself, for operators with another pattern
// Relies on tensors and the cast table; knows no operator.
#ifndef ET_ITER_H
#define ET_ITER_H

#include "kernels/micro/convert/cast.h"
#include "kernels/lib/shape.h"
#include "kernels/loops/loop_type.h"
#include "runtime/check.h"
#include "runtime/et.h"

#define ETI_MAX_OPERANDS 4

// Least number of elements per thread, for loops that cost about one add, or about one exp, per
// element.
#define ETI_GRAIN_CHEAP 32768u
#define ETI_GRAIN_MATH 8192u

// ---- elementwise

typedef struct eti_map {
  eti_loop loop;
  const void *params;
  size_t grain;                     // 0 = ETI_GRAIN_CHEAP
  uint8_t types[ETI_MAX_OPERANDS];  // per operand, the loop's type; others are cast in blocks
  uint8_t via[ETI_MAX_OPERANDS];    // not 0: the half type an input is rounded to before it is cast
} eti_map;

// Runs map over operands[0] (the output, already resized to the broadcast shape of the others) and
// n - 1 inputs, each of which broadcasts to it. An input may be the output itself. ET_NOT_SUPPORTED
// when a cast does not exist or loop is NULL.
et_status eti_map_run(const et_kernel_ctx *ctx, const eti_map *map, et_tensor *const *operands,
                      size_t n);

// ---- elementwise, decided in prepare

#define ETI_FLAT_PARAMS 32
// Position of an operand that is a number: it is at ETI_PARAM_OPERAND of the parameters.
#define ETI_ARG_PARAM 0xFFu
#define ETI_PARAM_OPERAND 16  // byte offset; numbers there already have the loop's type

typedef struct eti_flat {
  eti_loop loop;
  size_t numel;
  size_t grain;
  uint8_t n;  // operands
  // Argument positions of the operands, output first; ETI_ARG_PARAM for a number.
  uint8_t arg[ETI_MAX_OPERANDS];
  bool repeats[ETI_MAX_OPERANDS];  // the operand has one element, used for all
  ptrdiff_t strides[ETI_MAX_OPERANDS];
  double params[ETI_FLAT_PARAMS / sizeof(double)];
} eti_flat;

// Stores an eti_flat in ctx->state when the operands at positions arg[0..n) (output first) have the
// map's types, cannot be resized, and have one memory layout (or one element). Copies params_bytes
// ≤ ETI_FLAT_PARAMS of map->params. Otherwise leaves the state NULL, which is no error: run then
// uses the general path.
et_status eti_flat_prepare(et_prepare_ctx *ctx, const eti_map *map, et_value *const *args,
                           const uint8_t *arg, size_t n, size_t params_bytes);

// Runs the stored eti_flat. False when there is none or an operand differs from that of prepare.
bool eti_flat_run(const et_kernel_ctx *ctx, et_value *const *args);

// ---- the index space

// Dimensions after merging, innermost first; size-1 dimensions are gone, so rank is 0 for a single
// element.
typedef struct eti_iter {
  size_t rank;
  size_t numel;
  size_t n_operands;
  size_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK][ETI_MAX_OPERANDS];  // in bytes
  char *data[ETI_MAX_OPERANDS];
} eti_iter;

// Starts a walk over the shape of operands[0], in the order of its memory. The other operands must
// broadcast to it (ET_INVALID_ARGUMENT: an output was not resized to the inputs' shape).
et_status eti_iter_init(const et_kernel_ctx *ctx, eti_iter *it, et_tensor *const *operands,
                        size_t n);

// Appends an outermost dimension, merging it into the last one when every operand allows. For
// manually built index spaces.
void eti_iter_add_dim(eti_iter *it, size_t size, const ptrdiff_t *strides);

// Calls row for every innermost row of flat positions [begin, end), cut at both ends.
typedef void (*eti_row_fn)(void *ctx, void *const p[], const ptrdiff_t s[], size_t n);
void eti_iter_rows(const eti_iter *it, size_t begin, size_t end, eti_row_fn row, void *ctx);

#endif  // ET_ITER_H
