// log_probabilities.c — see log_probabilities.h.
#include "llm/sampler/log_probabilities.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/weighted_order.h"

double eti_log_probability(const eti_candidates *candidates, float score) {
  return (double)score - (double)candidates->top - eti_log_of(candidates->total);
}

static bool is_before(et_token_logprob a, et_token_logprob b) {
  return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
}

// Moves an item down to its place in a heap of n whose first item is the last in the order.
static void sift(et_token_logprob *heap, size_t i, size_t n) {
  const et_token_logprob item = heap[i];
  for (size_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
    if (child + 1 < n && is_before(heap[child], heap[child + 1])) child++;
    if (!is_before(item, heap[child])) break;
    heap[i] = heap[child];
  }
  heap[i] = item;
}

static void sort_best(et_token_logprob *best, size_t n) {
  for (size_t i = n / 2; i > 0; i--) sift(best, i - 1, n);
  for (size_t left = n; left > 1; left--) {
    const et_token_logprob last = best[0];
    best[0] = best[left - 1];
    best[left - 1] = last;
    sift(best, 0, left - 1);
  }
}

size_t eti_best_candidates(const et_sampler *sampler, eti_candidates *candidates, size_t n,
                           et_token_logprob *best) {
  eti_candidates *const c = candidates;
  if (n == 0) return 0;
  if (c->cut)
    eti_candidates_list_left(c);
  else if (!c->listed)
    eti_candidates_list(c, eti_logits_bound(sampler, c->logits, n));
  uint32_t *const order = sampler->order;
  for (size_t i = 0; i < c->n; i++) order[i] = ~eti_ascending_key(c->scores[i]);
  const eti_border border = eti_border_of(order, NULL, c->n, (double)n, sampler->bins);
  size_t n_equal = n - (size_t)border.before, n_best = 0;  // room for those at the border
  for (size_t i = 0; i < c->n; i++) {
    if (order[i] > border.key || (order[i] == border.key && n_equal == 0)) continue;
    if (order[i] == border.key) n_equal--;
    best[n_best++] = (et_token_logprob){c->ids[i], eti_log_probability(c, c->scores[i])};
  }
  sort_best(best, n_best);
  return n_best;
}
