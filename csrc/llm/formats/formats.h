// formats.h — the readers of tokenizers' files. Each measures the memory that a file needs at most,
// and makes the image.
#ifndef ET_LLM_FORMATS_H
#define ET_LLM_FORMATS_H

#include "llm/et_tokenizer.h"

typedef et_status eti_format_measure(const et_tokenizer_source *source, et_tokenizer_needs *needs,
                                     et_error *err);
typedef et_status eti_format_read(const et_tokenizer_source *source,
                                  const et_tokenizer_needs *needs, et_span image, et_span work,
                                  size_t *bytes, et_error *err);

eti_format_measure eti_hf_measure, eti_tiktoken_measure, eti_tekken_measure;
eti_format_measure eti_sentencepiece_measure, eti_gguf_measure, eti_llama2c_measure;
eti_format_read eti_hf_json_read, eti_tiktoken_read, eti_tekken_read;
eti_format_read eti_sentencepiece_read, eti_gguf_read, eti_llama2c_read;

// Whether a JSON file is a Tekken one.
bool eti_is_tekken(const void *file, size_t n);
// Whether a file begins as a model of SentencePiece.
bool eti_is_sentencepiece(const void *file, size_t n);
// Whether a file is one of llama2.c from its beginning to its end: it has no mark.
bool eti_is_llama2c(const void *file, size_t n);

#endif  // ET_LLM_FORMATS_H
