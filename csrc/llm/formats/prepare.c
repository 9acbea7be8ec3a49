// prepare.c — the table of formats.
#include "llm/formats/formats.h"
#include "runtime/check.h"

#include <string.h>

static const struct {
  eti_format_measure *measure;
  eti_format_read *read;
} FORMATS[ET_TOKENIZER_FORMAT_COUNT] = {
    [ET_TOKENIZER_HF] = {eti_hf_measure, eti_hf_json_read},
    [ET_TOKENIZER_TIKTOKEN] = {eti_tiktoken_measure, eti_tiktoken_read},
    [ET_TOKENIZER_TEKKEN] = {eti_tekken_measure, eti_tekken_read},
    [ET_TOKENIZER_SENTENCEPIECE] = {eti_sentencepiece_measure, eti_sentencepiece_read},
    [ET_TOKENIZER_GGUF] = {eti_gguf_measure, eti_gguf_read},
    [ET_TOKENIZER_LLAMA2C] = {eti_llama2c_measure, eti_llama2c_read},
};

static et_status format_of(const et_tokenizer_source *source, et_tokenizer_format *format,
                           et_error *err) {
  const uint8_t *const first = source->file;
  *format = source->format;
  ET_CHECK(*format >= ET_TOKENIZER_ANY && *format < ET_TOKENIZER_FORMAT_COUNT, err,
           ET_INVALID_ARGUMENT, "tokenizer: expected a format below %d, got %d",
           ET_TOKENIZER_FORMAT_COUNT, (int)*format);
  ET_CHECK(source->bytes > 0, err, ET_INVALID_EXTERNAL_DATA,
           "tokenizer: expected a file with a vocabulary, got an empty one");
  ET_CHECK(*format == ET_TOKENIZER_ANY || FORMATS[*format].read != NULL, err, ET_NOT_SUPPORTED,
           "tokenizer: expected a format that has a reader, got %d", (int)*format);
  if (*format != ET_TOKENIZER_ANY) return ET_OK;
  *format = ET_TOKENIZER_TIKTOKEN;
  if (source->bytes >= 4 && memcmp(first, "GGUF", 4) == 0)
    *format = ET_TOKENIZER_GGUF;
  else if (eti_is_sentencepiece(first, source->bytes))
    *format = ET_TOKENIZER_SENTENCEPIECE;
  else if (eti_is_llama2c(first, source->bytes))
    *format = ET_TOKENIZER_LLAMA2C;
  else if (first[0] == '{' || first[0] == ' ' || first[0] == '\n' || first[0] == '\r')
    *format = eti_is_tekken(first, source->bytes) ? ET_TOKENIZER_TEKKEN : ET_TOKENIZER_HF;
  return ET_OK;
}

et_status et_tokenizer_measure(const et_tokenizer_source *source, et_tokenizer_needs *needs,
                               et_error *err) {
  et_tokenizer_format format;
  *needs = (et_tokenizer_needs){0, 0, {0}};
  ET_TRY(format_of(source, &format, err));
  return FORMATS[format].measure(source, needs, err);
}

et_status et_tokenizer_prepare(const et_tokenizer_source *source, const et_tokenizer_needs *needs,
                               et_span image, et_span work, size_t *bytes, et_error *err) {
  et_tokenizer_format format;
  ET_TRY(format_of(source, &format, err));
  return FORMATS[format].read(source, needs, image, work, bytes, err);
}
