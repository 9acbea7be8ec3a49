// gguf_bpe.c — the model "gpt2" of GGUF files: byte-level BPE with merges.
#include "llm/formats/byte_letters.h"
#include "llm/formats/gguf.h"

#define NAME "GGUF"

static et_status write_steps(eti_gguf_vocab *v, eti_builder *b) {
  static const char UNNAMED[] = "default";
  eti_string name = {(const uint8_t *)UNNAMED, sizeof UNNAMED - 1};
  eti_gguf_splitters splitters;
  ET_TRY(eti_gguf_text(&v->file, ETI_GGUF_PRE, &name, b->err));
  ET_TRY(eti_gguf_splitters_of(name, &splitters, b->err));
  if (splitters.whole_words) b->header->flags |= ETI_WHOLE_WORDS;
  if (splitters.add_bos && !v->file.values[ETI_GGUF_ADD_BOS].found) v->add_bos = true;
  for (const char *const *pattern = splitters.patterns; *pattern != NULL; pattern++) {
    const eti_new_step step = {.id = ETI_STEP_SPLIT,
                               .flags = ETI_SPLIT_ISOLATED,
                               .pattern = {(const uint8_t *)*pattern, strlen(*pattern)}};
    ET_TRY(eti_builder_step(b, ETI_SECTION_SPLITTERS, &step));
  }
  return eti_builder_lists(b);
}

// Texts of control and user-defined tokens are no bytes: they are found as they are.
static et_status write_tokens(const eti_gguf_vocab *v, const eti_piece *pieces, eti_builder *b) {
  ET_TRY(eti_builder_tokens(b, v->tokens.n, v->counts.text_bytes));
  for (size_t i = 0; i < v->tokens.n; i++) {
    const eti_piece *const piece = &pieces[i];
    uint8_t *const text = eti_builder_token_text(b);
    size_t n = piece->text.n;
    eti_token_kind kind = ETI_TOKEN_NORMAL;
    if (n > 0) memcpy(text, piece->text.bytes, n);
    if (piece->kind == ETI_PIECE_NORMAL) n = eti_letters_to_bytes(text, n);
    if (piece->kind == ETI_PIECE_UNUSED) kind = ETI_TOKEN_UNUSED;
    if (piece->kind == ETI_PIECE_CONTROL || piece->kind == ETI_PIECE_UNKNOWN)
      kind = ETI_TOKEN_SPECIAL;
    eti_builder_end_token(b, (uint32_t)i, n, kind);
  }
  return eti_builder_index(b);
}

// ---- merges

// Reads "left right" to `to`, one behind the other.
static et_status read_merge(eti_string merge, size_t rank, uint8_t *to, size_t *n_left,
                            size_t *n_right, et_error *err) {
  const uint8_t *const space = merge.n < 2 ? NULL : memchr(merge.bytes + 1, ' ', merge.n - 1);
  const size_t valid = eti_utf8_valid_bytes(merge);
  ET_CHECK(space != NULL && valid == merge.n, err, ET_INVALID_EXTERNAL_DATA,
           NAME
           ": expected two texts of UTF-8 with a space between them in merge %zu, got %zu bytes "
           "of another text",
           rank, merge.n);
  const size_t n = (size_t)(space - merge.bytes), rest = merge.n - n - 1;
  memcpy(to, merge.bytes, n);
  *n_left = eti_letters_to_bytes(to, n);
  memcpy(to + *n_left, space + 1, rest);
  *n_right = eti_letters_to_bytes(to + *n_left, rest);
  return ET_OK;
}

static bool is_token(const eti_vocab *vocab, const uint8_t *bytes, size_t n) {
  return eti_vocab_find(vocab, (eti_string){bytes, n}) != ETI_NO_TOKEN;
}

static et_status write_pairs(const eti_gguf_vocab *v, eti_builder *b) {
  const et_arena before = b->work;
  uint8_t *text;
  ET_CHECK(v->merges.n > 0, b->err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected tokenizer.ggml.merges, got a file without them");
  ET_TRY(eti_builder_pairs(b, v->merges.n));
  ET_TRY(eti_builder_temporary(b, v->longest + 1, 1, &text));
  const eti_vocab vocab = eti_builder_vocab(b);
  eti_vocab hidden;  // tokens that are never made from a text
  ET_TRY(eti_builder_hidden(b, &hidden));
  for (size_t rank = 0, at = 0; rank < v->merges.n; rank++) {
    size_t n_left = 0, n_right = 0;
    const eti_string merge = eti_gguf_next_string(&v->merges, &at);
    ET_TRY(read_merge(merge, rank, text, &n_left, &n_right, b->err));
    const uint32_t left = eti_vocab_find(&vocab, (eti_string){text, n_left});
    const uint32_t right = eti_vocab_find(&vocab, (eti_string){text + n_left, n_right});
    const uint32_t joined = eti_vocab_find(&vocab, (eti_string){text, n_left + n_right});
    if (left != ETI_NO_TOKEN && right != ETI_NO_TOKEN && joined != ETI_NO_TOKEN) {
      eti_builder_add_pair(b, left, right, (uint32_t)rank, joined);
      continue;
    }
    const bool is_known = is_token(&hidden, text, n_left) ||
                          is_token(&hidden, text + n_left, n_right) ||
                          is_token(&hidden, text, n_left + n_right);
    ET_CHECK(is_known, b->err, ET_INVALID_EXTERNAL_DATA,
             NAME
             ": expected the parts of merge %zu and both together among the tokens, got a merge "
             "of others",
             rank);
  }
  b->work = before;
  return ET_OK;
}

et_status eti_gguf_bpe(eti_gguf_vocab *v, eti_builder *b) {
  eti_piece *pieces;
  b->header->model = ETI_BPE;
  b->header->flags = ETI_BYTE_LEVEL;
  ET_TRY(write_steps(v, b));
  ET_TRY(eti_gguf_pieces(v, b, &pieces));
  ET_TRY(write_tokens(v, pieces, b));
  ET_TRY(eti_builder_byte_ids(b));
  ET_TRY(write_pairs(v, b));
  ET_TRY(eti_builder_letters(b));
  ET_TRY(eti_builder_spans(b));
  return eti_gguf_added(v, pieces, b);
}
