// candidates.h — the tokens that a sampler may still choose, and sums over them.
//
// The vocabulary is read in blocks. The greatest logit of each block is known after one pass, so
// that later passes for tokens above a bound read few blocks. A score is logit / temperature, and a
// weight is e^(score - greatest score). Sums have one order: ETI_SAMPLER_LANES partial sums in f32
// in a block, and the blocks one after the other in f64.
#ifndef ET_LLM_CANDIDATES_H
#define ET_LLM_CANDIDATES_H

#include "llm/et_sampler.h"
#include "runtime/check.h"

enum {
  ETI_SAMPLER_BLOCK = 64,
  ETI_SAMPLER_LANES = 16,
  ETI_SAMPLER_BAND = 8192,  // candidates that are put in order
};

// Logits of one draw.
typedef struct eti_logits {
  const float *values;  // [n]
  size_t n;
  float *block_max;
  float max;
} eti_logits;

// Tokens in the order of their ids: all tokens of the vocabulary, or a list. Weights are filled up
// to whole blocks with zeros.
typedef struct eti_candidates {
  const eti_logits *logits;
  float temperature, top;  // greatest score
  bool listed;
  bool cut;  // tokens that were left out are still here, with weight 0 or in blocks with sum 0
  size_t n;
  uint32_t *ids;   // [n], when listed
  float *scores;   // [n], when listed
  float *weights;  // [n], when listed or summed
  bool summed;     // block_sums and total are known
  double *block_sums;
  double total;  // sum of the weights
} eti_candidates;

// Key of a number in ascending order, as an unsigned integer.
uint32_t eti_ascending_key(float x);

// Greatest logits of the blocks and of all. ET_INVALID_ARGUMENT for a NaN or +infinity among the
// logits, and for logits that are all -infinity.
et_status eti_logits_scan(const float *values, size_t n, float *block_max, eti_logits *logits,
                          et_error *err);
// Least id of the greatest logit.
uint32_t eti_logits_first_max(const eti_logits *logits);
// Bound with at least k logits at or above it, and few more; -infinity where k is above the number
// of blocks.
float eti_logits_bound(const et_sampler *sampler, const eti_logits *logits, size_t k);

// Begins with all tokens. ET_INVALID_ARGUMENT when the greatest score is not finite.
et_status eti_candidates_begin(const et_sampler *sampler, const eti_logits *logits,
                               float temperature, eti_candidates *candidates, et_error *err);
// Lists the tokens whose logits are at least `bound` and above -infinity.
void eti_candidates_list(eti_candidates *candidates, float bound);
// Lists the tokens whose scores are at most `below` under the greatest one, and perhaps a few more.
void eti_candidates_list_near(eti_candidates *candidates, double below);
// Lists the tokens that are left of candidates that were cut.
void eti_candidates_list_left(eti_candidates *candidates);

// Makes weights, block_sums and total.
void eti_candidates_sum(eti_candidates *candidates);
// Mean of the distance from the greatest score under the probabilities, of summed candidates.
double eti_candidates_mean(const eti_candidates *candidates);
// Index of the candidate at `share`, in [0, 1), of the total; it has a weight above 0.
size_t eti_candidates_at(const eti_candidates *candidates, double share);

// Distances of the scores of a block from the greatest one; infinity behind the last token.
void eti_candidates_distances(const eti_candidates *candidates, size_t i_block,
                              float out[ETI_SAMPLER_BLOCK]);
// Distance of the first token of a block, in the order of distances; all tokens of a listed block
// may have it.
float eti_candidates_least_distance(const eti_candidates *candidates, size_t i_block);
// Sum of the numbers of a block.
float eti_block_sum(const float values[ETI_SAMPLER_BLOCK]);

static inline size_t eti_sampler_blocks(size_t n) {
  return (n + ETI_SAMPLER_BLOCK - 1) / ETI_SAMPLER_BLOCK;
}
static inline uint32_t eti_candidates_id(const eti_candidates *candidates, size_t i) {
  return candidates->listed ? candidates->ids[i] : (uint32_t)i;
}
static inline float eti_candidates_score(const eti_candidates *candidates, size_t i) {
  return candidates->listed ? candidates->scores[i]
                            : candidates->logits->values[i] / candidates->temperature;
}

#endif  // ET_LLM_CANDIDATES_H
