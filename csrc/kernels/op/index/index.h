// index.h — a list of index tensors and masks, read once, and the walk over its tuples of indices.
// Internal to op/index/*.c. Relies on iter.h.
#ifndef ET_OP_INDEX_H
#define ET_OP_INDEX_H

#include "kernels/kernel.h"
#include "kernels/lib/iter.h"

#define ETI_INDEX_STEPS ETI_ON_STACK(ET_MAX_RANK, 1)  // others are found when they are needed

// One index tensor. A mask is walked over its true elements in logical order; its coordinates are
// in `eti_indexing` beside the dimensions it covers.
typedef struct eti_index_source {
  const et_tensor *t;
  ptrdiff_t steps[ETI_INDEX_STEPS];  // strides along dimensions of the index shape, the last first
  uint8_t number;                    // position in the list, for messages
  uint8_t dim, n_dims;               // dimensions of self that it indexes
  bool is_mask, started;
  int32_t n_true, k;  // of a mask: true elements; the current element of the walk is the k-th
  size_t position;    // of that element
  ptrdiff_t at_mask, at_self;
} eti_index_source;

typedef struct eti_indexing {
  eti_window self;
  size_t n_sources;
  eti_index_source sources[ET_MAX_RANK];
  int32_t mask_index[ET_MAX_RANK];  // by dimension of self
  bool wraps;                       // negative indices count from the end
  eti_shape index;                  // common shape of the index tensors
  size_t n_tuples;
  size_t at;  // first dimension of the result that belongs to index
  size_t n_rest;
  uint8_t rest[ET_MAX_RANK];  // dimensions of self that are not indexed
  eti_shape result;
} eti_indexing;

// Reads the whole list in argument 1, with an entry for each of self's dimensions in turn; None
// leaves a dimension unindexed.
et_status eti_indexing_of_list(const et_kernel_ctx *ctx, et_value *const *args,
                               const et_tensor *self, eti_indexing *x);
// Reads the list in two steps, with x->self, x->wraps and an empty x->index set: tensor `number` of
// the list indexes dimension `dim` and, if it is a mask, those after it; then the result's shape is
// set.
et_status eti_indexing_add(const et_kernel_ctx *ctx, eti_indexing *x, const et_tensor *t,
                           size_t number, size_t dim);
et_status eti_indexing_shape(const et_kernel_ctx *ctx, eti_indexing *x);

typedef struct eti_index_walk {
  int32_t index[ET_MAX_RANK];
  ptrdiff_t affine;                // offset in the tensor that has the result's shape
  ptrdiff_t sources[ET_MAX_RANK];  // offset in each source
} eti_index_walk;

// Starts the walk at a tuple, which must exist. `affine` has the result's shape.
void eti_index_begin(const eti_indexing *x, const eti_window *affine, size_t tuple,
                     eti_index_walk *w);
// Byte offsets of the next n tuples in both tensors, with all indices checked; `first` is the first
// tuple's number, for messages. Only walks of masks change *x.
et_status eti_index_addresses(const et_kernel_ctx *ctx, eti_indexing *x, eti_index_walk *w,
                              const eti_window *affine, ptrdiff_t bytes, size_t first, size_t n,
                              ptrdiff_t *indexed_at, ptrdiff_t *affine_at);

#endif  // ET_OP_INDEX_H
