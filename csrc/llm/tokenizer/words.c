// words.c — a word to tokens.
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/encode.h"

enum { FEW = 32 };  // bytes of words whose symbols are kept on the stack

// The end of the symbols from `first` on that must be joined together: behind them is a border that
// no token spans, or the end of the word.
static size_t joint_end(const eti_tokenizer_image *image, eti_string word,
                        const eti_symbol *symbols, size_t n, size_t first) {
  size_t i = first + 1;
  for (; i < n && image->spans != NULL; i++) {
    const size_t border = symbols[i - 1].end;
    size_t left = border - 1;
    if ((image->header->flags & ETI_BYTE_LEVEL) == 0) {
      if (border < word.n && (word.bytes[border] & 0xC0) == 0x80) continue;  // inside of a letter
      while (left > 0 && (word.bytes[left] & 0xC0) == 0x80) left--;
    }
    const uint32_t bit =
        eti_span_bit(eti_unit_at(image, word, left).value, eti_unit_at(image, word, border).value);
    if ((image->spans[bit / 32] >> (bit % 32) & 1) == 0) return i;
  }
  return image->spans == NULL ? n : i;
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

static et_status bpe_word(eti_encoder *e, eti_string word) {
  const eti_tokenizer_image *const image = &e->image;
  if ((image->header->flags & ETI_WHOLE_WORDS) != 0) {
    const uint32_t id = eti_vocab_find(&image->vocab, word);
    if (id != ETI_NO_TOKEN) return eti_encoder_emit(e, id);
  }
  const et_arena before = e->scratch;
  eti_symbol few[FEW], *symbols = few;
  void *scratch = NULL;
  if (word.n > FEW) {
    ET_TRY(eti_encoder_scratch(e, word.n * sizeof *symbols, &symbols));
    ET_TRY(eti_encoder_scratch(e, eti_bpe_scratch_bytes(word.n), &scratch));
  }
  const size_t n = eti_bpe_symbols(image, word, symbols);
  if (image->header->affix_bytes > 0 && n > 0) ET_TRY(with_suffix(e, &word, symbols, n));
  const bool unknown_later = (image->header->flags & ETI_JOIN_UNKNOWN) != 0;
  const bool joins = (image->header->flags & ETI_NO_JOINS) == 0;
  uint32_t begin = 0;
  for (size_t first = 0, end; first < n; first = end) {
    end = n > FEW ? joint_end(image, word, symbols, n, first) : n;
    const uint32_t next = symbols[end - 1].end;
    size_t left = end - first;
    if (joins)
      left = eti_bpe_join(&image->vocab, word.bytes, begin, symbols + first, left, scratch);
    for (size_t i = first; i < first + left; i++) {
      if (symbols[i].id != ETI_NO_TOKEN)
        ET_TRY(eti_encoder_emit(e, symbols[i].id));
      else if (unknown_later)
        ET_TRY(eti_encode_unknown(e, (eti_string){word.bytes + begin, symbols[i].end - begin}));
      begin = symbols[i].end;
    }
    begin = next;
  }
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

static et_status model_word(eti_encoder *e, eti_string word) {
  switch ((eti_model)e->image.header->model) {
    case ETI_UNIGRAM:
      return eti_encode_unigram(e, word);
    case ETI_WORDPIECE:
      return eti_encode_wordpiece(e, word);
    case ETI_WORDLEVEL:
      return eti_encode_wordlevel(e, word);
    default:
      return bpe_word(e, word);
  }
}

et_status eti_encode_word(eti_encoder *e, eti_string word) {
  if (e->cache == NULL || word.n > ETI_CACHED_BYTES) return model_word(e, word);
  eti_cached_word key = {.n_bytes = (uint32_t)word.n, .i_id = e->n_ids};
  memcpy(key.bytes, word.bytes, word.n);
  const uint64_t hash = eti_mix(key.bytes[0] ^ eti_mix(key.bytes[1] + word.n));
  eti_cached_word *const slot = &e->cache[hash & e->cache_mask];
  if (slot->n_bytes == key.n_bytes && slot->bytes[0] == key.bytes[0] &&
      slot->bytes[1] == key.bytes[1])
    return emit_again(e, slot);
  ET_TRY(model_word(e, word));
  key.n_ids = (uint32_t)(e->n_ids - key.i_id);
  *slot = key;
  return ET_OK;
}
