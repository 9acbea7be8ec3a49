// arguments.h — random arguments for a kernel. They cover all arguments that a loaded file can
// pass: all kinds of values, dense tensors of any dtype, rank and dim order in memory of their
// declared size, and any bytes in it. Relies on fuzz_random; knows no operator.
#ifndef ET_ARGUMENTS_H
#define ET_ARGUMENTS_H

#include "runtime/et.h"

#include "fuzz.h"

#define MAX_ARGS 20
#define MAX_TENSORS 96
#define MAX_VALUES 256
#define MAX_TEXTS 4
#define MAX_TEXT 80
#define MAX_LIST 40
#define MAX_SHADOWS 512

typedef struct fuzz_tensor {
  et_tensor t;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  uint8_t order[ET_MAX_RANK];
  uint8_t *memory;  // exactly its capacity, so that a sanitizer sees an overrun
  uint8_t *before;  // its contents before the call
  size_t bytes;
  bool is_written, is_shared;  // is_shared: memory lies in the pool that other tensors use too
} fuzz_tensor;

typedef struct fuzz_shadow_value {
  et_value v;
  et_tensor t;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  et_value *list[MAX_LIST];
} fuzz_shadow_value;

// The arguments of one call, and their common dtype and sizes: most operators need equal dtypes and
// sizes that fit.
typedef struct fuzz_call {
  uint64_t random;
  int32_t sizes[ET_MAX_RANK];
  size_t rank, max_rank;
  uint8_t dtype, contents;
  bool overlaps;  // tensors share memory
  // For a call that is read from text: one in `rate` of its parts changes (0: none), and every part
  // that equals the dtype or the size "from" changes in the same way.
  uint64_t rate;
  uint8_t dtype_from;
  int32_t size_from, size_to, size_none;  // size_none becomes 0
  size_t most_numel;                      // greater tensors shrink
  bool is_blank;                          // tensors keep what malloc gives: the caller fills them
  bool is_other_dtype;                    // a tensor of the text got another type than requested
  et_dtype_set in_dtypes, out_dtypes;
  fuzz_tensor tensors[MAX_TENSORS];
  et_value values[MAX_VALUES];
  et_value *lists[8][MAX_LIST];
  uint8_t bytes[8][8 * MAX_LIST];
  char texts[MAX_TEXTS][MAX_TEXT];
  uint8_t *pool;
  fuzz_shadow_value shadows[MAX_SHADOWS];
  size_t n_tensors, n_values, n_lists, n_texts, n_shadows;
} fuzz_call;

void fuzz_call_begin(fuzz_call *c, const et_op *op, uint64_t seed);
void fuzz_call_end(fuzz_call *c);  // frees the tensors' memory

static inline uint64_t fuzz_choose(fuzz_call *c, uint64_t n) {
  return fuzz_random(&c->random) % n;
}

et_value *fuzz_value(fuzz_call *c, et_tag tag, bool is_written);
// A value of a line of calls.txt; *at advances past it.
et_value *fuzz_read(fuzz_call *c, const char **at, bool is_written);

// Changes the sizes of dynamic tensors to sizes within their capacity, as they may be at the begin
// of a run.
void fuzz_resize(fuzz_call *c);
// The value as a prepare step sees it: a copy with copies below, tensors without memory (constants
// apart). Setting n_shadows to 0 releases all of them.
et_value *fuzz_shadow(fuzz_call *c, const et_value *v);
void fuzz_remember(fuzz_call *c);
// The text of forbidden damage that a call did; NULL for none.
const char *fuzz_damage(const fuzz_call *c);
void fuzz_print(et_value *const *args, size_t n);

#endif  // ET_ARGUMENTS_H
