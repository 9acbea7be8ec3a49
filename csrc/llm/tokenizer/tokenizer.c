// tokenizer.c — opening, and sizes.
#include "llm/et_tokenizer.h"

#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/encode.h"

et_status et_tokenizer_open(et_tokenizer *tokenizer, const void *image, size_t bytes,
                            et_error *err) {
  eti_tokenizer_image parts;
  ET_TRY(eti_image_open((eti_string){image, bytes}, &parts, err));
  tokenizer->image = image;
  return ET_OK;
}

size_t et_tokenizer_vocab_size(const et_tokenizer *tokenizer) {
  const eti_image_header *const h = tokenizer->image;
  return h->n_tokens;
}

// Bytes of all words of a text of n bytes; splitters that put a text before each piece make more.
static size_t word_bytes(const eti_image_header *h, size_t n, size_t *scratch) {
  const eti_step_record *const steps = eti_image_section(h, ETI_SECTION_SPLITTERS);
  n = eti_normalized_bytes(h, n, scratch);
  for (uint32_t i = 0; i < eti_image_count(h, ETI_SECTION_SPLITTERS); i++) {
    if (steps[i].id == ETI_STEP_PREFIX_SPACE) n = 2 * n + 1;
    if (steps[i].id == ETI_STEP_METASPACE) n = 2 * n * steps[i].text_bytes + steps[i].text_bytes;
    if (steps[i].id != ETI_STEP_SPLIT) *scratch += n + 8;
  }
  return n;
}

size_t et_tokenizer_max_ids(const et_tokenizer *tokenizer, size_t n) {
  const eti_image_header *const h = tokenizer->image;
  size_t scratch;
  return word_bytes(h, n, &scratch) + eti_image_count(h, ETI_SECTION_PREFIX) +
         eti_image_count(h, ETI_SECTION_SUFFIX);
}

// Bytes that a model needs for words of n bytes.
static size_t model_bytes(eti_model model, size_t n) {
  switch (model) {
    case ETI_UNIGRAM:
      return (n + 1) * ETI_WAY_BYTES;
    case ETI_WORDPIECE:
      return n;
    case ETI_WORDLEVEL:
      return 0;
    default:
      return eti_bpe_scratch_bytes(n) + n * (sizeof(eti_symbol) + 1);
  }
}

size_t et_tokenizer_scratch_bytes(const et_tokenizer *tokenizer, size_t n) {
  const eti_image_header *const h = tokenizer->image;
  const size_t most = ETI_CACHE_SLOTS * sizeof(eti_cached_word);
  const size_t cache = n < ETI_CACHE_SLOTS * 16 ? n * 2 : most;
  size_t scratch;
  const size_t n_word = word_bytes(h, n, &scratch) + h->affix_bytes;
  return scratch + cache + model_bytes((eti_model)h->model, n_word) + 1024;
}

const char *et_tokenizer_token(const et_tokenizer *tokenizer, uint32_t id, size_t *n) {
  const eti_tokenizer_image image = eti_image_parts(tokenizer->image);
  if (id >= image.vocab.n) return NULL;
  const eti_string text = eti_vocab_text(&image.vocab, id);
  *n = text.n;
  return (const char *)text.bytes;
}

bool et_tokenizer_is_special(const et_tokenizer *tokenizer, uint32_t id) {
  const eti_tokenizer_image image = eti_image_parts(tokenizer->image);
  return id < image.vocab.n && image.kinds[id] == ETI_TOKEN_SPECIAL;
}
