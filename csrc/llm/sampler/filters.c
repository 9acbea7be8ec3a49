// filters.c — see filters.h. Filters with few candidates left make a list of them; the others leave
// all tokens where they are (cut.h).
#include "llm/sampler/filters.h"
#include "llm/sampler/cut.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/weighted_order.h"

static void move(eti_candidates *c, size_t from, size_t to) {
  c->ids[to] = c->ids[from];
  c->scores[to] = c->scores[from];
  c->weights[to] = c->weights[from];
}

static void end(eti_candidates *c, size_t n) {
  c->n = n;
  c->summed = false;
  for (size_t i = n; i < eti_sampler_blocks(n) * ETI_SAMPLER_BLOCK; i++) c->weights[i] = 0.0f;
}

static void filter_top_k(const et_sampler *s, eti_candidates *c) {
  const size_t k = (size_t)s->options.top_k;
  eti_candidates_list(c, eti_logits_bound(s, c->logits, k));
  if (k >= c->n) return;
  for (size_t i = 0; i < c->n; i++) s->order[i] = ~eti_ascending_key(c->scores[i]);
  const uint32_t border = eti_border_of(s->order, NULL, c->n, (double)k, s->bins).key;
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++)
    if (s->order[i] <= border) move(c, i, n++);
  end(c, n);
}

static void filter_min_p(const et_sampler *s, eti_candidates *c) {
  const float least = (float)s->options.min_p;  // the greatest weight is 1
  if (c->cut)
    eti_candidates_list_left(c);
  else if (!c->listed)
    eti_candidates_list_near(c, -eti_log_of((double)least));
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++)
    if (c->weights[i] >= least) move(c, i, n++);
  end(c, n);
}

void eti_filter_candidates(const et_sampler *sampler, eti_candidates *candidates) {
  const et_sampler_options *const o = &sampler->options;
  eti_candidates *const c = candidates;
  if (o->top_k > 0 && (uint64_t)o->top_k < c->n) filter_top_k(sampler, c);
  if (o->top_p < 1.0) {
    eti_candidates_sum(c);
    eti_cut_by_probability(sampler, c, o->top_p);
  }
  if ((float)o->min_p > 0.0f) filter_min_p(sampler, c);
  if (o->typical_p < 1.0) {
    if (c->cut) eti_candidates_list_left(c);
    eti_candidates_sum(c);
    eti_cut_by_closeness(sampler, c, o->typical_p);
  }
  if (!c->summed) eti_candidates_sum(c);
}
