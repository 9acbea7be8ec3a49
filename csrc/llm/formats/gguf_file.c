#include "llm/formats/gguf_file.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

#include <string.h>

static const char PREFIX[] = "tokenizer.ggml.";
static const char *const KEYS[] = {
#define KEY(name, key) key,
    ETI_GGUF_KEY_LIST(KEY)
#undef KEY
};
static const uint8_t TYPE_BYTES[ETI_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// ---- reading

typedef struct gguf_reader {
  eti_string file;
  size_t at;
  et_error *err;
} gguf_reader;

static et_status take(gguf_reader *r, uint64_t n, const uint8_t **bytes) {
  ET_CHECK(n <= r->file.n - r->at, r->err, ET_INVALID_EXTERNAL_DATA,
           "GGUF: expected %llu bytes at byte %zu of %zu, got the end of the file",
           (unsigned long long)n, r->at, r->file.n);
  *bytes = r->file.bytes + r->at;
  r->at += (size_t)n;
  return ET_OK;
}

static et_status read_u32(gguf_reader *r, uint32_t *value) {
  const uint8_t *p;
  ET_TRY(take(r, 4, &p));
  *value = eti_u32(p);
  return ET_OK;
}

static et_status read_u64(gguf_reader *r, uint64_t *value) {
  const uint8_t *p;
  ET_TRY(take(r, 8, &p));
  *value = eti_u64(p);
  return ET_OK;
}

static et_status read_string(gguf_reader *r, eti_string *text) {
  uint64_t n;
  ET_TRY(read_u64(r, &n));
  ET_TRY(take(r, n, &text->bytes));
  text->n = (size_t)n;
  return ET_OK;
}

static et_status read_type(gguf_reader *r, eti_gguf_type *type) {
  uint32_t value;
  ET_TRY(read_u32(r, &value));
  ET_CHECK(value < ETI_GGUF_TYPE_COUNT, r->err, ET_INVALID_EXTERNAL_DATA,
           "GGUF: expected a type below %d at byte %zu, got %u", ETI_GGUF_TYPE_COUNT, r->at - 4,
           value);
  *type = (eti_gguf_type)value;
  return ET_OK;
}

static et_status read_value(gguf_reader *r, eti_gguf_value *value) {
  const uint8_t *p;
  eti_string text;
  uint64_t n = 1;
  *value = (eti_gguf_value){.found = true};
  ET_TRY(read_type(r, &value->type));
  if (value->type == ETI_GGUF_ARRAY) {
    value->is_array = true;
    ET_TRY(read_type(r, &value->type));
    ET_TRY(read_u64(r, &n));
    ET_CHECK(value->type != ETI_GGUF_ARRAY, r->err, ET_NOT_SUPPORTED,
             "GGUF: expected arrays of values, got one of arrays at byte %zu", r->at);
  }
  // Each item has a byte or more, so that the loop below ends soon and products are small.
  ET_CHECK(n <= r->file.n - r->at, r->err, ET_INVALID_EXTERNAL_DATA,
           "GGUF: expected an array of %llu items at byte %zu of %zu, got the end of the file",
           (unsigned long long)n, r->at, r->file.n);
  const size_t begin = r->at;
  value->n = (size_t)n;
  if (value->type == ETI_GGUF_STRING)
    for (size_t i = 0; i < value->n; i++) ET_TRY(read_string(r, &text));
  else
    ET_TRY(take(r, n * TYPE_BYTES[value->type], &p));
  value->bytes = (eti_string){r->file.bytes + begin, r->at - begin};
  return ET_OK;
}

static eti_gguf_value *place_of(eti_gguf_file *file, eti_string key) {
  const size_t n = sizeof PREFIX - 1;
  if (key.n < n || memcmp(key.bytes, PREFIX, n) != 0) return NULL;
  for (size_t i = 0; i < ETI_GGUF_KEY_COUNT; i++)
    if (strlen(KEYS[i]) == key.n - n && memcmp(key.bytes + n, KEYS[i], key.n - n) == 0)
      return &file->values[i];
  return NULL;
}

et_status eti_gguf_open(eti_string bytes, eti_gguf_file *file, et_error *err) {
  gguf_reader r = {bytes, 0, err};
  const uint8_t *magic;
  uint32_t version;
  uint64_t n_tensors, n_values;
  memset(file, 0, sizeof *file);
  ET_TRY(take(&r, 4, &magic));
  ET_TRY(read_u32(&r, &version));
  ET_CHECK(memcmp(magic, "GGUF", 4) == 0 && (version == 2 || version == 3), err,
           ET_INVALID_EXTERNAL_DATA,
           "GGUF: expected \"GGUF\" and version 2 or 3, little-endian, got version %u", version);
  ET_TRY(read_u64(&r, &n_tensors));
  ET_TRY(read_u64(&r, &n_values));
  for (uint64_t i = 0; i < n_values; i++) {
    eti_string key;
    eti_gguf_value value;
    ET_TRY(read_string(&r, &key));
    ET_TRY(read_value(&r, &value));
    eti_gguf_value *const place = place_of(file, key);
    if (place != NULL && !place->found) *place = value;
  }
  return ET_OK;
}

// ---- values

et_status eti_gguf_array(const eti_gguf_file *file, eti_gguf_key key, eti_gguf_type type,
                         eti_gguf_value *value, et_error *err) {
  const eti_gguf_value *const found = &file->values[key];
  if (!found->found) return ET_OK;
  ET_CHECK(found->is_array && found->type == type, err, ET_INVALID_EXTERNAL_DATA,
           "GGUF, %s%s: expected an array of type %d, got %s of type %d", PREFIX, KEYS[key],
           (int)type, found->is_array ? "one" : "a value", (int)found->type);
  *value = *found;
  return ET_OK;
}

static et_status scalar(const eti_gguf_file *file, eti_gguf_key key, bool fits, int wanted,
                        et_error *err) {
  const eti_gguf_value *const found = &file->values[key];
  ET_CHECK(!found->is_array && fits, err, ET_INVALID_EXTERNAL_DATA,
           "GGUF, %s%s: expected a value of type %d, got %s of type %d", PREFIX, KEYS[key], wanted,
           found->is_array ? "an array" : "one", (int)found->type);
  return ET_OK;
}

et_status eti_gguf_text(const eti_gguf_file *file, eti_gguf_key key, eti_string *text,
                        et_error *err) {
  const eti_gguf_value *const found = &file->values[key];
  size_t at = 0;
  if (!found->found) return ET_OK;
  ET_TRY(scalar(file, key, found->type == ETI_GGUF_STRING, ETI_GGUF_STRING, err));
  *text = eti_gguf_next_string(found, &at);
  return ET_OK;
}

et_status eti_gguf_bool(const eti_gguf_file *file, eti_gguf_key key, bool *value, et_error *err) {
  const eti_gguf_value *const found = &file->values[key];
  if (!found->found) return ET_OK;
  ET_TRY(scalar(file, key, found->type == ETI_GGUF_BOOL, ETI_GGUF_BOOL, err));
  *value = found->bytes.bytes[0] != 0;
  return ET_OK;
}

et_status eti_gguf_id(const eti_gguf_file *file, eti_gguf_key key, uint32_t *id, et_error *err) {
  const eti_gguf_value *const found = &file->values[key];
  if (!found->found) return ET_OK;
  const bool fits = found->type == ETI_GGUF_U32 || found->type == ETI_GGUF_I32;
  ET_TRY(scalar(file, key, fits, ETI_GGUF_U32, err));
  *id = eti_u32(found->bytes.bytes);
  return ET_OK;
}

eti_string eti_gguf_next_string(const eti_gguf_value *value, size_t *at) {
  const uint8_t *const p = value->bytes.bytes + *at;
  const eti_string text = {p + 8, (size_t)eti_u64(p)};
  *at += 8 + text.n;
  return text;
}
