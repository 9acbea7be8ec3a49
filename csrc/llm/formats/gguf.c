// gguf.c — the vocabulary of a GGUF file, as llama.cpp uses it. The models "llama" and "t5" are
// SentencePiece's.
#include "llm/formats/gguf.h"

#include "llm/formats/formats.h"
#include "llm/pattern/pattern.h"

#define NAME "GGUF"

et_status eti_gguf_measure(const et_tokenizer_source *s, et_tokenizer_needs *needs, et_error *err) {
  eti_gguf_vocab v;
  ET_TRY(eti_gguf_scan((eti_string){s->file, s->bytes}, &v, err));
  ET_TRY(eti_piece_sizes(&v.counts, NAME, &needs->image_bytes, &needs->work_bytes, err));
  const uint64_t image = needs->image_bytes + (uint64_t)v.merges.n * 43 + 8 * 65536;
  ET_CHECK(image < UINT32_MAX, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected a vocabulary that needs less than 4 GiB, got %zu merges", v.merges.n);
  needs->image_bytes = (size_t)image;
  needs->work_bytes += eti_pattern_work_bytes() + v.longest + eti_builder_hidden_bytes(v.tokens.n) +
                       eti_letters_work_bytes(v.tokens.n) + 64;
  return ET_OK;
}

// ---- models of SentencePiece

static et_status piece_model(const eti_gguf_vocab *v, eti_builder *b) {
  const bool t5 = eti_gguf_is_model(v, "t5");
  bool space = !t5, trim = false;
  eti_piece *pieces;
  ET_TRY(eti_gguf_bool(&v->file, ETI_GGUF_ADD_SPACE, &space, b->err));
  ET_TRY(eti_gguf_bool(&v->file, ETI_GGUF_TRIM, &trim, b->err));
  ET_TRY(eti_gguf_pieces(v, b, &pieces));
  const eti_piece_model m = {
      .file = NAME,
      .pieces = pieces,
      .n = v->tokens.n,
      .model = t5 ? ETI_UNIGRAM : ETI_BPE,
      .flags = t5 ? ETI_FUSE_UNKNOWN : ETI_JOIN_UNKNOWN,
      .text_flags =
          ETI_PIECES_ESCAPE | (space ? ETI_PIECES_DUMMY : 0u) | (trim && t5 ? ETI_PIECES_TRIM : 0u),
      .byte_fallback = !t5,
      .raw_user_defined = true,
      .space = eti_piece_space(),
      .charsmap = v->charsmap.bytes,
  };
  b->header->unknown = v->unknown;
  return eti_piece_model_write(&m, b);
}

static et_status write_template(const eti_gguf_vocab *v, eti_builder *b) {
  const bool bert = eti_gguf_is_model(v, "bert");
  const uint32_t end = bert ? v->separator : v->eos;
  uint32_t *ids;
  if ((bert || v->add_bos) && v->bos != ETI_NO_TOKEN) {
    ET_TRY(eti_builder_section(b, ETI_SECTION_PREFIX, 1, &ids));
    ids[0] = v->bos;
  }
  if ((bert || v->add_eos) && end != ETI_NO_TOKEN) {
    ET_TRY(eti_builder_section(b, ETI_SECTION_SUFFIX, 1, &ids));
    ids[0] = end;
  }
  return ET_OK;
}

et_status eti_gguf_read(const et_tokenizer_source *s, const et_tokenizer_needs *needs,
                        et_span image, et_span work, size_t *bytes, et_error *err) {
  (void)needs;
  eti_gguf_vocab v;
  eti_builder b;
  ET_TRY(eti_gguf_scan((eti_string){s->file, s->bytes}, &v, err));
  ET_TRY(eti_builder_begin(&b, image, work, err));
  b.header->bos = v.bos;
  b.header->eos = v.eos;
  if (eti_gguf_is_model(&v, "gpt2"))
    ET_TRY(eti_gguf_bpe(&v, &b));
  else if (eti_gguf_is_model(&v, "bert"))
    ET_TRY(eti_gguf_bert(&v, &b));
  else
    ET_TRY(piece_model(&v, &b));
  ET_TRY(write_template(&v, &b));
  return eti_builder_end(&b, bytes);
}
