// ranks.h — tokenizers of bytes whose tokens have ranks: those of tiktoken and Tekken. A word that
// is a token stays whole; else the neighbours that make the token of the least rank are joined.
#ifndef ET_LLM_RANKS_H
#define ET_LLM_RANKS_H

#include "llm/tokenizer/build.h"

// A token's text in base64, at its rank; empty where no token has the rank.
typedef struct eti_ranked {
  const uint8_t *base64;
  size_t n;
} eti_ranked;

typedef struct eti_rank_file {
  const eti_ranked *tokens;  // [n_tokens], by rank
  size_t n_tokens;
  eti_string pattern;
  const eti_string *special;  // [n_special]
  size_t n_special;
  bool special_first;  // the ids of special tokens come before the ranks, else behind them
} eti_rank_file;

// Makes the image of a file.
et_status eti_ranks_read(const eti_rank_file *file, eti_builder *b, size_t *bytes);

// Bytes of the image and of temporary memory, for tokens with text_bytes bytes together.
void eti_ranks_sizes(size_t n_tokens, size_t text_bytes, size_t n_special, size_t special_bytes,
                     size_t *image_bytes, size_t *work_bytes);

#endif  // ET_LLM_RANKS_H
