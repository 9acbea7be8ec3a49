#include "llm/formats/ranks.h"

#include "llm/formats/base64.h"
#include "llm/pattern/pattern.h"

static et_status write_special(const eti_rank_file *f, eti_builder *b, uint32_t first) {
  for (size_t i = 0; i < f->n_special; i++) {
    memcpy(eti_builder_token_text(b), f->special[i].bytes, f->special[i].n);
    eti_builder_end_token(b, first + (uint32_t)i, f->special[i].n, ETI_TOKEN_SPECIAL);
  }
  return ET_OK;
}

static et_status write_ranked(const eti_rank_file *f, eti_builder *b, uint32_t first) {
  for (size_t rank = 0; rank < f->n_tokens; rank++) {
    const eti_ranked token = f->tokens[rank];
    const size_t n = eti_base64((eti_string){token.base64, token.n}, eti_builder_token_text(b));
    ET_CHECK(n != SIZE_MAX, b->err, ET_INVALID_EXTERNAL_DATA,
             "tokenizer: expected base64 at rank %zu, got other text", rank);
    eti_builder_end_token(b, first + (uint32_t)rank, n,
                          token.n == 0 ? ETI_TOKEN_UNUSED : ETI_TOKEN_NORMAL);
  }
  return ET_OK;
}

static et_status check_bytes(const eti_builder *b) {
  const eti_tokenizer_image image = eti_image_parts(b->header);
  for (size_t i = 0; i < 256; i++)
    ET_CHECK(image.byte_ids[i] != ETI_NO_TOKEN, b->err, ET_INVALID_EXTERNAL_DATA,
             "tokenizer: expected a token for each byte, got none for %zu", i);
  return ET_OK;
}

static et_status write_added(const eti_rank_file *f, eti_builder *b, uint32_t first) {
  eti_added_token *added;
  ET_TRY(eti_builder_temporary(b, f->n_special + 1, sizeof *added, &added));
  for (size_t i = 0; i < f->n_special; i++) {
    added[i] = (eti_added_token){.id = first + (uint32_t)i,
                                 .flags = ETI_ADDED_SPECIAL,
                                 .text_bytes = (uint32_t)f->special[i].n};
    ET_TRY(eti_builder_text(b, f->special[i], &added[i].text));
  }
  return eti_builder_added(b, added, f->n_special);
}

et_status eti_ranks_read(const eti_rank_file *f, eti_builder *b, size_t *bytes) {
  const uint32_t first_special = f->special_first ? 0 : (uint32_t)f->n_tokens;
  const uint32_t first_ranked = f->special_first ? (uint32_t)f->n_special : 0;
  size_t text_bytes = 0;
  for (size_t i = 0; i < f->n_tokens; i++) text_bytes += f->tokens[i].n;
  for (size_t i = 0; i < f->n_special; i++) {
    ET_CHECK(f->special[i].n > 0, b->err, ET_INVALID_ARGUMENT,
             "tokenizer: expected names of special tokens, got an empty one at %zu", i);
    text_bytes += f->special[i].n;
  }
  b->header->model = ETI_BPE;
  b->header->flags = ETI_BYTE_LEVEL | ETI_WHOLE_WORDS;
  const eti_new_step split = {
      .id = ETI_STEP_SPLIT, .flags = ETI_SPLIT_ISOLATED, .pattern = f->pattern};
  ET_TRY(eti_builder_step(b, ETI_SECTION_SPLITTERS, &split));
  ET_TRY(eti_builder_lists(b));
  ET_TRY(eti_builder_tokens(b, f->n_tokens + f->n_special, text_bytes));
  if (f->special_first) ET_TRY(write_special(f, b, first_special));
  ET_TRY(write_ranked(f, b, first_ranked));
  if (!f->special_first) ET_TRY(write_special(f, b, first_special));
  ET_TRY(eti_builder_index(b));
  ET_TRY(eti_builder_byte_ids(b));
  ET_TRY(check_bytes(b));
  ET_TRY(eti_builder_letters(b));
  ET_TRY(eti_builder_spans(b));
  ET_TRY(write_added(f, b, first_special));
  return eti_builder_end(b, bytes);
}

void eti_ranks_sizes(size_t n_tokens, size_t text_bytes, size_t n_special, size_t special_bytes,
                     size_t *image_bytes, size_t *work_bytes) {
  const size_t n = n_tokens + n_special;
  *image_bytes =
      65536 + 4 * 65536 + text_bytes + 2 * special_bytes + n * (size_t)48 + n_special * (size_t)64;
  *work_bytes = eti_pattern_work_bytes() + 65536 + n_tokens * sizeof(eti_ranked) +
                eti_letters_work_bytes(n) +
                n_special * (sizeof(eti_added_token) + sizeof(eti_string));
}
