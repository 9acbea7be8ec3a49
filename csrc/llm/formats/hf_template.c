// hf_template.c — the post-processor of a tokenizer.json: special tokens before and behind a text.
#include "llm/formats/hf_json.h"

#define NAME "tokenizer.json, post_processor"

enum { MAX_IDS = 16 };

typedef struct template_ids {
  uint32_t before[MAX_IDS], behind[MAX_IDS];
  size_t n_before, n_behind;
  bool has_text;
  eti_builder *b;
} template_ids;

static et_status add_id(template_ids *t, int64_t id, bool behind) {
  size_t *const n = behind ? &t->n_behind : &t->n_before;
  ET_CHECK(*n < MAX_IDS, t->b->err, ET_NOT_SUPPORTED,
           NAME ": expected at most %d special tokens before and behind a text, got more", MAX_IDS);
  ET_CHECK(id >= 0 && id < t->b->header->n_tokens, t->b->err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected ids below %u, got %lld", t->b->header->n_tokens, (long long)id);
  (behind ? t->behind : t->before)[(*n)++] = (uint32_t)id;
  return ET_OK;
}

// The value of a key of an object; empty if it is missing.
static et_status value_of(eti_string object, eti_string wanted, eti_string *value, et_error *err) {
  eti_json json = eti_json_over(object, NAME, err);
  et_status status;
  *value = (eti_string){NULL, 0};
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key, found;
    ET_TRY(eti_json_key(&json, &key));
    ET_TRY(eti_json_skip(&json, &found));
    if (eti_string_equal(key, wanted)) *value = found;
  }
  return status;
}

static et_status named_value(eti_string object, const char *key, eti_string *value, et_error *err) {
  return value_of(object, (eti_string){(const uint8_t *)key, strlen(key)}, value, err);
}

// The ids of a special token, from the template's table.
static et_status add_special(template_ids *t, eti_string table, eti_string name, bool behind) {
  eti_string entry, ids;
  et_error *const err = t->b->err;
  char shown[ETI_SHOWN_BYTES];
  ET_TRY(value_of(table, name, &entry, err));
  ET_CHECK(entry.n > 0, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected '%s' in special_tokens, got none", eti_text_shown(name, shown));
  ET_TRY(named_value(entry, "ids", &ids, err));
  eti_json json = eti_json_over(ids, NAME, err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    int64_t id;
    ET_TRY(eti_json_integer(&json, &id));
    ET_TRY(add_id(t, id, behind));
  }
  return status;
}

// An item of `single`: {"SpecialToken": {"id": name, …}} or {"Sequence": …}.
static et_status template_item(template_ids *t, eti_json *json, eti_string table) {
  et_status status;
  ET_TRY(eti_json_begin(json, '{'));
  while (eti_json_next(json, '}', &status)) {
    eti_string key, value, raw;
    ET_TRY(eti_json_key(json, &key));
    ET_TRY(eti_json_skip(json, &value));
    if (eti_json_is(key, "Sequence")) {
      ET_CHECK(!t->has_text, t->b->err, ET_NOT_SUPPORTED, NAME ": expected one Sequence, got two");
      t->has_text = true;
    } else if (eti_json_is(key, "SpecialToken")) {
      ET_TRY(named_value(value, "id", &value, t->b->err));
      eti_json name = eti_json_over(value, NAME, t->b->err);
      ET_TRY(eti_json_string(&name, &raw));
      ET_TRY(add_special(t, table, raw, t->has_text));
    }
  }
  return status;
}

static et_status template_processing(template_ids *t, eti_string value) {
  eti_string single, table;
  ET_TRY(named_value(value, "single", &single, t->b->err));
  ET_TRY(named_value(value, "special_tokens", &table, t->b->err));
  eti_json json = eti_json_over(single, NAME, t->b->err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) ET_TRY(template_item(t, &json, table));
  return status;
}

// The id of ["[CLS]", 101].
static et_status pair_id(template_ids *t, eti_string value, bool behind) {
  eti_json json = eti_json_over(value, NAME, t->b->err);
  eti_string name;
  int64_t id = -1;
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  if (eti_json_next(&json, ']', &status)) ET_TRY(eti_json_string(&json, &name));
  ET_TRY(status);
  if (eti_json_next(&json, ']', &status)) ET_TRY(eti_json_integer(&json, &id));
  ET_TRY(status);
  return add_id(t, id, behind);
}

static et_status processor(template_ids *t, eti_string value) {
  eti_string type, cls, sep;
  et_error *const err = t->b->err;
  ET_TRY(named_value(value, "type", &type, err));
  eti_json json = eti_json_over(type, NAME, err);
  ET_TRY(eti_json_string(&json, &type));
  if (eti_json_is(type, "ByteLevel")) return ET_OK;  // of offsets only
  if (eti_json_is(type, "TemplateProcessing")) return template_processing(t, value);
  char shown[ETI_SHOWN_BYTES];
  ET_CHECK(eti_json_is(type, "BertProcessing") || eti_json_is(type, "RobertaProcessing"), err,
           ET_NOT_SUPPORTED, NAME ": expected a known type, got '%s'", eti_text_shown(type, shown));
  ET_TRY(named_value(value, "cls", &cls, err));
  ET_TRY(named_value(value, "sep", &sep, err));
  ET_TRY(pair_id(t, cls, false));
  return pair_id(t, sep, true);
}

static et_status processors(template_ids *t, eti_string value) {
  eti_string list;
  ET_TRY(named_value(value, "processors", &list, t->b->err));
  if (list.n == 0) return processor(t, value);
  eti_json json = eti_json_over(list, NAME, t->b->err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    eti_string item;
    ET_TRY(eti_json_skip(&json, &item));
    ET_TRY(processor(t, item));
  }
  return status;
}

et_status eti_hf_template(const eti_hf_parts *parts, eti_builder *b) {
  if (parts->post_processor.n == 0) return ET_OK;
  template_ids t = {.b = b};
  ET_TRY(processors(&t, parts->post_processor));
  uint32_t *before, *behind;
  ET_TRY(eti_builder_section(b, ETI_SECTION_PREFIX, t.n_before, &before));
  ET_TRY(eti_builder_section(b, ETI_SECTION_SUFFIX, t.n_behind, &behind));
  memcpy(before, t.before, t.n_before * sizeof *before);
  memcpy(behind, t.behind, t.n_behind * sizeof *behind);
  return ET_OK;
}
