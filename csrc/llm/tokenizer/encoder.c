// encoder.c — memory of an encoding.
#include "llm/tokenizer/encode.h"

et_status eti_encoder_scratch(eti_encoder *e, size_t bytes, void *memory) {
  void *const begin = eti_arena_claim(&e->scratch, bytes, 1, 8);
  ET_CHECK(begin != NULL, e->err, ET_OUT_OF_MEMORY,
           "tokenizer: expected scratch for %zu bytes more, got %zu in all", bytes,
           e->scratch.size);
  memcpy(memory, &begin, sizeof begin);
  return ET_OK;
}
