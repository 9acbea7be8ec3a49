// compact.c — see compact.h. Positions of selected elements are listed block by block, without
// branches that random masks would mispredict. Then only these elements are moved.
#include "kernels/lib/compact.h"

#include <string.h>

// ---- finding

#define FIND_IN(is_nonzero)                     \
  for (size_t i = 0; i < n; i++, p += stride) { \
    at[found] = (int32_t)i;                     \
    found += (is_nonzero);                      \
  }
size_t eti_find_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits,
                        int32_t at[ETI_FIND]) {
  size_t found = 0;
  switch (bytes) {
    case 1:
      FIND_IN(*(const uint8_t *)p != 0)
      break;
    case 2:
      FIND_IN((*(const uint16_t *)(const void *)p & (uint16_t)bits) != 0)
      break;
    case 4:
      FIND_IN((*(const uint32_t *)(const void *)p & (uint32_t)bits) != 0)
      break;
    case 8:
      FIND_IN((*(const uint64_t *)(const void *)p & bits) != 0)
      break;
    default:
      FIND_IN(((((const uint64_t *)(const void *)p)[0] | ((const uint64_t *)(const void *)p)[1]) &
               bits) != 0)
      break;
  }
  return found;
}
#undef FIND_IN

// Sums are as narrow as the elements, so that neighbours are added as vectors.
#define COUNT_IN(T)              \
  for (size_t i = 0; i < n; i++) \
    found = (T)(found + ((((const T *)(const void *)p)[i] & mask) != 0));
static size_t count_dense(const char *p, size_t n, size_t bytes, uint64_t bits) {
  if (bytes == 1) {
    uint8_t found = 0;
    const uint8_t mask = UINT8_MAX;
    COUNT_IN(uint8_t)
    return found;
  }
  if (bytes == 2) {
    uint16_t found = 0;
    const uint16_t mask = (uint16_t)bits;
    COUNT_IN(uint16_t)
    return found;
  }
  if (bytes == 4) {
    uint32_t found = 0;
    const uint32_t mask = (uint32_t)bits;
    COUNT_IN(uint32_t)
    return found;
  }
  uint64_t found = 0;
  const uint64_t mask = bits;
  COUNT_IN(uint64_t)
  return found;
}
#undef COUNT_IN

size_t eti_count_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits) {
  enum { BLOCK = 255 };  // a count that fits a byte
  int32_t at[ETI_FIND];
  size_t count = 0;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t size = n - i < BLOCK ? n - i : BLOCK;
    const char *const from = p + (ptrdiff_t)i * stride;
    count += stride == (ptrdiff_t)bytes && bytes <= 8
                 ? count_dense(from, size, bytes, bits)
                 : eti_find_nonzero(from, stride, size, bytes, bits, at);
  }
  return count;
}

// ---- counting

// Starts the walk over the mask and, if given, a view of the same shape.
static eti_iter walk_of(const eti_compact *m, const eti_window *view, const char *data,
                        size_t bytes) {
  eti_iter it = {.numel = m->numel, .n_operands = view == NULL ? 1 : 2};
  it.data[0] = (char *)(uintptr_t)m->mask_data;
  if (view != NULL) it.data[1] = (char *)(uintptr_t)data + view->offset * (ptrdiff_t)bytes;
  for (size_t d = m->mask.shape.rank; d-- > 0;) {
    const ptrdiff_t strides[] = {m->mask.strides[d],
                                 view == NULL ? 0 : view->strides[d] * (ptrdiff_t)bytes};
    eti_iter_add_dim(&it, (size_t)m->mask.shape.sizes[d], strides);
  }
  return it;
}

static void count_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  size_t *const count = ctx;
  *count += eti_count_nonzero(p[0], s[0], n, 1, UINT64_MAX);
}

static size_t part_begin(const eti_compact *m, size_t part) {
  return (size_t)((uint64_t)m->numel * part / m->n_parts);
}

static void count_parts(void *ctx, size_t begin, size_t end) {
  eti_compact *const m = ctx;
  const eti_iter it = walk_of(m, NULL, NULL, 0);
  for (size_t part = begin; part < end; part++) {
    size_t count = 0;
    eti_iter_rows(&it, part_begin(m, part), part_begin(m, part + 1), count_row, &count);
    m->first[part + 1] = count;
  }
}

void eti_compact_count(const et_kernel_ctx *ctx, const et_tensor *mask, const eti_shape *shape,
                       eti_compact *m) {
  *m = (eti_compact){.pool = ctx->pool, .mask = {.shape = *shape}, .mask_data = mask->data};
  m->numel = 1;
  for (size_t d = 0; d < shape->rank; d++) m->numel *= (size_t)shape->sizes[d];
  for (size_t d = 0; d < mask->rank; d++) {
    const size_t at = d + shape->rank - mask->rank;
    m->mask.strides[at] = mask->sizes[d] == 1 ? 0 : mask->strides[d];
  }
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const size_t most = m->numel / ETI_GRAIN_MATH + 1;
  m->n_parts = threads < most ? threads : most;
  if (m->n_parts > ETI_MASK_PARTS) m->n_parts = ETI_MASK_PARTS;
  if (m->numel > 0) et_parallel_for(m->pool, count_parts, m, m->n_parts, 1);
  for (size_t part = 0; part < m->n_parts; part++) m->first[part + 1] += m->first[part];
}

// ---- moving

typedef struct move {
  const eti_compact *m;
  eti_iter it;
  size_t bytes;
  char *line;
  const eti_window *view;  // of the scattered side; NULL: a dense line is gathered
  bool is_dense;
} move;

typedef struct part_move {
  const move *of;
  size_t k, end;  // positions in the line
} part_move;

// Moves `count` elements between the line and the given positions.
static inline void move_found(char *line, char *data, ptrdiff_t stride, const int32_t *at,
                              size_t count, size_t bytes, const bool puts) {
  for (size_t i = 0; i < count; i++, line += bytes) {
    char *const element = data + at[i] * stride;
    char value[16];
    memcpy(value, puts ? line : element, bytes);
    memcpy(puts ? element : line, value, bytes);
  }
}

static void move_sized(char *line, char *data, ptrdiff_t stride, const int32_t *at, size_t count,
                       size_t bytes, bool puts) {
#define MOVE(size)                                          \
  if (puts) {                                               \
    move_found(line, data, stride, at, count, size, true);  \
  } else {                                                  \
    move_found(line, data, stride, at, count, size, false); \
  }
  switch (bytes) {
    case 1:
      MOVE(1)
      break;
    case 2:
      MOVE(2)
      break;
    case 4:
      MOVE(4)
      break;
    case 8:
      MOVE(8)
      break;
    default:
      MOVE(16)
      break;
  }
#undef MOVE
}

// Offset, in elements, of logical element k.
static ptrdiff_t offset_of(const eti_window *view, size_t k) {
  ptrdiff_t offset = view->offset;
  for (size_t d = view->shape.rank; d-- > 0;) {
    offset += (ptrdiff_t)(k % (size_t)view->shape.sizes[d]) * view->strides[d];
    k /= (size_t)view->shape.sizes[d];
  }
  return offset;
}

static void move_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  part_move *const part = ctx;
  const move *const of = part->of;
  const ptrdiff_t bytes = (ptrdiff_t)of->bytes;
  int32_t at[ETI_FIND];
  for (size_t i = 0; i < n; i += ETI_FIND) {
    const size_t size = n - i < ETI_FIND ? n - i : ETI_FIND;
    const char *const mask = (const char *)p[0] + (ptrdiff_t)i * s[0];
    char *const data = (char *)p[1] + (ptrdiff_t)i * s[1];
    size_t found = eti_find_nonzero(mask, s[0], size, 1, UINT64_MAX, at);
    if (found > part->end - part->k) found = part->end - part->k;
    if (of->is_dense) {
      move_sized(of->line + (ptrdiff_t)part->k * bytes, data, s[1], at, found, of->bytes,
                 of->view != NULL);
    } else {
      for (size_t j = 0; j < found; j++)
        move_sized(of->line + offset_of(of->view, part->k + j) * bytes, data, s[1], at + j, 1,
                   of->bytes, true);
    }
    part->k += found;
  }
}

static void move_parts(void *ctx, size_t begin, size_t end) {
  const move *const of = ctx;
  const eti_compact *const m = of->m;
  for (size_t i = begin; i < end; i++) {
    part_move part = {of, m->first[i], m->first[i + 1]};
    eti_iter_rows(&of->it, part_begin(m, i), part_begin(m, i + 1), move_row, &part);
  }
}

void eti_compact_gather(const eti_compact *m, char *line, const eti_window *view, const char *data,
                        size_t bytes) {
  move of = {m, walk_of(m, view, data, bytes), bytes, line, NULL, true};
  if (m->first[m->n_parts] > 0) et_parallel_for(m->pool, move_parts, &of, m->n_parts, 1);
}

void eti_compact_scatter(const eti_compact *m, const eti_window *line, const char *line_data,
                         const eti_window *view, char *data, size_t bytes) {
  ptrdiff_t stride = 1;
  bool is_dense = true;
  for (size_t d = line->shape.rank; d-- > 0; stride *= line->shape.sizes[d])
    is_dense &= line->shape.sizes[d] == 1 || line->strides[d] == stride;
  move of = {m, walk_of(m, view, data, bytes), bytes, (char *)(uintptr_t)line_data, line, is_dense};
  if (is_dense) of.line += line->offset * (ptrdiff_t)bytes;
  if (m->first[m->n_parts] > 0) et_parallel_for(m->pool, move_parts, &of, m->n_parts, 1);
}
