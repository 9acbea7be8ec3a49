// cut.c — see cut.h. Each candidate has a key, at least 0; the smallest keys are left. Keys and
// weights of a large vocabulary are not sorted: passes that add up the weights of the keys up to a
// limit find a range with few keys in it where the sum is reached, and only these are ordered.
#include "llm/sampler/cut.h"
#include "llm/sampler/quads.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/weighted_order.h"

enum { BLOCK = ETI_SAMPLER_BLOCK, LINEAR_PASSES = 8 };

// Weights and number of the candidates up to a key.
typedef struct part {
  int32_t key;  // bits of the greatest key; -1: none
  double weight;
  size_t count;
} part;

static part part_up_to(const et_sampler *s, const eti_candidates *c, int32_t key) {
  const float limit = eti_f32_of_bits((uint32_t)key);
  const eti_quad limits = eti_quad_all(limit);
  part found = {.key = key};
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    if (s->block_keys[b] > limit) continue;
    const float *const keys = s->keys + b * BLOCK, *const weights = c->weights + b * BLOCK;
    eti_quad sums[4] = {{0}};
    eti_quad_mask counts = {0};
    for (size_t i = 0; i < BLOCK; i += 16) {
      for (size_t q = 0; q < 4; q++) {
        const size_t at = i + 4 * q;
        const eti_quad_mask in = eti_quad_load(keys + at) <= limits;
        sums[q] += eti_quad_masked(in, eti_quad_load(weights + at));
        counts -= in;
      }
    }
    found.weight += (double)eti_quad_sum(sums);
    found.count += (size_t)(counts[0] + counts[1] + counts[2] + counts[3]);
  }
  return found;
}

// A key between two, halfway between their values, later halfway between their bits.
static int32_t middle(int32_t low, int32_t high, int n_passes) {
  const int32_t half = low + (high - low) / 2;
  if (n_passes >= LINEAR_PASSES) return half;
  const float a = low < 0 ? 0.0f : eti_f32_of_bits((uint32_t)low);
  const int32_t mean = (int32_t)eti_bits_of_f32(0.5f * (a + eti_f32_of_bits((uint32_t)high)));
  return mean > low && mean < high ? mean : half;
}

// Narrows low..high until few keys are in between, or one; the target stays in between.
static void narrow(const et_sampler *s, const eti_candidates *c, double target, part *low,
                   part *high) {
  for (int n = 0; high->count - low->count > ETI_SAMPLER_BAND && high->key - low->key > 1; n++) {
    const part between = part_up_to(s, c, middle(low->key, high->key, n));
    *(between.weight < target ? low : high) = between;
  }
}

// Collects the candidates behind `low`, up to `high`: indices, and weights.
static void collect(const et_sampler *s, const eti_candidates *c, int32_t low, int32_t high) {
  const float limit = eti_f32_of_bits((uint32_t)high);
  const float begin = low < 0 ? -1.0f : eti_f32_of_bits((uint32_t)low);
  const eti_quad begins = eti_quad_all(begin), limits = eti_quad_all(limit);
  size_t n = 0;
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    if (s->block_keys[b] > limit) continue;
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i += 4) {
      const eti_quad keys = eti_quad_load(s->keys + i);
      if (!eti_quad_any((keys > begins) & (keys <= limits))) continue;
      for (size_t l = i; l < i + 4; l++) {
        s->band[n] = (uint32_t)l;  // room for one more than is counted
        s->band_weights[n] = c->weights[l];
        n += (s->keys[l] > begin) & (s->keys[l] <= limit);
      }
    }
  }
}

// Keeps the weights of the keys up to a limit, and sums them.
static void leave(const et_sampler *s, eti_candidates *c, float limit) {
  const eti_quad limits = eti_quad_all(limit);
  double total = 0.0;
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    c->block_sums[b] = 0.0;
    if (s->block_keys[b] > limit) continue;
    const float *const keys = s->keys + b * BLOCK;
    float *const weights = c->weights + b * BLOCK;
    for (size_t i = 0; i < BLOCK; i += 4)
      eti_quad_store(weights + i, eti_quad_masked(eti_quad_load(keys + i) <= limits,
                                                  eti_quad_load(weights + i)));
    c->block_sums[b] = (double)eti_block_sum(weights);
    total += c->block_sums[b];
  }
  c->total = total;
  c->cut = true;
}

// Keys of all candidates: how far their distances are from `centre`.
static void make_keys(const et_sampler *s, const eti_candidates *c, float centre, float limit) {
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    const float least = eti_candidates_least_distance(c, b) - centre;
    s->block_keys[b] = least > 0.0f ? least : 0.0f;
    if (s->block_keys[b] > limit) continue;
    float *const keys = s->keys + b * BLOCK;
    eti_candidates_distances(c, b, keys);
    for (size_t i = 0; i < BLOCK; i++) keys[i] = fabsf(keys[i] - centre);
  }
}

// The range of keys in which the weights reach the target; false if they do not, up to a limit.
static bool find_range(const et_sampler *s, const eti_candidates *c, double target, float limit,
                       part *low, part *high) {
  *low = (part){.key = -1};
  *high = part_up_to(s, c, (int32_t)eti_bits_of_f32(limit));
  if (high->weight < target) return false;
  narrow(s, c, target, low, high);
  return true;
}

// Distance from the greatest score beyond which tokens together weigh less than 1 - share of all.
static double farthest(const eti_candidates *c, double share) {
  const double distance = eti_log_of((double)c->n / ((1.0 - share) * c->total));
  return distance > 0.0 ? distance : 0.0;
}

// How many tokens of one weight reach a sum, at least 1 and at most n.
static size_t count_to(double sum, float weight, size_t n) {
  const double wanted = sum / (double)weight;
  if (!(wanted < (double)n)) return n;  // also for a weight of 0
  return wanted > 1.0 ? (size_t)ceil(wanted) : 1;
}

// Leaves out the candidates with a key, but for the first n.
static void keep_first(const et_sampler *s, const eti_candidates *c, float key, size_t n) {
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    if (s->block_keys[b] > key) continue;
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
      if (s->keys[i] != key) continue;
      if (n > 0)
        n--;
      else
        s->keys[i] = INFINITY;
    }
  }
}

// Leaves out the candidates of the band behind its border, and those at the border, but for the
// first n.
static void drop_behind(const et_sampler *s, size_t n_band, uint32_t border, size_t n) {
  for (size_t i = 0; i < n_band; i++) {
    if (s->order[i] < border) continue;
    if (s->order[i] == border && n > 0)
      n--;
    else
      s->keys[s->band[i]] = INFINITY;
  }
}

void eti_cut_by_probability(const et_sampler *sampler, eti_candidates *candidates, double share) {
  const et_sampler *const s = sampler;
  eti_candidates *const c = candidates;
  const double target = share * c->total, distance = farthest(c, share);
  const float limit = (float)(distance * (1.0 + 1e-6));
  part low, high;
  make_keys(s, c, 0.0f, limit);
  if (!find_range(s, c, target, limit, &low, &high)) {
    leave(s, c, limit);
    return;
  }
  const float last = eti_f32_of_bits((uint32_t)high.key);
  const size_t n_band = high.count - low.count;
  const double rest = target - low.weight;
  if (n_band > ETI_SAMPLER_BAND) {  // one key
    keep_first(s, c, last, count_to(rest, eti_weight(last), n_band));
  } else {
    collect(s, c, low.key, high.key);
    for (size_t i = 0; i < n_band; i++)
      s->order[i] = ~eti_ascending_key(eti_candidates_score(c, s->band[i]));
    const eti_border border = eti_border_of(s->order, s->band_weights, n_band, rest, s->bins);
    size_t n_equal = 0, i_equal = 0;
    for (size_t i = 0; i < n_band; i++) {
      if (s->order[i] != border.key) continue;
      n_equal++;
      i_equal = i;
    }
    const float weight = s->band_weights[i_equal];
    drop_behind(s, n_band, border.key, count_to(rest - border.before, weight, n_equal));
  }
  leave(s, c, last);
}

void eti_cut_by_closeness(const et_sampler *sampler, eti_candidates *candidates, double share) {
  const et_sampler *const s = sampler;
  eti_candidates *const c = candidates;
  const double mean = eti_candidates_mean(c), target = share * c->total;
  // The tokens up to that distance reach the target, so that no key beyond theirs is needed.
  const double distance = farthest(c, share);
  const double greatest = distance > 2.0 * mean ? distance - mean : mean;
  const float limit = (float)(greatest * (1.0 + 1e-6) + 1e-6);
  part low, high;
  make_keys(s, c, (float)mean, limit);
  if (!find_range(s, c, target, limit, &low, &high)) {
    leave(s, c, limit);
    return;
  }
  const size_t n_band = high.count - low.count;
  if (n_band <= ETI_SAMPLER_BAND) {
    collect(s, c, low.key, high.key);
    for (size_t i = 0; i < n_band; i++) s->order[i] = eti_bits_of_f32(s->keys[s->band[i]]);
    const double rest = target - low.weight;
    const eti_border border = eti_border_of(s->order, s->band_weights, n_band, rest, s->bins);
    drop_behind(s, n_band, border.key, n_band);
  }
  leave(s, c, eti_f32_of_bits((uint32_t)high.key));
}
