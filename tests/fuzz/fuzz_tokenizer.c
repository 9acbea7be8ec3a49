// fuzz_tokenizer.c — feeds arbitrary bytes to tokenizers, as a file of any format and as a prepared
// image: prepare, open, encode texts, decode ids. For any bytes the outcome must be a status or a
// text of UTF-8; the sanitizers check the rest. Memory has exactly the sizes that were told, so
// that they see every overrun and every size that is too small.
#define _POSIX_C_SOURCE 200809L
#include "llm/et_tokenizer.h"

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fuzz_reach reach;
fuzz_companion companion;

#define MAX_BYTES ((size_t)64 << 20)  // of any one piece of memory

// Exactly `bytes` bytes with garbage, 64-aligned; NULL above the limit of this test.
static void *claim(size_t bytes) {
  void *block = NULL;
  if (bytes > MAX_BYTES || posix_memalign(&block, 64, bytes == 0 ? 1 : bytes) != 0) return NULL;
  memset(block, 0xa5, bytes);
  return block;
}

static const char *const TEXTS[] = {
    "",
    "The cat's 42 hats.\n\n  Été 漢字 🙂 <|end|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aa",
    " \t \r\n   x\xc2\xa0\xe2\x96\x81y  \xef\xb7\xba e\xcc\x81\xcc\xa7",
};

static void expect(bool condition, const char *what) {
  if (condition) return;
  (void)fprintf(stderr, "fuzz_tokenizer: %s\n", what);
  abort();
}

static void decode(const et_tokenizer *t, const uint32_t *ids, size_t n) {
  size_t size = 16, n_text = 0;
  for (size_t i = 0; i < n; i++) {
    size_t token = 0;
    if (et_tokenizer_token(t, ids[i], &token) != NULL) size += 3 * token + 4;
  }
  const size_t scratch_bytes = 2 * et_tokenizer_piece_bytes(t);
  char *const text = claim(size);
  void *const scratch = claim(scratch_bytes);
  if (text != NULL && scratch != NULL &&
      et_tokenizer_decode(t, ids, n, true, text, size, &n_text, (et_span){scratch, scratch_bytes},
                          NULL) == ET_OK) {
    expect(n_text <= size, "expected a text inside of its memory");
    for (size_t i = 0; i < n_text; i++) reach.sum += (unsigned char)text[i];
    reach.finished++;
  }
  free(text);
  free(scratch);
}

static void encode(const et_tokenizer *t, const char *text) {
  const size_t n = strlen(text), capacity = et_tokenizer_max_ids(t, n);
  const size_t scratch_bytes = et_tokenizer_scratch_bytes(t, n);
  if (capacity > MAX_BYTES / sizeof(uint32_t)) return;
  uint32_t *const ids = claim(capacity * sizeof *ids);
  void *const scratch = claim(scratch_bytes);
  size_t n_ids = 0;
  et_error err = {.status = ET_OK};
  for (int special = 0; special < 2 && ids != NULL && scratch != NULL; special++) {
    const et_encode_options options = {.special = special == 1, .around = true};
    const et_status status = et_tokenizer_encode(t, text, n, &options, ids, capacity, &n_ids,
                                                 (et_span){scratch, scratch_bytes}, &err);
    if (status != ET_OK) continue;
    reach.started++;
    for (size_t i = 0; i < n_ids; i++)
      expect(ids[i] < et_tokenizer_vocab_size(t), "expected ids of the vocabulary");
    decode(t, ids, n_ids);
  }
  free(ids);
  free(scratch);
}

static void use(const void *image, size_t bytes) {
  et_tokenizer t;
  et_error err = {.status = ET_OK};
  if (et_tokenizer_open(&t, image, bytes, &err) != ET_OK) return;
  reach.loaded++;
  for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) encode(&t, TEXTS[i]);
  const uint32_t size = (uint32_t)et_tokenizer_vocab_size(&t);
  const uint32_t ids[] = {0, size / 2, size - 1, size / 3, 1 % size};
  decode(&t, ids, sizeof ids / sizeof ids[0]);
}

// Prepares a file with the needs of another one: its digits are greater, so ids and counts are too.
static void prepare_changed(et_tokenizer_source source, const et_tokenizer_needs *needs,
                            et_span image, et_span work) {
  uint8_t *const changed = claim(source.bytes);
  if (changed == NULL) return;
  memcpy(changed, source.file, source.bytes);
  for (size_t i = 0; i < source.bytes; i += 3)
    if (changed[i] >= '0' && changed[i] <= '9') changed[i] = '9';
  source.file = changed;
  size_t n = 0;
  et_error err = {.status = ET_OK};
  if (et_tokenizer_prepare(&source, needs, image, work, &n, &err) == ET_OK) use(image.data, n);
  free(changed);
}

static void prepare(const uint8_t *bytes, size_t size) {
  static const char *const SPECIAL[] = {"<|end|>"};
  const et_tokenizer_source source = {
      .file = bytes, .bytes = size, .special = SPECIAL, .n_special = 1};
  et_tokenizer_needs needs;
  et_error err = {.status = ET_OK};
  if (et_tokenizer_measure(&source, &needs, &err) != ET_OK) return;
  reach.opened++;
  void *const image = claim(needs.image_bytes), *const work = claim(needs.work_bytes);
  size_t n = 0;
  if (image != NULL && work != NULL) {
    const et_status status =
        et_tokenizer_prepare(&source, &needs, (et_span){image, needs.image_bytes},
                             (et_span){work, needs.work_bytes}, &n, &err);
    expect(status != ET_OUT_OF_MEMORY, "expected enough memory where as much as told is given");
    if (status == ET_OK) use(image, n);
    prepare_changed(source, &needs, (et_span){image, needs.image_bytes},
                    (et_span){work, needs.work_bytes});
  }
  free(image);
  free(work);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  reach.inputs++;
  uint8_t *const copy = claim(size);  // exactly as large as the input
  if (copy == NULL) return 0;
  if (size > 0) memcpy(copy, bytes, size);
  prepare(copy, size);
  use(copy, size);
  free(copy);
  return 0;
}
