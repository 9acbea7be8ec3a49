// sentencepiece.c — a model of SentencePiece: a message ModelProto of Protocol Buffers.
#include "llm/formats/formats.h"
#include "llm/formats/piece_model.h"
#include "llm/formats/protobuf.h"

#define NAME "SentencePiece model"

enum { UNIGRAM = 1, BPE, WORD, CHAR };  // TrainerSpec.ModelType

typedef struct model_file {
  eti_piece_counts counts;
  uint64_t model_type;
  bool suffix, byte_fallback, denormalizes;
  bool dummy_prefix, trim, escape;
  eti_string unknown_text, charsmap, bos_piece, eos_piece;
} model_file;

static et_status read_piece(eti_string message, eti_piece *piece, et_error *err) {
  eti_protobuf r = eti_protobuf_over(message, NAME ", piece", err);
  eti_protobuf_field field;
  et_status status;
  *piece = (eti_piece){.kind = ETI_PIECE_NORMAL};
  while (eti_protobuf_next(&r, &field, &status)) {
    if (eti_protobuf_is(&field, 1, ETI_PROTOBUF_BYTES)) piece->text = field.bytes;
    if (eti_protobuf_is(&field, 2, ETI_PROTOBUF_FIXED32)) piece->score = eti_protobuf_float(&field);
    if (eti_protobuf_is(&field, 3, ETI_PROTOBUF_VARINT))
      piece->kind = field.value < ETI_PIECE_KIND_END ? (uint32_t)field.value : 0;
  }
  return status;
}

static et_status read_trainer(eti_string message, model_file *f, et_error *err) {
  eti_protobuf r = eti_protobuf_over(message, NAME ", trainer_spec", err);
  eti_protobuf_field field;
  et_status status;
  while (eti_protobuf_next(&r, &field, &status)) {
    if (eti_protobuf_is(&field, 3, ETI_PROTOBUF_VARINT)) f->model_type = field.value;
    if (eti_protobuf_is(&field, 24, ETI_PROTOBUF_VARINT)) f->suffix = field.value != 0;
    if (eti_protobuf_is(&field, 35, ETI_PROTOBUF_VARINT)) f->byte_fallback = field.value != 0;
    if (eti_protobuf_is(&field, 44, ETI_PROTOBUF_BYTES)) f->unknown_text = field.bytes;
    if (eti_protobuf_is(&field, 46, ETI_PROTOBUF_BYTES) && field.bytes.n > 0)
      f->bos_piece = field.bytes;
    if (eti_protobuf_is(&field, 47, ETI_PROTOBUF_BYTES) && field.bytes.n > 0)
      f->eos_piece = field.bytes;
  }
  return status;
}

static et_status read_normalizer(eti_string message, model_file *f, et_error *err) {
  eti_protobuf r = eti_protobuf_over(message, NAME ", normalizer_spec", err);
  eti_protobuf_field field;
  et_status status;
  while (eti_protobuf_next(&r, &field, &status)) {
    if (eti_protobuf_is(&field, 2, ETI_PROTOBUF_BYTES)) f->charsmap = field.bytes;
    if (eti_protobuf_is(&field, 3, ETI_PROTOBUF_VARINT)) f->dummy_prefix = field.value != 0;
    if (eti_protobuf_is(&field, 4, ETI_PROTOBUF_VARINT)) f->trim = field.value != 0;
    if (eti_protobuf_is(&field, 5, ETI_PROTOBUF_VARINT)) f->escape = field.value != 0;
  }
  return status;
}

static et_status read_denormalizer(eti_string message, et_error *err) {
  eti_protobuf r = eti_protobuf_over(message, NAME ", denormalizer_spec", err);
  eti_protobuf_field field;
  et_status status;
  while (eti_protobuf_next(&r, &field, &status))
    ET_CHECK(!eti_protobuf_is(&field, 2, ETI_PROTOBUF_BYTES) || field.bytes.n == 0, err,
             ET_NOT_SUPPORTED,
             NAME ": expected no character map for decoding, got one of %zu bytes", field.bytes.n);
  return status;
}

// Reads all but the pieces, which are counted.
static et_status scan(const et_tokenizer_source *s, model_file *f, et_error *err) {
  *f = (model_file){.model_type = UNIGRAM,
                    .dummy_prefix = true,
                    .trim = true,
                    .escape = true,
                    .unknown_text = eti_string_of(" \xE2\x81\x87 "),
                    .bos_piece = eti_string_of("<s>"),
                    .eos_piece = eti_string_of("</s>")};
  eti_protobuf r = eti_protobuf_over((eti_string){s->file, s->bytes}, NAME, err);
  eti_protobuf_field field;
  et_status status;
  while (eti_protobuf_next(&r, &field, &status)) {
    if (field.type != ETI_PROTOBUF_BYTES) continue;
    if (field.number == 1) {
      eti_piece piece;
      ET_TRY(read_piece(field.bytes, &piece, err));
      eti_piece_count(&f->counts, &piece);
    }
    if (field.number == 2) ET_TRY(read_trainer(field.bytes, f, err));
    if (field.number == 3) ET_TRY(read_normalizer(field.bytes, f, err));
    if (field.number == 5) ET_TRY(read_denormalizer(field.bytes, err));
  }
  ET_TRY(status);
  f->counts.charsmap_bytes = f->charsmap.n + f->unknown_text.n;
  ET_CHECK(f->counts.n > 0, err, ET_INVALID_EXTERNAL_DATA, NAME ": expected pieces, got none");
  ET_CHECK(f->model_type >= UNIGRAM && f->model_type <= CHAR, err, ET_NOT_SUPPORTED,
           NAME ": expected a model of type 1 (unigram), 2 (BPE), 3 (word) or 4 (char), got %llu",
           (unsigned long long)f->model_type);
  return ET_OK;
}

static et_status read_pieces(const et_tokenizer_source *s, const model_file *f, eti_piece *pieces,
                             eti_builder *b) {
  eti_protobuf r = eti_protobuf_over((eti_string){s->file, s->bytes}, NAME, b->err);
  eti_protobuf_field field;
  et_status status;
  size_t n = 0, n_bytes = 0;
  while (n < f->counts.n && eti_protobuf_next(&r, &field, &status)) {
    if (!eti_protobuf_is(&field, 1, ETI_PROTOBUF_BYTES)) continue;
    eti_piece *const piece = &pieces[n];
    ET_TRY(read_piece(field.bytes, piece, b->err));
    ET_CHECK(piece->text.n > 0, b->err, ET_INVALID_EXTERNAL_DATA,
             NAME ": expected some text in piece %zu, got none", n);
    const bool nul = piece->text.n == 1 && piece->text.bytes[0] == 0;
    if (nul && f->byte_fallback) piece->kind = ETI_PIECE_UNUSED;
    if (piece->kind == ETI_PIECE_BYTE) n_bytes++;
    const bool control = piece->kind == ETI_PIECE_CONTROL;
    if (control && eti_string_equal(piece->text, f->bos_piece)) b->header->bos = (uint32_t)n;
    if (control && eti_string_equal(piece->text, f->eos_piece)) b->header->eos = (uint32_t)n;
    n++;
  }
  ET_CHECK(f->byte_fallback ? n_bytes >= 256 : n_bytes == 0, b->err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected 256 pieces of bytes with byte_fallback, else none, got %zu", n_bytes);
  return ET_OK;
}

et_status eti_sentencepiece_measure(const et_tokenizer_source *s, et_tokenizer_needs *needs,
                                    et_error *err) {
  model_file f;
  ET_TRY(scan(s, &f, err));
  return eti_piece_sizes(&f.counts, NAME, &needs->image_bytes, &needs->work_bytes, err);
}

et_status eti_sentencepiece_read(const et_tokenizer_source *s, const et_tokenizer_needs *needs,
                                 et_span image, et_span work, size_t *bytes, et_error *err) {
  (void)needs;
  static const eti_model MODELS[] = {
      [UNIGRAM] = ETI_UNIGRAM, [BPE] = ETI_BPE, [WORD] = ETI_WORDLEVEL, [CHAR] = ETI_BPE};
  model_file f;
  eti_builder b;
  eti_piece *pieces;
  ET_TRY(scan(s, &f, err));
  ET_TRY(eti_builder_begin(&b, image, work, err));
  ET_TRY(eti_builder_temporary(&b, f.counts.n, sizeof *pieces, &pieces));
  ET_TRY(read_pieces(s, &f, pieces, &b));
  eti_piece_model m = {.file = NAME,
                       .pieces = pieces,
                       .n = f.counts.n,
                       .model = MODELS[f.model_type],
                       .byte_fallback = f.byte_fallback,
                       .user_defined_score = 0.1,
                       .space = eti_piece_space(),
                       .charsmap = f.charsmap,
                       .unknown_text = f.unknown_text};
  if (m.model == ETI_BPE) m.flags |= ETI_JOIN_UNKNOWN;
  if (m.model == ETI_UNIGRAM) m.flags |= ETI_F32_SUMS;
  if (f.model_type == CHAR) m.flags |= ETI_NO_JOINS;
  if (!f.byte_fallback) m.flags |= ETI_FUSE_UNKNOWN;
  m.text_flags = (f.dummy_prefix ? ETI_PIECES_DUMMY : 0u) | (f.trim ? ETI_PIECES_TRIM : 0u) |
                 (f.escape ? ETI_PIECES_ESCAPE : 0u) | (f.suffix ? ETI_PIECES_SUFFIX : 0u);
  ET_TRY(eti_piece_model_write(&m, &b));
  return eti_builder_end(&b, bytes);
}

bool eti_is_sentencepiece(const void *file, size_t n) {
  eti_protobuf r = eti_protobuf_over((eti_string){file, n}, NAME, NULL);
  eti_protobuf_field field, text;
  et_status status;
  if (!eti_protobuf_next(&r, &field, &status) || !eti_protobuf_is(&field, 1, ETI_PROTOBUF_BYTES))
    return false;
  r = eti_protobuf_over(field.bytes, NAME, NULL);
  return eti_protobuf_next(&r, &text, &status) && eti_protobuf_is(&text, 1, ETI_PROTOBUF_BYTES);
}
