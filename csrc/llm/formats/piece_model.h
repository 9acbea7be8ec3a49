// piece_model.h — tokenizers whose tokens are pieces with scores: those of SentencePiece, of
// llama2.c, and those that GGUF took over from SentencePiece.
#ifndef ET_LLM_PIECE_MODEL_H
#define ET_LLM_PIECE_MODEL_H

#include "llm/tokenizer/build.h"

// The kinds of pieces, with the numbers that SentencePiece and GGUF have for them.
typedef enum eti_piece_kind {
  ETI_PIECE_NORMAL = 1,
  ETI_PIECE_UNKNOWN,
  ETI_PIECE_CONTROL,
  ETI_PIECE_USER_DEFINED,
  ETI_PIECE_UNUSED,
  ETI_PIECE_BYTE,  // named <0xHH>
  ETI_PIECE_KIND_END,
} eti_piece_kind;

typedef struct eti_piece {
  eti_string text;
  float score;
  uint32_t kind;
} eti_piece;

typedef struct eti_piece_model {
  const char *file;  // a name for messages
  const eti_piece *pieces;
  size_t n;
  eti_model model;
  uint32_t flags;             // eti_image_flag
  uint32_t text_flags;        // eti_pieces_flag
  bool byte_fallback;         // an unknown letter becomes the pieces of its bytes
  bool raw_user_defined;      // user-defined pieces are found in the text before it is normalized
  double user_defined_score;  // of each byte but the first (unigram)
  eti_string space;           // as tokens have it
  eti_string charsmap, unknown_text;
} eti_piece_model;

// Counts of the pieces, for the memory that they need.
typedef struct eti_piece_counts {
  size_t n, text_bytes, n_found, user_bytes, charsmap_bytes;
} eti_piece_counts;
void eti_piece_count(eti_piece_counts *counts, const eti_piece *piece);
et_status eti_piece_sizes(const eti_piece_counts *counts, const char *file, size_t *image_bytes,
                          size_t *work_bytes, et_error *err);

// U+2581, which stands for a space in SentencePiece's tokens.
static inline eti_string eti_piece_space(void) {
  return (eti_string){(const uint8_t *)"\xE2\x96\x81", 3};
}

// Writes all of an image but the ids before and behind a text.
et_status eti_piece_model_write(const eti_piece_model *m, eti_builder *b);

#endif  // ET_LLM_PIECE_MODEL_H
