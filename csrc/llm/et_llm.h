// et_llm.h — text from a language model, beside et_tokenizer.h and et_sampler.h:
//   1 decoders   2 sessions   3 drafts   4 generation
//
// A generation reads a prompt with a decoder, draws tokens and gives their text piece by piece. A
// session is the decoder of a program (.pte); a caller may bring another one. Memory is the
// caller's, sizes are told first. Nothing allocates, prints or starts a thread. Compiles as C11 and
// C++17.
#ifndef ET_LLM_H
#define ET_LLM_H

#include "llm/et_sampler.h"
#include "llm/et_tokenizer.h"
#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 · Decoders

// Reads tokens behind a context and returns logits. A failed call leaves the context as it was, or
// with fewer tokens than asked for.
typedef struct et_llm_decoder {
  void *ctx;
  size_t capacity;    // tokens that the context can have
  size_t longest;     // tokens of one read
  size_t most_rows;   // rows of logits that one read can return
  size_t vocab_size;  // logits of a row
  // Makes the context the longest beginning of ids that it has already and that the caches still
  // keep, of less than n tokens; *kept is its length.
  et_status (*keep)(void *ctx, const uint32_t *ids, size_t n, size_t *kept, et_error *err);
  // Appends 1 to `longest` tokens. *logits: f32 [rows, vocab_size] after the last `rows` of them,
  // valid until the next call; rows is 1 to most_rows, at most n.
  et_status (*read)(void *ctx, const uint32_t *ids, size_t n, size_t rows, const float **logits,
                    et_error *err);
  // Takes back all tokens but the first n. Called for tokens of the last read only.
  et_status (*rewind)(void *ctx, size_t n, et_error *err);
  // Ends a running read with ET_INTERRUPTED; from any thread. NULL: a read cannot be ended.
  void (*interrupt)(void *ctx);
} et_llm_decoder;

// ---- 2 · Sessions

typedef enum et_llm_positions {
  ET_LLM_POSITION_START,  // the second input is the position of the first token, i64 [1]
  ET_LLM_POSITION_EACH,   // it has the position of each token, i64 [n]
  ET_LLM_POSITION_NONE,   // there is none: without caches, each call reads the whole context
} et_llm_positions;

// A kind of cache that keeps fewer positions than the context: the first `sinks`, and of the others
// the newest `slots`. A token attends to `window` positions, its own included, and to the sinks.
typedef struct et_llm_ring {
  size_t window, slots, sinks;
} et_llm_ring;

enum { ET_LLM_MAX_RINGS = 8, ET_LLM_MAX_IDS = 32 };

// Facts of a decoder's program, from the inputs of its methods and its constant methods
// (get_max_context_len or get_max_seq_len, get_vocab_size, get_eos_ids, get_bos_id,
// get_cache_windows, get_cache_slots, get_cache_sinks). Names lie in the program.
typedef struct et_llm_facts {
  const char *method;       // "forward", or "prefill"
  const char *step_method;  // for single tokens: the same, or "decode"
  const char
      *verify_method;  // logits of several tokens: "verify", the first if it has them, or NULL
  et_llm_positions positions;
  et_dtype token_dtype;   // i64 or i32
  et_dtype logits_dtype;  // f32, f16 or bf16
  size_t capacity, longest, most_rows, vocab_size;
  bool knows_caches;  // the program says which positions its caches keep
  size_t n_rings, n_eos, n_bos;
  et_llm_ring rings[ET_LLM_MAX_RINGS];
  uint32_t eos[ET_LLM_MAX_IDS], bos[ET_LLM_MAX_IDS];
} et_llm_facts;

// Reads the facts; `method` NULL stands for "forward", or "prefill" and "decode". Constant methods
// run in the scratch memory, of which et_llm_facts_bytes tells how much. ET_INVALID_PROGRAM when
// the method is not that of a decoder.
ET_API et_status et_llm_facts_bytes(const et_program *program, size_t *bytes, et_error *err);
ET_API et_status et_llm_facts_read(const et_program *program, const char *method, et_span scratch,
                                   et_llm_facts *facts, et_error *err);

// A conversation with a decoder: the tokens that its caches hold. Fields private.
typedef struct et_llm_session {
  et_llm_facts facts;
  const et_program *program;
  et_method_config config;
  et_method *methods[3];  // those that the facts name, each once: [n_methods]
  size_t n_methods;
  et_span loaded;    // memory of the methods
  uint32_t *tokens;  // [n_tokens] of capacity
  size_t n_tokens;
  size_t oldest[ET_LLM_MAX_RINGS];  // position from which on a ring keeps all keys
  void *ids;                        // of one call, i64 or i32
  int64_t *positions;
  float *rows;         // logits of dtypes other than f32, as f32
  et_span logits_own;  // memory of logits that the program does not plan
} et_llm_session;

// Memory that loading the methods and the session take, in one block.
ET_API et_status et_llm_session_bytes(const et_program *program, const et_llm_facts *facts,
                                      const et_method_config *config, size_t *bytes, et_error *err);
// Loads the methods into memory and begins an empty context. The memory, the program and what the
// config points to are borrowed until et_llm_session_end. Sessions of one program share its
// weights; each serves one thread at a time.
ET_API et_status et_llm_session_begin(et_llm_session *session, const et_program *program,
                                      const et_llm_facts *facts, const et_method_config *config,
                                      et_span memory, et_error *err);
ET_API void et_llm_session_end(et_llm_session *session);
// The tokens of the context.
ET_API const uint32_t *et_llm_session_tokens(const et_llm_session *session, size_t *n);
// The session as a decoder; it borrows the session.
ET_API et_llm_decoder et_llm_session_decoder(et_llm_session *session);

// ---- 3 · Drafts

// Proposes how a text may go on. Drafts are verified in one read of the decoder, which for a few
// tokens takes about as long as for one, and only those that would have been drawn anyway are
// taken: the text is the same with and without.
typedef struct et_llm_drafter {
  void *ctx;
  // Writes up to n ids that may follow the context [n_context]; *n_drafted may be 0. `sampler` and
  // `counts` are those of the text.
  et_status (*draft)(void *ctx, const uint32_t *context, size_t n_context, et_sampler *sampler,
                     const et_token_counts *counts, uint32_t *ids, size_t n, size_t *n_drafted,
                     et_error *err);
} et_llm_drafter;

// Drafts what followed the last tokens of the context where they stood before: good for texts that
// quote their prompt.
typedef struct et_llm_lookup {
  size_t least, most;  // tokens that must agree, 1 or more, and that are compared
} et_llm_lookup;
ET_API et_llm_drafter et_llm_lookup_drafter(const et_llm_lookup *lookup);

// Drafts with a smaller model of the same vocabulary, whose tokens are drawn as the text's are.
ET_API et_llm_drafter et_llm_model_drafter(const et_llm_decoder *decoder);

// ---- 4 · Generation

enum { ET_LLM_MAX_DRAFT = 32 };

typedef struct et_llm_options {
  size_t max_new_tokens;  // SIZE_MAX: until the context is full
  const uint32_t *eos;    // [n_eos] tokens that end a text, and are no part of it
  size_t n_eos;
  const char *const *stop;  // [n_stop] strings that end a text, and are no part of it
  size_t n_stop;
  bool special;                   // the names of special tokens are text; else they add none
  const et_llm_drafter *drafter;  // NULL: none
  size_t max_draft;               // tokens of a draft, at most ET_LLM_MAX_DRAFT
  uint64_t (*clock_ns)(void);     // et_clock_ns where there is one. NULL: stats have no times, and
                                  // drafts are as long as their share of hits allows
} et_llm_options;

typedef struct et_llm_parts {
  const et_llm_decoder *decoder;
  const et_tokenizer *tokenizer;
  et_sampler *sampler;      // its vocabulary is the tokenizer's
  et_token_counts *counts;  // NULL: the sampler has no penalties
} et_llm_parts;

typedef enum et_llm_finish {
  ET_LLM_GOES_ON,
  ET_LLM_EOS,          // a token of options.eos
  ET_LLM_STOP_STRING,  // a string of options.stop
  ET_LLM_LENGTH,       // max_new_tokens, or the capacity of the context
  ET_LLM_STOPPED,      // et_llm_stop
} et_llm_finish;

// Times are those of the clock, 0 without one.
typedef struct et_llm_stats {
  size_t n_prompt, n_cached;     // tokens of the prompt, and those that were in the context already
  size_t n_generated;            // draws, that of an end-of-sequence token included
  size_t n_drafted, n_accepted;  // tokens of drafts
  size_t n_reads;                // of the decoder, behind the prompt
  uint64_t begin_ns, prompt_end_ns, first_token_ns, end_ns;
  uint64_t sampling_ns;  // sum of all draws
} et_llm_stats;

// A token and the text that it adds, which may be empty: text is whole letters, and waits while it
// may be the beginning of a stop string.
typedef struct et_llm_piece {
  const char *text;  // n bytes of UTF-8, valid until the next call; not NUL-terminated
  size_t n;
  bool has_token;  // false only at the end of a text
  uint32_t token;
  const et_sample *sample;  // the draw, with what the sampler's options ask for; NULL: no token
  et_llm_finish finish;     // ET_LLM_GOES_ON until the last piece
} et_llm_piece;

// Times of reads, by which the length of drafts is chosen. Fields private.
typedef struct et_llm_pace {
  double step;         // time of a read of one token
  double draft_token;  // time that a token of a draft adds
  double balance;      // time that drafts may cost
  size_t length;       // tokens of the next draft, if there is time
} et_llm_pace;

// A text that is generated. Fields private.
typedef struct et_llm_generation {
  et_llm_parts parts;
  et_llm_options options;
  et_llm_stats stats;
  et_text_decoder decoder;
  et_llm_finish finish;
  int stop_requested;  // atomic
  bool failed;
  et_sample sample;
  uint32_t *context;  // [n_context], prompt and text
  size_t n_context, n_prompt, n_read;
  const float *rows;  // logits behind the last token that was read, and behind its draft's tokens
  uint32_t draft[ET_LLM_MAX_DRAFT];
  size_t n_draft;  // tokens of the draft that stand in the decoder's context and are not checked
  char *held;      // text that may be the beginning of a stop string, [n_held]
  size_t n_held, n_given, held_bytes;
  et_span scratch;
  uint64_t draft_ns;                    // time of the draft and of its read
  size_t draft_tokens, draft_accepted;  // of the draft that is being checked
  et_llm_pace pace;
} et_llm_generation;

// Bytes of memory that a generation needs at any alignment.
ET_API size_t et_llm_generation_bytes(const et_llm_parts *parts, const et_llm_options *options);
// Begins a text behind a prompt of 1 to capacity tokens, which is the whole context: tokens that
// the decoder has read already and that the prompt begins with are not read again. Nothing is read
// yet. Parts and options are copied; what they point to, and the memory, are borrowed.
// ET_INVALID_ARGUMENT for a tokenizer with more words than the decoder has.
ET_API et_status et_llm_generation_begin(et_llm_generation *generation, const et_llm_parts *parts,
                                         const et_llm_options *options, const uint32_t *prompt,
                                         size_t n, et_span memory, et_error *err);
// The next token and its text; the first call reads the prompt. After the last piece, and after a
// failure, ET_END_OF_METHOD.
ET_API et_status et_llm_next(et_llm_generation *generation, et_llm_piece *piece, et_error *err);
// Ends the text at its next token, or within the block of the prompt that is being read. From any
// thread, between begin and the last piece.
ET_API void et_llm_stop(et_llm_generation *generation);
// Tokens of the text so far, behind the prompt.
ET_API const uint32_t *et_llm_tokens(const et_llm_generation *generation, size_t *n);

// Calls back for each piece with text until the end; another status than ET_OK ends the text, and
// is returned.
typedef et_status (*et_llm_on_piece)(void *ctx, const et_llm_piece *piece);
ET_API et_status et_llm_generate(et_llm_generation *generation, et_llm_on_piece on_piece, void *ctx,
                                 et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_LLM_H
