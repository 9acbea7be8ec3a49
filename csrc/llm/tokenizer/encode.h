// encode.h — the state of an encoding, and its parts: added tokens are found in the text
// (encode.c), the text between them is normalized (normalizers.c) and split (splitters.c), and each
// word becomes tokens (words.c).
#ifndef ET_LLM_ENCODE_H
#define ET_LLM_ENCODE_H

#include "llm/tokenizer/search.h"
#include "runtime/arena.h"
#include "runtime/check.h"

enum { ETI_CACHED_BYTES = 16, ETI_CACHE_SLOTS = 8192 };
enum { ETI_WAY_BYTES = 16 };  // scratch of a unigram model for each byte of a word, and one more

#define ETI_CACHED_PART 0x80000000u  // of a word: with n_bytes, since a whole word may be one token

// A word that was encoded before, and the place of its ids among the ids of this text.
typedef struct eti_cached_word {
  uint64_t bytes[ETI_CACHED_BYTES / 8];
  uint32_t n_bytes, n_ids;  // 0 bytes: an empty slot
  uint64_t i_id;
} eti_cached_word;

typedef struct eti_encoder {
  eti_tokenizer_image image;
  eti_search searches[ETI_MAX_STEPS];  // of the splitters
  uint32_t *ids;
  size_t n_ids, capacity;
  eti_cached_word *cache;  // [cache_mask + 1]; NULL for short texts
  size_t cache_mask;
  bool splits;  // words are split where no token spans the border of two letters
  et_arena scratch;
  et_error *err;
} eti_encoder;

// Memory until the caller sets e->scratch back to what it was before.
et_status eti_encoder_scratch(eti_encoder *e, size_t bytes, void *memory);

static inline et_status eti_encoder_emit(eti_encoder *e, uint32_t id) {
  ET_CHECK(e->n_ids < e->capacity, e->err, ET_OUT_OF_RESOURCES,
           "tokenizer: expected room for all ids of the text, got %zu", e->capacity);
  e->ids[e->n_ids++] = id;
  return ET_OK;
}

// Applies the normalizers to a text; *out is the text itself or lies in scratch.
et_status eti_encode_normalize(eti_encoder *e, eti_string in, eti_string *out);
// Bytes that a text of n bytes has at most after the normalizers, and their scratch.
size_t eti_normalized_bytes(const eti_image_header *header, size_t n, size_t *scratch);
// Splits a piece, and encodes the words. `first`: the piece begins the text of the user.
et_status eti_encode_piece(eti_encoder *e, eti_string piece, bool first);
et_status eti_encode_word(eti_encoder *e, eti_string word);
// Whether the parts of words between borders that no token spans can be encoded one by one.
bool eti_splits_words(const eti_tokenizer_image *image);
// A part of a text without a token: the tokens of its bytes, if all are there, or the unknown one.
et_status eti_encode_unknown(eti_encoder *e, eti_string part);
// A word by the models that join nothing (models.c).
et_status eti_encode_unigram(eti_encoder *e, eti_string word);
et_status eti_encode_wordpiece(eti_encoder *e, eti_string word);
et_status eti_encode_wordlevel(eti_encoder *e, eti_string word);

#endif  // ET_LLM_ENCODE_H
