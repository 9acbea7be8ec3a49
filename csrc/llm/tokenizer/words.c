// words.c — a word to tokens.
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/encode.h"

enum { FEW = 32 };  // bytes of words whose symbols are kept on the stack

// The end of the letters from `first` on that must be encoded together: the end of the word, or a
// border that no token spans.
static size_t joint_end(const uint32_t *spans, eti_string word, size_t first) {
  eti_letter left = eti_letter_at(word, first);
  size_t at = first + left.bytes;
  for (; at < word.n; at += left.bytes) {
    const eti_letter right = eti_letter_at(word, at);
    const bool spanned = eti_bit_of(spans, eti_span_bit(left.value, right.value)) ||
                         eti_bit_of(spans, eti_part_bit(word.bytes[at - 1], word.bytes[at]));
    if (!spanned) break;
    left = right;
  }
  return at;
}

// Puts the suffix of a last letter behind a word, and into its last symbol.
static et_status with_suffix(eti_encoder *e, eti_string *word, eti_symbol *symbols, size_t n) {
  const eti_image_header *const h = e->image.header;
  const eti_string suffix = {(const uint8_t *)h + h->affix, h->affix_bytes};
  const uint32_t begin = n == 1 ? 0 : symbols[n - 2].end;
  uint8_t *text;
  ET_TRY(eti_encoder_scratch(e, word->n + suffix.n, &text));
  memcpy(text, word->bytes, word->n);
  memcpy(text + word->n, suffix.bytes, suffix.n);
  *word = (eti_string){text, word->n + suffix.n};
  uint32_t id = eti_vocab_find(&e->image.vocab, (eti_string){text + begin, word->n - begin});
  if (id == ETI_NO_TOKEN) id = h->unknown;
  symbols[n - 1] = (eti_symbol){id, (uint32_t)word->n};
  return ET_OK;
}

static et_status emit_symbols(eti_encoder *e, eti_string word, const eti_symbol *symbols,
                              size_t n) {
  const bool unknown_later = (e->image.header->flags & ETI_JOIN_UNKNOWN) != 0;
  uint32_t begin = 0;
  for (size_t i = 0; i < n; i++) {
    if (symbols[i].id != ETI_NO_TOKEN)
      ET_TRY(eti_encoder_emit(e, symbols[i].id));
    else if (unknown_later)
      ET_TRY(eti_encode_unknown(e, (eti_string){word.bytes + begin, symbols[i].end - begin}));
    begin = symbols[i].end;
  }
  return ET_OK;
}

static et_status bpe_word(eti_encoder *e, eti_string word) {
  const eti_tokenizer_image *const image = &e->image;
  const et_arena before = e->scratch;
  eti_symbol few[FEW], *symbols = few;
  void *scratch = NULL;
  if (word.n > FEW) {
    ET_TRY(eti_encoder_scratch(e, word.n * sizeof *symbols, &symbols));
    ET_TRY(eti_encoder_scratch(e, eti_bpe_scratch_bytes(word.n), &scratch));
  }
  size_t n = eti_bpe_symbols(image, word, symbols);
  if (image->header->affix_bytes > 0 && n > 0) ET_TRY(with_suffix(e, &word, symbols, n));
  if ((image->header->flags & ETI_NO_JOINS) == 0)
    n = eti_bpe_join(&image->vocab, word.bytes, 0, symbols, n, scratch);
  ET_TRY(emit_symbols(e, word, symbols, n));
  e->scratch = before;
  return ET_OK;
}

static et_status emit_again(eti_encoder *e, const eti_cached_word *word) {
  ET_CHECK(e->capacity - e->n_ids >= word->n_ids, e->err, ET_OUT_OF_RESOURCES,
           "tokenizer: expected room for all ids of the text, got %zu", e->capacity);
  for (size_t i = 0; i < word->n_ids; i++) e->ids[e->n_ids + i] = e->ids[word->i_id + i];
  e->n_ids += word->n_ids;
  return ET_OK;
}

// The token of a word that is not joined from its parts; ETI_NO_TOKEN if there is none.
static uint32_t whole_word(const eti_encoder *e, eti_string word) {
  const bool wanted = (e->image.header->flags & ETI_WHOLE_WORDS) != 0;
  return wanted ? eti_vocab_find(&e->image.vocab, word) : ETI_NO_TOKEN;
}

static et_status model_word(eti_encoder *e, eti_string word, bool is_part) {
  const eti_model model = (eti_model)e->image.header->model;
  if (model == ETI_UNIGRAM) return eti_encode_unigram(e, word);
  if (model == ETI_WORDPIECE) return eti_encode_wordpiece(e, word);
  if (model == ETI_WORDLEVEL) return eti_encode_wordlevel(e, word);
  const uint32_t id = is_part ? ETI_NO_TOKEN : whole_word(e, word);
  return id == ETI_NO_TOKEN ? bpe_word(e, word) : eti_encoder_emit(e, id);
}

// Encodes a word, or a part of one, that may be in the cache.
static et_status cached_word(eti_encoder *e, eti_string word, bool is_part) {
  if (e->cache == NULL || word.n > ETI_CACHED_BYTES) return model_word(e, word, is_part);
  const uint32_t part_bit = is_part ? ETI_CACHED_PART : 0;
  eti_cached_word key = {.n_bytes = (uint32_t)word.n | part_bit, .i_id = e->n_ids};
  memcpy(key.bytes, word.bytes, word.n);
  const uint64_t hash = eti_mix(key.bytes[0] ^ eti_mix(key.bytes[1] + key.n_bytes));
  eti_cached_word *const slot = &e->cache[hash & e->cache_mask];
  if (slot->n_bytes == key.n_bytes && slot->bytes[0] == key.bytes[0] &&
      slot->bytes[1] == key.bytes[1])
    return emit_again(e, slot);
  ET_TRY(model_word(e, word, is_part));
  key.n_ids = (uint32_t)(e->n_ids - key.i_id);
  *slot = key;
  return ET_OK;
}

bool eti_splits_words(const eti_tokenizer_image *image) {
  const eti_image_header *const h = image->header;
  if (h->model != ETI_BPE || image->spans == NULL || h->affix_bytes > 0) return false;
  if ((h->flags & ETI_NO_JOINS) != 0) return false;
  if ((h->flags & (ETI_FUSE_UNKNOWN | ETI_JOIN_UNKNOWN)) != ETI_FUSE_UNKNOWN) return true;
  // Unknown letters on both sides of a border would be one token: with all bytes there are none.
  bool all = image->byte_ids != NULL;
  for (size_t i = 0; all && i < 256; i++) all = image->byte_ids[i] != ETI_NO_TOKEN;
  return all;
}

et_status eti_encode_word(eti_encoder *e, eti_string word) {
  if (word.n <= ETI_CACHED_BYTES || !e->splits) return cached_word(e, word, false);
  const uint32_t id = whole_word(e, word);
  if (id != ETI_NO_TOKEN) return eti_encoder_emit(e, id);
  for (size_t at = 0, end; at < word.n; at = end) {
    end = joint_end(e->image.spans, word, at);
    ET_TRY(cached_word(e, (eti_string){word.bytes + at, end - at}, true));
  }
  return ET_OK;
}
