#include "llm/formats/piece_model.h"

#include "llm/text/charsmap.h"

#include <float.h>

// ---- sizes

void eti_piece_count(eti_piece_counts *c, const eti_piece *piece) {
  c->n++;
  c->text_bytes += piece->text.n;
  if (piece->kind == ETI_PIECE_USER_DEFINED) c->user_bytes += piece->text.n;
  if (piece->kind != ETI_PIECE_NORMAL && piece->kind != ETI_PIECE_BYTE) c->n_found++;
}

et_status eti_piece_sizes(const eti_piece_counts *c, const char *file, size_t *image_bytes,
                          size_t *work_bytes, et_error *err) {
  const uint64_t image = 65536 + ETI_SPAN_BITS / 8 + (uint64_t)c->n * 56 +
                         (uint64_t)c->text_bytes * 2 + (uint64_t)c->n_found * 64 +
                         (uint64_t)c->user_bytes * 43 + c->charsmap_bytes;
  const uint64_t work = 4096 + (uint64_t)c->n * (sizeof(eti_piece) + 1) +
                        (uint64_t)c->n_found * sizeof(eti_added_token);
  ET_CHECK(image < UINT32_MAX && work < SIZE_MAX / 2, err, ET_INVALID_EXTERNAL_DATA,
           "%s: expected a vocabulary that needs less than 4 GiB, got %zu tokens of %zu bytes",
           file, c->n, c->text_bytes);
  *image_bytes = (size_t)image;
  *work_bytes = (size_t)work;
  return ET_OK;
}

// ---- tokens

// User-defined pieces of a unigram model are tokens like others, as no neighbours are joined.
static eti_token_kind kind_of(const eti_piece_model *m, uint32_t kind) {
  const bool joins = m->model == ETI_BPE;
  switch (kind) {
    case ETI_PIECE_UNKNOWN:
      return ETI_TOKEN_UNKNOWN;
    case ETI_PIECE_CONTROL:
      return ETI_TOKEN_SPECIAL;
    case ETI_PIECE_USER_DEFINED:
      return joins ? ETI_TOKEN_ADDED : ETI_TOKEN_NORMAL;
    case ETI_PIECE_UNUSED:
      return ETI_TOKEN_ADDED;  // is not looked for
    case ETI_PIECE_BYTE:
      return ETI_TOKEN_BYTE;
    default:
      return ETI_TOKEN_NORMAL;
  }
}

static et_status write_tokens(const eti_piece_model *m, eti_builder *b) {
  size_t text_bytes = 0;
  for (size_t i = 0; i < m->n; i++) text_bytes += m->pieces[i].text.n;
  ET_TRY(eti_builder_tokens(b, m->n, text_bytes));
  for (size_t i = 0; i < m->n; i++) {
    const eti_piece *const piece = &m->pieces[i];
    const size_t valid = eti_utf8_valid_bytes(piece->text);
    ET_CHECK(piece->kind >= 1 && piece->kind < ETI_PIECE_KIND_END, b->err, ET_INVALID_EXTERNAL_DATA,
             "%s: expected a type from 1 to 6 of token %zu, got %u", m->file, i, piece->kind);
    ET_CHECK(valid == piece->text.n, b->err, ET_INVALID_EXTERNAL_DATA,
             "%s: expected UTF-8 in token %zu, got another byte at %zu", m->file, i, valid);
    if (piece->text.n > 0) memcpy(eti_builder_token_text(b), piece->text.bytes, piece->text.n);
    eti_builder_end_token(b, (uint32_t)i, piece->text.n, kind_of(m, piece->kind));
    if (piece->kind == ETI_PIECE_UNKNOWN && b->header->unknown == ETI_NO_TOKEN)
      b->header->unknown = (uint32_t)i;
  }
  const uint32_t unknown = b->header->unknown;
  const size_t most = unknown == ETI_NO_TOKEN ? SIZE_MAX : 3 * m->pieces[unknown].text.n + 2;
  ET_CHECK(m->unknown_text.n <= most, b->err, ET_NOT_SUPPORTED,
           "%s: expected at most %zu bytes for an unknown token in a text, got %zu", m->file, most,
           m->unknown_text.n);
  b->hides_reserved = true;
  return eti_builder_index(b);
}

static et_status write_byte_ids(const eti_piece_model *m, eti_builder *b, bool *has_bytes) {
  uint32_t *ids = NULL;
  *has_bytes = false;
  for (size_t i = 0; i < m->n; i++) {
    if (m->pieces[i].kind != ETI_PIECE_BYTE) continue;
    const int byte = eti_byte_of_name(m->pieces[i].text);
    ET_CHECK(byte >= 0, b->err, ET_INVALID_EXTERNAL_DATA,
             "%s: expected a name <0xHH> of token %zu, whose type is 6, got another one", m->file,
             i);
    *has_bytes = true;
    if (ids == NULL && m->byte_fallback) {
      ET_TRY(eti_builder_section(b, ETI_SECTION_BYTE_IDS, 256, &ids));
      memset(ids, 0xFF, 256 * sizeof *ids);
    }
    if (ids != NULL && ids[byte] == ETI_NO_TOKEN) ids[byte] = (uint32_t)i;
  }
  return ET_OK;
}

// ---- scores

// Ranks in the order of falling scores; equal scores have equal ranks.
static et_status write_ranks(const eti_piece_model *m, eti_builder *b) {
  uint32_t *ranks;
  ET_TRY(eti_builder_section(b, ETI_SECTION_RANKS, m->n, &ranks));
  for (size_t i = 0; i < m->n; i++) {
    uint32_t bits;
    memcpy(&bits, &m->pieces[i].score, sizeof bits);
    ranks[i] = bits >> 31 != 0 ? bits : ~bits & (uint32_t)INT32_MAX;
  }
  return ET_OK;
}

static et_status write_scores(const eti_piece_model *m, eti_builder *b) {
  double *scores;
  float least = FLT_MAX;
  ET_TRY(eti_builder_section(b, ETI_SECTION_SCORES, m->n + 1, &scores));
  for (size_t i = 0; i < m->n; i++) {
    const eti_piece *const piece = &m->pieces[i];
    scores[i] = (double)piece->score;
    if (piece->kind == ETI_PIECE_NORMAL && piece->score < least) least = piece->score;
    if (piece->kind == ETI_PIECE_USER_DEFINED && piece->text.n > 0)
      scores[i] = (double)(float)(m->user_defined_score * (double)(piece->text.n - 1));
  }
  scores[m->n] = (double)(least - 10.0f);
  return ET_OK;
}

static et_status check_scores(const eti_piece_model *m, et_error *err) {
  for (size_t i = 0; i < m->n; i++) {
    const float score = m->pieces[i].score;
    ET_CHECK(score >= -FLT_MAX && score <= FLT_MAX, err, ET_INVALID_EXTERNAL_DATA,
             "%s: expected a finite score of token %zu, got %f", m->file, i, (double)score);
  }
  return ET_OK;
}

// ---- tokens that are found in a text

static et_status write_user_defined(const eti_piece_model *m, eti_builder *b) {
  const et_arena before = b->work;
  bool *wanted;
  if (m->raw_user_defined) return ET_OK;
  ET_TRY(eti_builder_temporary(b, m->n, sizeof *wanted, &wanted));
  for (size_t i = 0; i < m->n; i++) wanted[i] = m->pieces[i].kind == ETI_PIECE_USER_DEFINED;
  ET_TRY(eti_builder_pieces(b, wanted));
  b->work = before;
  return ET_OK;
}

static et_status write_added(const eti_piece_model *m, eti_builder *b) {
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++)
    n += m->pieces[i].kind != ETI_PIECE_NORMAL && m->pieces[i].kind != ETI_PIECE_BYTE;
  eti_added_token *added;
  ET_TRY(eti_builder_temporary(b, n + 1, sizeof *added, &added));
  n = 0;
  for (size_t i = 0; i < m->n; i++) {
    const eti_piece *const piece = &m->pieces[i];
    const bool special = piece->kind == ETI_PIECE_CONTROL || piece->kind == ETI_PIECE_UNKNOWN;
    const bool cut_out = piece->kind == ETI_PIECE_USER_DEFINED && m->raw_user_defined;
    if (piece->text.n == 0 || (!special && !cut_out)) continue;
    added[n] = (eti_added_token){.id = (uint32_t)i,
                                 .flags = special ? ETI_ADDED_SPECIAL : 0u,
                                 .text_bytes = (uint32_t)piece->text.n};
    ET_TRY(eti_builder_text(b, piece->text, &added[n++].text));
  }
  return eti_builder_added(b, added, n);
}

// ---- the whole model

static et_status write_steps(const eti_piece_model *m, eti_builder *b, bool bytes) {
  eti_new_step text = {.id = ETI_STEP_PIECES_TEXT, .flags = m->text_flags, .text = m->charsmap};
  if (m->charsmap.n > 0) {
    eti_charsmap map;
    ET_TRY(eti_charsmap_open(m->charsmap, &map, b->err));
    if (eti_charsmap_has_ascii_pairs(&map)) text.flags |= ETI_PIECES_PAIRS;
  }
  ET_TRY(eti_builder_step(b, ETI_SECTION_NORMALIZERS, &text));
  ET_TRY(eti_builder_step(b, ETI_SECTION_SPLITTERS, &(eti_new_step){.id = ETI_STEP_PIECES}));
  if (bytes)
    ET_TRY(
        eti_builder_step(b, ETI_SECTION_DECODERS, &(eti_new_step){.id = ETI_STEP_BYTE_FALLBACK}));
  const uint32_t raw = m->raw_user_defined ? ETI_PIECES_RAW : 0u;
  const eti_new_step decoder = {.id = ETI_STEP_PIECES_DECODER,
                                .flags = m->text_flags | raw,
                                .text = m->space,
                                .other = m->unknown_text};
  ET_TRY(eti_builder_step(b, ETI_SECTION_DECODERS, &decoder));
  return eti_builder_lists(b);
}

et_status eti_piece_model_write(const eti_piece_model *m, eti_builder *b) {
  b->header->model = (uint32_t)m->model;
  b->header->flags = m->flags;
  ET_TRY(check_scores(m, b->err));
  ET_TRY(write_tokens(m, b));
  bool has_bytes;
  ET_TRY(write_byte_ids(m, b, &has_bytes));
  if (m->model == ETI_UNIGRAM) ET_TRY(write_scores(m, b));
  if (m->model == ETI_BPE) ET_TRY(write_ranks(m, b));
  if (m->model != ETI_WORDLEVEL) ET_TRY(eti_builder_spans(b));
  ET_TRY(write_user_defined(m, b));
  ET_TRY(write_added(m, b));
  return write_steps(m, b, has_bytes);
}
