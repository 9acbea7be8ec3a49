// lookup.c — drafts from the context itself: the tokens that followed the last ones where they
// stood before. The longest agreement counts, and of equal ones the latest.
#include "llm/et_llm.h"
#include "runtime/check.h"

// Tokens before `a` and before `b` > a that agree, at most `most`.
static size_t agreement(const uint32_t *context, size_t a, size_t b, size_t most) {
  size_t n = 0;
  while (n < most && n < a && context[a - 1 - n] == context[b - 1 - n]) n++;
  return n;
}

static et_status draft(void *ctx, const uint32_t *context, size_t n_context, et_sampler *sampler,
                       const et_token_counts *counts, uint32_t *ids, size_t n, size_t *n_drafted,
                       et_error *err) {
  const et_llm_lookup *const lookup = ctx;
  (void)sampler;
  (void)counts;
  (void)err;
  size_t best = 0, best_end = n_context;
  for (size_t end = n_context; end-- > 1 && best < lookup->most;) {
    if (context[end - 1] != context[n_context - 1]) continue;
    const size_t found = agreement(context, end, n_context, lookup->most);
    if (found > best) best = found, best_end = end;
  }
  *n_drafted = 0;
  if (best < lookup->least) return ET_OK;
  while (*n_drafted < n && best_end + *n_drafted < n_context) {
    ids[*n_drafted] = context[best_end + *n_drafted];
    ++*n_drafted;
  }
  return ET_OK;
}

et_llm_drafter et_llm_lookup_drafter(const et_llm_lookup *lookup) {
  return (et_llm_drafter){(void *)(uintptr_t)lookup, draft};
}
