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

static void count_id(eti_hf_parts *p, int64_t id) {
  if (id < 0) id = INT64_MAX;
  if (id > p->greatest_id) p->greatest_id = id;
}

static void count_text(eti_hf_parts *p, eti_string raw) {
  p->text_bytes += raw.n;
  if (raw.n > p->longest) p->longest = raw.n;
}

static et_status count_vocab(eti_json *json, eti_hf_parts *p) {
  const bool listed = eti_json_peek(json) == '[';
  et_status status;
  ET_TRY(eti_json_begin(json, listed ? '[' : '{'));
  while (eti_json_next(json, listed ? ']' : '}', &status)) {
    eti_string raw = {NULL, 0};
    int64_t id = 0;
    double score = 0;
    ET_TRY(eti_hf_vocab_entry(json, listed, p->n_vocab++, &raw, &id, &score));
    count_text(p, raw);
    count_id(p, id);
  }
  return status;
}

static et_status count_added(eti_json *json, eti_hf_parts *p) {
  et_status status;
  ET_TRY(eti_json_begin(json, '['));
  while (eti_json_next(json, ']', &status)) {
    eti_hf_added entry;
    ET_TRY(eti_hf_added_entry(json, &entry));
    p->n_added++;
    count_text(p, entry.content);
    count_id(p, entry.id);
  }
  return status;
}

static et_status count_merges(eti_json *json, eti_hf_parts *p) {
  et_status status;
  ET_TRY(eti_json_begin(json, '['));
  while (eti_json_next(json, ']', &status)) {
    ET_TRY(eti_json_skip(json, NULL));
    p->n_merges++;
  }
  return status;
}

// Counts a value, and keeps its text.
static et_status counted(eti_json *json, eti_hf_parts *p,
                         et_status (*count)(eti_json *, eti_hf_parts *), eti_string *value) {
  if (eti_json_null(json)) return ET_OK;
  (void)eti_json_peek(json);
  const size_t first = json->at;
  ET_TRY(count(json, p));
  *value = (eti_string){json->text.bytes + first, json->at - first};
  return ET_OK;
}

// ---- parts

static et_status keep_string(eti_json *json, eti_string *value) {
  return eti_json_null(json) ? ET_OK : eti_json_string(json, value);
}

static et_status keep_bool(eti_json *json, bool *value) {
  return eti_json_null(json) ? ET_OK : eti_json_bool(json, value);
}

static et_status scan_model(eti_json *json, eti_hf_parts *p) {
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
      ET_TRY(counted(json, p, count_vocab, &p->vocab));
    } else if (eti_json_is(key, "merges")) {
      ET_TRY(counted(json, p, count_merges, &p->merges));
    } else {
      ET_TRY(eti_json_skip(json, NULL));
    }
  }
  return status;
}

static et_status scan_value(eti_json *json, eti_string key, eti_hf_parts *p) {
  if (eti_json_is(key, "added_tokens")) return counted(json, p, count_added, &p->added_tokens);
  if (eti_json_is(key, "model")) return scan_model(json, p);
  if (eti_json_null(json)) return ET_OK;
  if (eti_json_is(key, "normalizer")) return eti_json_skip(json, &p->normalizer);
  if (eti_json_is(key, "pre_tokenizer")) return eti_json_skip(json, &p->pre_tokenizer);
  if (eti_json_is(key, "post_processor")) return eti_json_skip(json, &p->post_processor);
  return eti_json_skip(json, eti_json_is(key, "decoder") ? &p->decoder : NULL);
}

et_status eti_hf_scan(eti_string text, eti_hf_parts *p, et_error *err) {
  *p = (eti_hf_parts){.unk_id = -1, .max_letters = 100};
  eti_json json = eti_json_over(text, NAME, err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(&json, &key));
    ET_TRY(scan_value(&json, key, p));
  }
  ET_TRY(status);
  ET_CHECK(p->n_vocab > 0, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected a model with a vocabulary, got none");
  // Tables are indexed by id: some space is left for gaps, but not for one huge id.
  const int64_t limit = (int64_t)(p->n_vocab + p->n_added) * 2 + 65536;
  ET_CHECK(p->greatest_id < limit, err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected ids from 0 to %lld, got another one", (long long)limit);
  p->n_ids = (uint32_t)p->greatest_id + 1;
  return ET_OK;
}

void eti_hf_sizes(const eti_hf_parts *p, size_t *image_bytes, size_t *work_bytes) {
  const size_t patterns = 8 * 65536, rest = p->decoder.n + p->normalizer.n + p->pre_tokenizer.n;
  *image_bytes = 65536 + patterns + rest + 2 * p->text_bytes + p->n_ids * (size_t)56 +
                 p->n_merges * 43 + p->n_added * (size_t)64;
  *work_bytes = 4 * 1024 * 1024 + rest + p->text_bytes + p->merges.n + 64 * p->longest +
                p->n_ids * (size_t)72 + p->n_added * (size_t)128 + 8 * p->text_bytes;
}

et_status eti_hf_text(eti_builder *b, eti_string raw, eti_string *text) {
  uint8_t *to;
  ET_TRY(eti_builder_temporary(b, raw.n + 1, 1, &to));
  *text = (eti_string){to, 0};
  return eti_json_unescape(raw, to, &text->n, b->err);
}
