// load.c — see load.h.
//
//   memory:  planned buffers | scratch of all methods | method | method | …
#include "llm/session/load.h"

#include <string.h>

#include "runtime/arena.h"

typedef struct needs {
  size_t planned[ETI_MAX_PLANNED];
  size_t n_planned, scratch;
} needs;

// The largest planned buffers and scratch memory of n methods.
static et_status measure(const et_program *program, const char *const *names, size_t n,
                         const et_method_config *config, needs *all, et_error *err) {
  *all = (needs){.n_planned = 0};
  for (size_t k = 0; k < n; k++) {
    et_method_needs one;
    ET_TRY(et_method_measure(program, names[k], config, &one, err));
    ET_CHECK(one.n_planned <= ETI_MAX_PLANNED, err, ET_NOT_SUPPORTED,
             "method '%s': expected at most %d planned buffers, got %zu", names[k], ETI_MAX_PLANNED,
             one.n_planned);
    if (one.scratch_bytes > all->scratch) all->scratch = one.scratch_bytes;
    if (one.n_planned > all->n_planned) all->n_planned = one.n_planned;
    for (size_t i = 0; i < one.n_planned; i++) {
      size_t bytes;
      ET_TRY(et_program_planned_bytes(program, names[k], i, &bytes, err));
      if (bytes > all->planned[i]) all->planned[i] = bytes;
    }
  }
  return ET_OK;
}

typedef struct layout {
  et_span planned[ETI_MAX_PLANNED];
  et_span scratch;
} layout;

static et_span claim(et_arena *arena, size_t bytes) {
  return (et_span){eti_arena_claim(arena, bytes, 1, ET_MEMORY_ALIGN), bytes};
}

static layout claim_shared(et_arena *arena, const needs *all) {
  layout l;
  for (size_t i = 0; i < all->n_planned; i++) l.planned[i] = claim(arena, all->planned[i]);
  l.scratch = claim(arena, all->scratch);
  return l;
}

et_status eti_methods_bytes(const et_program *program, const char *const *names, size_t n,
                            const et_method_config *config, size_t *bytes, et_error *err) {
  needs all;
  ET_TRY(measure(program, names, n, config, &all, err));
  et_arena arena = eti_arena_counting();
  (void)claim_shared(&arena, &all);
  for (size_t k = 0; k < n; k++) {
    et_method_needs one;
    ET_TRY(et_method_measure(program, names[k], config, &one, err));
    (void)claim(&arena, one.method_bytes);
  }
  *bytes = arena.used + ET_MEMORY_ALIGN;
  return ET_OK;
}

static void close_all(et_method **methods, size_t n) {
  while (n-- > 0) et_method_close(methods[n]);
}

et_status eti_methods_load(const et_program *program, const char *const *names, size_t n,
                           const et_method_config *config, et_span memory, et_method **methods,
                           et_error *err) {
  needs all;
  ET_TRY(measure(program, names, n, config, &all, err));
  et_arena arena = eti_arena_over(memory);
  const layout l = claim_shared(&arena, &all);
  et_span own[2 + 1] = {{NULL, 0}};
  ET_ASSERT(n <= sizeof own / sizeof own[0]);
  for (size_t k = 0; k < n; k++) {
    et_method_needs one;
    ET_TRY(et_method_measure(program, names[k], config, &one, err));
    own[k] = claim(&arena, one.method_bytes);
  }
  ET_TRY(eti_arena_status(&arena, err));
  eti_arena_end(&arena);
  for (size_t i = 0; i < all.n_planned; i++)
    if (l.planned[i].size > 0) memset(l.planned[i].data, 0, l.planned[i].size);
  for (size_t k = 0; k < n; k++) {
    const et_method_memory given = {own[k], l.scratch, l.planned, all.n_planned};
    const et_status status = et_method_load(program, names[k], config, &given, &methods[k], err);
    if (status == ET_OK) continue;
    close_all(methods, k);
    return status;
  }
  return ET_OK;
}
