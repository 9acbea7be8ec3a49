// llama2c.c — tokenizer.bin of llama2.c: i32 bytes of the longest token; then for each token its
// score, f32, and its text with the bytes of it before, i32. They are the pieces of a SentencePiece
// model, with spaces in them: 0 is unknown, 1 and 2 are the beginning and the end of a text, 3 to
// 258 are bytes.
#include "llm/formats/formats.h"
#include "llm/formats/piece_model.h"
#include "runtime/bytes.h"

#define NAME "tokenizer.bin"

enum { UNKNOWN, BOS, EOS, FIRST_BYTE, FIRST_TEXT = FIRST_BYTE + 256 };

typedef struct bin_reader {
  eti_string file;
  size_t at, n;  // n tokens were read
  et_error *err;
} bin_reader;

static bin_reader bin_over(const void *file, size_t n, et_error *err) {
  return (bin_reader){{file, n}, 4, 0, err};
}

static uint32_t kind_of(size_t id) {
  if (id == UNKNOWN) return ETI_PIECE_UNKNOWN;
  if (id == BOS || id == EOS) return ETI_PIECE_CONTROL;
  return id < FIRST_TEXT ? ETI_PIECE_BYTE : ETI_PIECE_NORMAL;
}

// The next token; false at the end, and after an error, which is then in *status.
static bool next_token(bin_reader *r, eti_piece *piece, et_status *status) {
  *status = ET_OK;
  if (r->at == r->file.n) return false;
  const uint8_t *const p = r->file.bytes + r->at;
  const size_t rest = r->file.n - r->at;
  const size_t n = rest >= 8 ? eti_u32(p + 4) : 0;
  if (rest < 8 || n > rest - 8) {
    *status = ET_FAIL(r->err, ET_INVALID_EXTERNAL_DATA,
                      NAME
                      ": expected a score and a text of token %zu at byte %zu of %zu, got %zu "
                      "bytes of text",
                      r->n, r->at, r->file.n, n);
    return false;
  }
  *piece = (eti_piece){.text = {p + 8, n}, .kind = kind_of(r->n)};
  memcpy(&piece->score, p, 4);
  r->at += 8 + n;
  r->n++;
  return true;
}

static et_status count(const et_tokenizer_source *s, eti_piece_counts *counts, et_error *err) {
  eti_piece piece;
  et_status status;
  *counts = (eti_piece_counts){.n = 0};
  ET_CHECK(s->bytes > 4, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected the size of the longest token and tokens, got %zu bytes", s->bytes);
  bin_reader r = bin_over(s->file, s->bytes, err);
  while (next_token(&r, &piece, &status)) eti_piece_count(counts, &piece);
  ET_TRY(status);
  ET_CHECK(counts->n > FIRST_TEXT, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected more than %d tokens, got %zu", FIRST_TEXT, counts->n);
  counts->charsmap_bytes = 64;
  return ET_OK;
}

et_status eti_llama2c_measure(const et_tokenizer_source *s, et_tokenizer_needs *needs,
                              et_error *err) {
  eti_piece_counts counts;
  ET_TRY(count(s, &counts, err));
  return eti_piece_sizes(&counts, NAME, &needs->image_bytes, &needs->work_bytes, err);
}

et_status eti_llama2c_read(const et_tokenizer_source *s, const et_tokenizer_needs *needs,
                           et_span image, et_span work, size_t *bytes, et_error *err) {
  (void)needs;
  eti_piece_counts counts;
  eti_builder b;
  eti_piece *pieces;
  uint32_t *prefix;
  et_status status;
  ET_TRY(count(s, &counts, err));
  ET_TRY(eti_builder_begin(&b, image, work, err));
  ET_TRY(eti_builder_temporary(&b, counts.n, sizeof *pieces, &pieces));
  bin_reader r = bin_over(s->file, s->bytes, err);
  while (r.n < counts.n && next_token(&r, &pieces[r.n], &status)) continue;
  const eti_piece_model m = {.file = NAME,
                             .pieces = pieces,
                             .n = counts.n,
                             .model = ETI_BPE,
                             .byte_fallback = true,
                             .text_flags = ETI_PIECES_DUMMY,
                             .space = {(const uint8_t *)" ", 1},
                             .unknown_text = pieces[UNKNOWN].text};
  b.header->bos = BOS;
  b.header->eos = EOS;
  ET_TRY(eti_piece_model_write(&m, &b));
  ET_TRY(eti_builder_section(&b, ETI_SECTION_PREFIX, 1, &prefix));
  prefix[0] = BOS;
  return eti_builder_end(&b, bytes);
}

bool eti_is_llama2c(const void *file, size_t n) {
  if (n <= 4) return false;
  bin_reader r = bin_over(file, n, NULL);
  eti_piece piece;
  et_status status;
  const size_t longest = eti_u32(r.file.bytes);
  while (next_token(&r, &piece, &status))
    if (piece.text.n > longest) return false;
  return status == ET_OK && r.n > FIRST_TEXT;
}
