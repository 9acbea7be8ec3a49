// hf_scan.c — the parts of a tokenizer.json, and its entries.
#include "llm/formats/hf_json.h"

#define NAME "tokenizer.json"

// ---- entries

et_status eti_hf_vocab_entry(eti_json *json, bool listed, size_t i, eti_string *raw, int64_t *id,
                             double *score) {
  *id = (int64_t)i;
  if (!listed) {
    ET_TRY(eti_json_key(json, raw));
    return eti_json_integer(json, id);
  }
  et_status status;
  ET_TRY(eti_json_begin(json, '['));
  if (eti_json_next(json, ']', &status)) ET_TRY(eti_json_string(json, raw));
  ET_TRY(status);
  if (eti_json_next(json, ']', &status)) ET_TRY(eti_json_number(json, score));
  ET_TRY(status);
  ET_CHECK(!eti_json_next(json, ']', &status) && status == ET_OK, json->err,
           ET_INVALID_EXTERNAL_DATA, NAME ": expected [token, score] at token %zu, got more", i);
  return ET_OK;
}

et_status eti_hf_added_entry(eti_json *json, eti_hf_added *entry) {
  et_status status;
  *entry = (eti_hf_added){.id = -1};
  ET_TRY(eti_json_begin(json, '{'));
  while (eti_json_next(json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(json, &key));
    if (eti_json_is(key, "id"))
      ET_TRY(eti_json_integer(json, &entry->id));
    else if (eti_json_is(key, "content"))
      ET_TRY(eti_json_string(json, &entry->content));
    else if (eti_json_is(key, "special"))
      ET_TRY(eti_json_bool(json, &entry->special));
    else if (eti_json_is(key, "normalized"))
      ET_TRY(eti_json_bool(json, &entry->normalized));
    else if (eti_json_is(key, "single_word"))
      ET_TRY(eti_json_bool(json, &entry->single_word));
    else if (eti_json_is(key, "lstrip"))
      ET_TRY(eti_json_bool(json, &entry->lstrip));
    else if (eti_json_is(key, "rstrip"))
      ET_TRY(eti_json_bool(json, &entry->rstrip));
    else
      ET_TRY(eti_json_skip(json, NULL));
  }
  return status;
}

// ---- counting

static void count_id(eti_hf_list *list, int64_t id) {
  const size_t end = id < 0 || id >= INT32_MAX ? SIZE_MAX : (size_t)id + 1;
  if (end > list->end_id) list->end_id = end;
}

static void count_text(eti_hf_list *list, eti_string raw) {
  list->text_bytes += raw.n;
  if (raw.n > list->longest) list->longest = raw.n;
}

static et_status count_vocab(eti_json *json, eti_hf_list *list) {
  const bool listed = eti_json_peek(json) == '[';
  et_status status;
  ET_TRY(eti_json_begin(json, listed ? '[' : '{'));
  while (eti_json_next(json, listed ? ']' : '}', &status)) {
    eti_string raw = {NULL, 0};
    int64_t id = 0;
    double score = 0;
    ET_TRY(eti_hf_vocab_entry(json, listed, list->n++, &raw, &id, &score));
    count_text(list, raw);
    count_id(list, id);
  }
  return status;
}

static et_status count_added(eti_json *json, eti_hf_list *list) {
  et_status status;
  ET_TRY(eti_json_begin(json, '['));
  while (eti_json_next(json, ']', &status)) {
    eti_hf_added entry;
    ET_TRY(eti_hf_added_entry(json, &entry));
    list->n++;
    count_text(list, entry.content);
    count_id(list, entry.id);
  }
  return status;
}

static et_status count_merges(eti_json *json, eti_hf_list *list) {
  et_status status;
  ET_TRY(eti_json_begin(json, '['));
  while (eti_json_next(json, ']', &status)) {
    ET_TRY(eti_json_skip(json, NULL));
    list->n++;
  }
  return status;
}

// Counts a list, and keeps its place.
static et_status count_list(eti_json *json, const eti_hf_list *known,
                            et_status (*count)(eti_json *, eti_hf_list *), eti_hf_list *list) {
  if (eti_json_null(json)) return ET_OK;
  (void)eti_json_peek(json);
  if (known->end > known->begin && known->begin == json->at && known->end <= json->text.n) {
    *list = *known;
    json->at = known->end;
    return ET_OK;
  }
  *list = (eti_hf_list){.begin = json->at};
  ET_TRY(count(json, list));
  list->end = json->at;
  return ET_OK;
}

// ---- parts

static et_status keep_string(eti_json *json, eti_string *value) {
  return eti_json_null(json) ? ET_OK : eti_json_string(json, value);
}

static et_status keep_bool(eti_json *json, bool *value) {
  return eti_json_null(json) ? ET_OK : eti_json_bool(json, value);
}

static et_status scan_model(eti_json *json, const eti_hf_known *known, eti_hf_parts *p) {
  et_status status;
  ET_TRY(eti_json_begin(json, '{'));
  while (eti_json_next(json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(json, &key));
    if (eti_json_is(key, "type")) {
      ET_TRY(keep_string(json, &p->type));
    } else if (eti_json_is(key, "unk_token")) {
      ET_TRY(keep_string(json, &p->unk_token));
    } else if (eti_json_is(key, "continuing_subword_prefix")) {
      ET_TRY(keep_string(json, &p->prefix));
    } else if (eti_json_is(key, "end_of_word_suffix")) {
      ET_TRY(keep_string(json, &p->suffix));
    } else if (eti_json_is(key, "byte_fallback")) {
      ET_TRY(keep_bool(json, &p->byte_fallback));
    } else if (eti_json_is(key, "fuse_unk")) {
      ET_TRY(keep_bool(json, &p->fuse_unk));
    } else if (eti_json_is(key, "ignore_merges")) {
      ET_TRY(keep_bool(json, &p->ignore_merges));
    } else if (eti_json_is(key, "unk_id") && !eti_json_null(json)) {
      ET_TRY(eti_json_integer(json, &p->unk_id));
    } else if (eti_json_is(key, "max_input_chars_per_word") && !eti_json_null(json)) {
      ET_TRY(eti_json_integer(json, &p->max_letters));
    } else if (eti_json_is(key, "vocab")) {
      ET_TRY(count_list(json, &known->vocab, count_vocab, &p->vocab));
    } else if (eti_json_is(key, "merges")) {
      ET_TRY(count_list(json, &known->merges, count_merges, &p->merges));
    } else {
      ET_TRY(eti_json_skip(json, NULL));
    }
  }
  return status;
}

static et_status scan_value(eti_json *json, eti_string key, const eti_hf_known *known,
                            eti_hf_parts *p) {
  if (eti_json_is(key, "added_tokens"))
    return count_list(json, &(eti_hf_list){0}, count_added, &p->added);
  if (eti_json_is(key, "model")) return scan_model(json, known, p);
  if (eti_json_null(json)) return ET_OK;
  if (eti_json_is(key, "normalizer")) return eti_json_skip(json, &p->normalizer);
  if (eti_json_is(key, "pre_tokenizer")) return eti_json_skip(json, &p->pre_tokenizer);
  if (eti_json_is(key, "post_processor")) return eti_json_skip(json, &p->post_processor);
  return eti_json_skip(json, eti_json_is(key, "decoder") ? &p->decoder : NULL);
}

static size_t greater(size_t a, size_t b) {
  return a > b ? a : b;
}

et_status eti_hf_scan(eti_string text, const eti_hf_known *known, eti_hf_parts *p, et_error *err) {
  *p = (eti_hf_parts){.file = text, .unk_id = -1, .max_letters = 100};
  eti_json json = eti_json_over(text, NAME, err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(&json, &key));
    ET_TRY(scan_value(&json, key, known, p));
  }
  ET_TRY(status);
  ET_CHECK(p->vocab.n > 0, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected a model with a vocabulary, got none");
  // Tables are indexed by id: some space is left for gaps, but not for one huge id.
  const size_t limit = (p->vocab.n + p->added.n) * 2 + 65536;
  const size_t n_ids = greater(p->vocab.end_id, p->added.end_id);
  ET_CHECK(n_ids <= limit && limit < UINT32_MAX, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected ids from 0 to %zu, got another one", limit);
  p->n_ids = (uint32_t)n_ids;
  p->text_bytes = p->vocab.text_bytes + p->added.text_bytes;
  p->longest = greater(p->vocab.longest, p->added.longest);
  return ET_OK;
}

void eti_hf_sizes(const eti_hf_parts *p, size_t *image_bytes, size_t *work_bytes) {
  const size_t patterns = 8 * 65536, rest = p->decoder.n + p->normalizer.n + p->pre_tokenizer.n;
  *image_bytes = 65536 + patterns + rest + 2 * p->text_bytes + p->n_ids * (size_t)56 +
                 p->merges.n * 43 + p->added.n * (size_t)64;
  *work_bytes = 4 * 1024 * 1024 + rest + p->text_bytes + (p->merges.end - p->merges.begin) +
                64 * p->longest + p->n_ids * (size_t)72 + eti_letters_work_bytes(p->n_ids) +
                p->added.n * (size_t)128 + 8 * p->text_bytes;
}

et_status eti_hf_text(eti_builder *b, eti_string raw, eti_string *text) {
  uint8_t *to;
  ET_TRY(eti_builder_temporary(b, raw.n + 1, 1, &to));
  *text = (eti_string){to, 0};
  return eti_json_unescape(raw, to, &text->n, b->err);
}
