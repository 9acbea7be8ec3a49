// build.h — makes the image of a tokenizer in memory of the caller: sections and texts are claimed
// one behind the other, lists of steps are kept until the end.
#ifndef ET_LLM_BUILD_H
#define ET_LLM_BUILD_H

#include "llm/tokenizer/image.h"
#include "runtime/arena.h"
#include "runtime/check.h"

enum { ETI_LISTS = 3 };   // normalizers, splitters and decoders
enum { ETI_AHEAD = 16 };  // items whose slots are fetched before they are used

typedef struct eti_builder {
  eti_image_header *header;
  size_t size, used;  // bytes of the image's memory
  et_arena work;      // memory that is needed while the image is made
  eti_step_record steps[ETI_LISTS][ETI_MAX_STEPS];
  uint32_t n_steps[ETI_LISTS];
  bool hides_reserved;  // tokens of bytes and the unknown one are not found by their names
  et_error *err;
} eti_builder;

// Begins an image in `out`, with temporary memory `work`.
et_status eti_builder_begin(eti_builder *b, et_span out, et_span work, et_error *err);

// Claims a section of zeros, and bytes of a text. ET_OUT_OF_MEMORY if the image's memory is full.
et_status eti_builder_section(eti_builder *b, eti_section section, size_t count, void *memory);
et_status eti_builder_text(eti_builder *b, eti_string text, uint32_t *offset);
// Claims temporary memory for n items.
et_status eti_builder_temporary(eti_builder *b, size_t n, size_t item_bytes, void *memory);

static inline uint8_t *eti_builder_base(eti_builder *b) {
  return (uint8_t *)b->header;
}

// A step of a list: ETI_SECTION_NORMALIZERS, _SPLITTERS or _DECODERS. Its texts are copied.
typedef struct eti_new_step {
  eti_step_id id;
  uint32_t flags;
  eti_string pattern;  // is compiled; none if it is empty
  bool lines;          // ^ and $ are of lines
  eti_string text, other;
} eti_new_step;
et_status eti_builder_step(eti_builder *b, eti_section list, const eti_new_step *step);

// Begins the tokens: n of them, with at most text_bytes bytes together.
et_status eti_builder_tokens(eti_builder *b, size_t n, size_t text_bytes);
// The place for the next token's bytes, and the end of a token: they come in the order of ids.
uint8_t *eti_builder_token_text(eti_builder *b);
void eti_builder_end_token(eti_builder *b, uint32_t id, size_t bytes, eti_token_kind kind);
// Makes the table of tokens; then eti_builder_vocab can find them. Special, added and unused ids
// are left out, and of equal tokens all but the first.
et_status eti_builder_index(eti_builder *b);
eti_vocab eti_builder_vocab(const eti_builder *b);
// Makes a vocabulary, in temporary memory, in which eti_vocab_find finds the special and unused
// tokens only.
et_status eti_builder_hidden(eti_builder *b, eti_vocab *hidden);
size_t eti_builder_hidden_bytes(size_t n_tokens);
// Makes ETI_SECTION_BYTE_IDS of the tokens that are single bytes.
et_status eti_builder_byte_ids(eti_builder *b);

// Makes ETI_SECTION_PIECES of the tokens that `wanted` holds for, by id.
et_status eti_builder_pieces(eti_builder *b, const bool *wanted);

// Begins the table of at most n pairs; adds one, of which the first of equal ones counts. Its slot
// may be fetched ahead.
et_status eti_builder_pairs(eti_builder *b, size_t n);
void eti_builder_fetch_pair(const eti_builder *b, uint32_t left, uint32_t right);
void eti_builder_add_pair(eti_builder *b, uint32_t left, uint32_t right, uint32_t rank,
                          uint32_t joined);
// Makes ETI_SECTION_LETTERS, of the tokens of bytes and the pairs, which come before.
et_status eti_builder_letters(eti_builder *b);
size_t eti_letters_work_bytes(size_t n_tokens);
// Makes ETI_SECTION_SPANS.
et_status eti_builder_spans(eti_builder *b);

// Makes the tables of n added tokens.
et_status eti_builder_added(eti_builder *b, const eti_added_token *added, size_t n);

// Writes the lists, to which no steps are added then.
et_status eti_builder_lists(eti_builder *b);
// A text after the normalizers of the written list, in temporary memory or the text itself.
et_status eti_builder_normalize(eti_builder *b, eti_string text, eti_string *normalized);

// Ends the image; *bytes is its size.
et_status eti_builder_end(eti_builder *b, size_t *bytes);

#endif  // ET_LLM_BUILD_H
