// gguf.h — the tokenizer of a GGUF file, and the parts that its models share.
#ifndef ET_LLM_GGUF_H
#define ET_LLM_GGUF_H

#include "llm/formats/gguf_file.h"
#include "llm/formats/piece_model.h"

// The values of a file, verified.
typedef struct eti_gguf_vocab {
  eti_gguf_file file;
  eti_string model;
  eti_gguf_value tokens, scores, types, merges, charsmap;
  eti_piece_counts counts;
  size_t longest;                         // bytes of a merge
  uint32_t bos, eos, unknown, separator;  // ETI_NO_TOKEN if there is none
  bool add_bos, add_eos;
} eti_gguf_vocab;

// Reads the values, and counts the tokens.
et_status eti_gguf_scan(eti_string file, eti_gguf_vocab *v, et_error *err);
// Whether tokenizer.ggml.model is this name.
bool eti_gguf_is_model(const eti_gguf_vocab *v, const char *name);
// Reads all tokens to an array in temporary memory.
et_status eti_gguf_pieces(const eti_gguf_vocab *v, eti_builder *b, eti_piece **pieces);
// Makes the tables of control and user-defined tokens, which are found in a text.
et_status eti_gguf_added(const eti_gguf_vocab *v, const eti_piece *pieces, eti_builder *b);

// The models "gpt2" (gguf_bpe.c) and "bert" (gguf_bert.c).
et_status eti_gguf_bpe(eti_gguf_vocab *v, eti_builder *b);
et_status eti_gguf_bert(const eti_gguf_vocab *v, eti_builder *b);

// The splitters of a value of tokenizer.ggml.pre, and whether words that are tokens stay whole and
// the beginning of a text is marked, if the file does not say so (gguf_patterns.c).
typedef struct eti_gguf_splitters {
  const char *const *patterns;  // NULL behind the last one
  bool whole_words, add_bos;
} eti_gguf_splitters;
et_status eti_gguf_splitters_of(eti_string name, eti_gguf_splitters *splitters, et_error *err);

#endif  // ET_LLM_GGUF_H
