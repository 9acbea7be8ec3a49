// gguf_vocab.c — the values of a GGUF file that describe its tokens.
#include "llm/formats/gguf.h"
#include "runtime/bytes.h"

#define NAME "GGUF"

bool eti_gguf_is_model(const eti_gguf_vocab *v, const char *name) {
  return eti_string_equal(v->model, eti_string_of(name));
}

// ---- tokens

static uint32_t item_u32(const eti_gguf_value *value, size_t i) {
  return eti_u32(value->bytes.bytes + 4 * i);
}

static bool is_byte_name(eti_string text) {
  return text.n == 6 && memcmp(text.bytes, "<0x", 3) == 0 && text.bytes[5] == '>';
}

static eti_piece piece_of(const eti_gguf_vocab *v, size_t i, eti_string text) {
  eti_piece piece = {.text = text, .kind = ETI_PIECE_NORMAL};
  if (v->types.n > 0) {
    const uint32_t type = item_u32(&v->types, i);
    piece.kind = type == 0 || type >= ETI_PIECE_KIND_END ? ETI_PIECE_UNUSED : type;
  } else if (eti_gguf_is_model(v, "llama") && is_byte_name(text)) {
    piece.kind = ETI_PIECE_BYTE;
  }
  if (v->scores.n > 0) {
    const uint32_t bits = item_u32(&v->scores, i);
    memcpy(&piece.score, &bits, sizeof bits);
    if (v->scores.type == ETI_GGUF_I32) piece.score = (float)(int32_t)bits;
  }
  return piece;
}

et_status eti_gguf_pieces(const eti_gguf_vocab *v, eti_builder *b, eti_piece **pieces) {
  eti_piece *all;
  ET_TRY(eti_builder_temporary(b, v->tokens.n, sizeof *all, &all));
  for (size_t i = 0, at = 0; i < v->tokens.n; i++) {
    all[i] = piece_of(v, i, eti_gguf_next_string(&v->tokens, &at));
    const size_t valid = eti_utf8_valid_bytes(all[i].text);
    ET_CHECK(valid == all[i].text.n, b->err, ET_INVALID_EXTERNAL_DATA,
             NAME ": expected UTF-8 in token %zu, got another byte at %zu", i, valid);
  }
  *pieces = all;
  return ET_OK;
}

et_status eti_gguf_added(const eti_gguf_vocab *v, const eti_piece *pieces, eti_builder *b) {
  eti_added_token *added;
  ET_TRY(eti_builder_temporary(b, v->counts.n_found + 1, sizeof *added, &added));
  size_t n = 0;
  for (size_t i = 0; i < v->tokens.n; i++) {
    const eti_piece *const piece = &pieces[i];
    const bool special = piece->kind == ETI_PIECE_CONTROL || piece->kind == ETI_PIECE_UNKNOWN;
    if (piece->text.n == 0 || (!special && piece->kind != ETI_PIECE_USER_DEFINED)) continue;
    added[n] = (eti_added_token){.id = (uint32_t)i,
                                 .flags = special ? ETI_ADDED_SPECIAL : 0u,
                                 .text_bytes = (uint32_t)piece->text.n};
    ET_TRY(eti_builder_text(b, piece->text, &added[n++].text));
  }
  return eti_builder_added(b, added, n);
}

// ---- the file

static et_status read_arrays(eti_gguf_vocab *v, et_error *err) {
  const eti_gguf_value *const scores = &v->file.values[ETI_GGUF_SCORES];
  const bool whole = scores->is_array && scores->type == ETI_GGUF_I32;
  const eti_gguf_type types =
      v->file.values[ETI_GGUF_TYPES].type == ETI_GGUF_U32 ? ETI_GGUF_U32 : ETI_GGUF_I32;
  ET_TRY(eti_gguf_array(&v->file, ETI_GGUF_TOKENS, ETI_GGUF_STRING, &v->tokens, err));
  ET_TRY(eti_gguf_array(&v->file, ETI_GGUF_SCORES, whole ? ETI_GGUF_I32 : ETI_GGUF_F32, &v->scores,
                        err));
  ET_TRY(eti_gguf_array(&v->file, ETI_GGUF_TYPES, types, &v->types, err));
  ET_TRY(eti_gguf_array(&v->file, ETI_GGUF_MERGES, ETI_GGUF_STRING, &v->merges, err));
  const eti_gguf_value *const map = &v->file.values[ETI_GGUF_CHARSMAP];
  ET_TRY(eti_gguf_array(&v->file, ETI_GGUF_CHARSMAP,
                        map->type == ETI_GGUF_I8 ? ETI_GGUF_I8 : ETI_GGUF_U8, &v->charsmap, err));
  ET_CHECK(v->tokens.n > 0, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected tokenizer.ggml.tokens, got a file without them");
  ET_CHECK(v->scores.n == 0 || v->scores.n >= v->tokens.n, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected scores of %zu tokens, got %zu", v->tokens.n, v->scores.n);
  ET_CHECK(v->types.n == 0 || v->types.n >= v->tokens.n, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected types of %zu tokens, got %zu", v->tokens.n, v->types.n);
  return ET_OK;
}

// The id of a special token; one beyond the vocabulary is the model's usual one, if there is any.
static et_status read_id(const eti_gguf_vocab *v, eti_gguf_key key, uint32_t usual, uint32_t *id,
                         et_error *err) {
  *id = usual;
  ET_TRY(eti_gguf_id(&v->file, key, id, err));
  if (*id >= v->tokens.n) *id = usual < v->tokens.n ? usual : ETI_NO_TOKEN;
  return ET_OK;
}

static et_status read_ids(eti_gguf_vocab *v, et_error *err) {
  const bool llama = eti_gguf_is_model(v, "llama"), bert = eti_gguf_is_model(v, "bert"),
             t5 = eti_gguf_is_model(v, "t5");
  const uint32_t none = ETI_NO_TOKEN;
  ET_TRY(read_id(v, ETI_GGUF_BOS, llama ? 1 : bert ? 101 : none, &v->bos, err));
  ET_TRY(read_id(v, ETI_GGUF_EOS, llama ? 2 : t5 ? 1 : none, &v->eos, err));
  ET_TRY(read_id(v, ETI_GGUF_UNKNOWN, bert ? 100 : none, &v->unknown, err));
  ET_TRY(read_id(v, ETI_GGUF_SEPARATOR, bert ? 102 : none, &v->separator, err));
  v->add_bos = llama;
  v->add_eos = t5;
  ET_TRY(eti_gguf_bool(&v->file, ETI_GGUF_ADD_BOS, &v->add_bos, err));
  return eti_gguf_bool(&v->file, ETI_GGUF_ADD_EOS, &v->add_eos, err);
}

et_status eti_gguf_scan(eti_string file, eti_gguf_vocab *v, et_error *err) {
  char shown[ETI_SHOWN_BYTES];
  memset(v, 0, sizeof *v);
  ET_TRY(eti_gguf_open(file, &v->file, err));
  ET_TRY(eti_gguf_text(&v->file, ETI_GGUF_MODEL, &v->model, err));
  ET_CHECK(eti_gguf_is_model(v, "llama") || eti_gguf_is_model(v, "gpt2") ||
               eti_gguf_is_model(v, "bert") || eti_gguf_is_model(v, "t5"),
           err, ET_NOT_SUPPORTED,
           NAME ": expected a tokenizer.ggml.model of llama, gpt2, bert or t5, got '%s'",
           eti_text_shown(v->model, shown));
  ET_TRY(read_arrays(v, err));
  ET_TRY(read_ids(v, err));
  for (size_t i = 0, at = 0; i < v->tokens.n; i++) {
    const eti_piece piece = piece_of(v, i, eti_gguf_next_string(&v->tokens, &at));
    eti_piece_count(&v->counts, &piece);
  }
  for (size_t i = 0, at = 0; i < v->merges.n; i++) {
    const eti_string merge = eti_gguf_next_string(&v->merges, &at);
    if (merge.n > v->longest) v->longest = merge.n;
  }
  if (eti_gguf_is_model(v, "bert")) v->counts.text_bytes += 2 * v->tokens.n;
  v->counts.charsmap_bytes = v->charsmap.n;
  return ET_OK;
}
