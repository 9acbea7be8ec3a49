// et_sampler.h — the choice of the next token from a model's logits, beside et.h:
//   1 counts of tokens   2 options   3 draws
//
// The order of the steps is that of transformers' logits processors:
//   bias · repetition penalty · frequency and presence penalties · hook   (change logits)
//   temperature · top-k · top-p · min-p · typical                         (choose candidates)
//   draw in proportion to the probabilities of the candidates
// Penalties come before the temperature, so that their strength does not depend on it. Each filter
// normalises the probabilities over the candidates that the filters before it left, so another
// order would leave other candidates.
//
// A draw is a function of the options, the logits, the counts and the position. It has the same
// bits on every machine: exponentials and logarithms are computed here, sums have one order, and
// the generator counts positions instead of keeping a state. Nothing here allocates, starts a
// thread or keeps global state. Compiles as C11 and C++17.
#ifndef ET_SAMPLER_H
#define ET_SAMPLER_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 · Counts of tokens, for penalties

// Counts of the tokens of a text: how often each id stands in the prompt and in the generated part,
// and a list of the ids that occur. An added token costs O(1); penalties cost O(ids that occur),
// however long the text is. Fields private.
typedef struct et_token_counts {
  uint32_t *prompt, *generated;  // [vocab_size]
  uint32_t *seen;                // [n_seen] ids with a count above 0
  size_t vocab_size, n_seen;
} et_token_counts;

// Part of a text: penalties of frequency and presence count generated tokens only.
typedef enum et_token_part {
  ET_TOKEN_PROMPT,
  ET_TOKEN_GENERATED,
} et_token_part;

// Bytes of memory that et_token_counts_init needs at any alignment; 0 for a size of vocabulary that
// is refused: 0, or above 2^31.
ET_API size_t et_token_counts_bytes(size_t vocab_size);
// Begins an empty text. Borrows memory. ET_OUT_OF_MEMORY when it is too small.
ET_API et_status et_token_counts_init(et_token_counts *counts, size_t vocab_size, et_span memory,
                                      et_error *err);
// Adds n tokens. ET_INVALID_ARGUMENT for an id outside of the vocabulary; then none is added.
ET_API et_status et_token_counts_add(et_token_counts *counts, et_token_part part,
                                     const uint32_t *ids, size_t n, et_error *err);
// Takes back n tokens of a part: O(1) for each of the tokens that were added last, given in the
// order in which they were added. ET_INVALID_ARGUMENT for a token that the part does not have; then
// none is taken back.
ET_API et_status et_token_counts_remove(et_token_counts *counts, et_token_part part,
                                        const uint32_t *ids, size_t n, et_error *err);
// Takes back all tokens, in O(ids that occur).
ET_API void et_token_counts_clear(et_token_counts *counts);

// ---- 2 · Options

typedef enum et_sampler_kind {
  ET_SAMPLER_STANDARD,
  // The draws of ExecuTorch's sampler: its temperature, top_k and top_p, its generator and its sums
  // in f32. It uses top_p only when top_k is off. Bias, penalties and hook are applied before it.
  // The draw of position p takes the p-th number after the seed; at temperature 0 no number is
  // used. Positions are below 2^26. Equal probabilities lie in the order of libstdc++'s sort.
  ET_SAMPLER_UPSTREAM,
} et_sampler_kind;

// Distribution whose log-probabilities are returned.
typedef enum et_logprobs {
  ET_LOGPROBS_NONE,
  ET_LOGPROBS_MODEL,  // softmax of the logits as passed in, as OpenAI and vLLM return
  // Distribution that was drawn from, after all steps; at temperature 0, softmax of the logits
  // after bias, penalties and hook.
  ET_LOGPROBS_DRAWN,
} et_logprobs;

typedef struct et_token_bias {
  uint32_t id;
  float bias;  // added to the logit; -infinity excludes the token
} et_token_bias;

// A caller's change of the logits, such as a grammar's: writes to a copy of the n logits after bias
// and penalties. Exclude tokens with -infinity. A status other than ET_OK ends the draw with it.
typedef struct et_logits_hook {
  void *ctx;
  et_status (*change)(void *ctx, float *logits, size_t n, et_error *err);
} et_logits_hook;

// Start from et_sampler_defaults, which has every step off and temperature 1.
typedef struct et_sampler_options {
  et_sampler_kind kind;
  uint64_t seed;
  // Changes of logits
  const et_token_bias *bias;  // [n_bias]
  size_t n_bias;
  double repetition_penalty;  // above 0; 1: off. A seen token's logit is divided by it, or
                              // multiplied when it is below 0. Prompt and generated tokens.
  double frequency_penalty;   // 0: off. Subtracted once for each time that a token was generated.
  double presence_penalty;    // 0: off. Subtracted for each token that was generated.
  et_logits_hook hook;        // change is NULL: none
  // Choice of candidates
  double temperature;  // 0: the first greatest logit, without filters; else at least 1e-30
  int64_t top_k;       // 0: off. The k greatest logits, and those that equal the least of them.
  double top_p;        // in (0, 1], 1: off. The fewest most probable tokens whose probabilities sum
                       // to top_p; of equal ones the least ids
  double min_p;        // in [0, 1], 0: off. Probability at least min_p times the greatest one
  double typical_p;    // in (0, 1], 1: off. The tokens whose -log p is closest to its mean, as few
                       // as sum to typical_p, and those that are as close as the last of them
  // Results beside the token
  et_logprobs logprobs;
  size_t n_best;  // most probable tokens, with their log-probabilities
} et_sampler_options;

ET_API et_sampler_options et_sampler_defaults(void);
// ET_INVALID_ARGUMENT for values outside of these ranges, NaN, and ids of biases that are not below
// vocab_size.
ET_API et_status et_sampler_check(const et_sampler_options *options, size_t vocab_size,
                                  et_error *err);

// ---- 3 · Draws

// A sampler in the caller's memory. It serves one thread at a time. Fields private.
typedef struct et_sampler {
  et_sampler_options options;
  size_t vocab_size;
  float *changed;   // [vocab_size] logits after bias, penalties and hook
  void *pairs;      // [vocab_size] of 8 bytes: ids and scores of candidates
  float *weights;   // probabilities of candidates, times one factor
  float *keys;      // places of candidates in an order
  uint32_t *order;  // keys as unsigned integers
  uint32_t *band;   // candidates among which the border of a filter is
  float *band_weights;
  float *block_max;         // greatest logit of each block of the vocabulary
  float *block_keys;        // least key of each block
  double *block_sums;       // sum of weights of each block
  double *bins;             // sums of weights by ranges of keys
  uint64_t state, n_drawn;  // ET_SAMPLER_UPSTREAM
} et_sampler;

// Bytes of scratch memory that a sampler needs at any alignment; 0 for a size of vocabulary that is
// refused: 0, or above 2^31.
ET_API size_t et_sampler_scratch_bytes(size_t vocab_size);

// Begins a sampler. Copies the options; borrows their biases and the scratch memory, which holds
// nothing from draw to draw. Statuses of et_sampler_check, and ET_OUT_OF_MEMORY when the scratch
// memory is too small.
ET_API et_status et_sampler_init(et_sampler *sampler, const et_sampler_options *options,
                                 size_t vocab_size, et_span scratch, et_error *err);

typedef struct et_token_logprob {
  uint32_t id;
  double logprob;
} et_token_logprob;

typedef struct et_sample {
  uint32_t id;
  double logprob;          // of the token; 0 with ET_LOGPROBS_NONE
  et_token_logprob *best;  // the caller's room for options.n_best, most probable first; of equal
                           // ones the least id
  size_t n_best;           // number filled: fewer where fewer tokens have a probability
} et_sample;

// Draws the token of a position from f32 logits [vocab_size], which are only read. Equal positions
// draw equal random numbers, so a session that goes back repeats itself. `counts` may be NULL
// without penalties. ET_INVALID_ARGUMENT for a NaN or +infinity among the logits, and for logits
// that are all -infinity: after bias, penalties and hook, and with ET_LOGPROBS_MODEL also as passed
// in. Then *sample is unchanged.
ET_API et_status et_sampler_draw(et_sampler *sampler, const float *logits,
                                 const et_token_counts *counts, uint64_t position,
                                 et_sample *sample, et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_SAMPLER_H
