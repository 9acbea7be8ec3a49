// hf_steps.c — the normalizers, splitters and decoders of a tokenizer.json, and its template.
#include "llm/formats/base64.h"
#include "llm/formats/hf_json.h"
#include "llm/text/charsmap.h"

#define NAME "tokenizer.json"

// The pattern of GPT-2, which ByteLevel splits at.
static const char GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// Punctuation: the category P, and ASCII that is neither a letter nor a digit.
static const char PUNCTUATION[] = "[\\p{P}!-/:-@\\[-`{-~]";

// A step of the file: its type, and the values that any type may have.
typedef struct step_values {
  eti_string type, pattern, content, replacement, prefix, suffix, charsmap, scheme, behavior, list;
  bool add_prefix_space, use_regex, invert, split, individual, has_split;
  bool left, right, cleanup, clean_text, chinese, lowercase, strip_accents, has_strip_accents;
  int64_t start, stop;
} step_values;

typedef struct field {
  const char *key;
  size_t place;
} field;

#define FIELD(key, member) {key, offsetof(step_values, member)}
static const field STRINGS[] = {
    FIELD("type", type),         FIELD("content", content),
    FIELD("prefix", prefix),     FIELD("replacement", replacement),
    FIELD("suffix", suffix),     FIELD("precompiled_charsmap", charsmap),
    FIELD("behavior", behavior), FIELD("prepend_scheme", scheme),
    FIELD("prepend", content),   FIELD("str_rep", replacement),
    FIELD("delimiter", content),
};
static const field BOOLS[] = {
    FIELD("add_prefix_space", add_prefix_space),
    FIELD("use_regex", use_regex),
    FIELD("invert", invert),
    FIELD("split", split),
    FIELD("individual_digits", individual),
    FIELD("strip_left", left),
    FIELD("strip_right", right),
    FIELD("cleanup", cleanup),
    FIELD("clean_text", clean_text),
    FIELD("handle_chinese_chars", chinese),
    FIELD("lowercase", lowercase),
    FIELD("strip_accents", strip_accents),
};
#undef FIELD

static void *member(step_values *values, size_t place) {
  return (char *)values + place;
}

static et_status read_field(eti_json *json, eti_string key, step_values *values) {
  const char next = eti_json_peek(json);
  for (size_t i = 0; next == '"' && i < sizeof STRINGS / sizeof STRINGS[0]; i++)
    if (eti_json_is(key, STRINGS[i].key))
      return eti_json_string(json, member(values, STRINGS[i].place));
  for (size_t i = 0; (next == 't' || next == 'f') && i < sizeof BOOLS / sizeof BOOLS[0]; i++) {
    if (!eti_json_is(key, BOOLS[i].key)) continue;
    if (eti_json_is(key, "strip_accents")) values->has_strip_accents = true;
    return eti_json_bool(json, member(values, BOOLS[i].place));
  }
  if (eti_json_is(key, "start")) return eti_json_integer(json, &values->start);
  if (eti_json_is(key, "stop")) return eti_json_integer(json, &values->stop);
  const bool list = eti_json_is(key, "normalizers") || eti_json_is(key, "pretokenizers") ||
                    eti_json_is(key, "decoders") || eti_json_is(key, "processors");
  const bool pattern = eti_json_is(key, "pattern");
  return eti_json_skip(json, list ? &values->list : pattern ? &values->pattern : NULL);
}

static et_status read_values(eti_string text, step_values *values, et_error *err) {
  *values = (step_values){.use_regex = true,
                          .split = true,
                          .clean_text = true,
                          .chinese = true,
                          .lowercase = true,
                          .add_prefix_space = true,
                          .left = true,
                          .right = true};
  eti_json json = eti_json_over(text, NAME, err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key;
    ET_TRY(eti_json_key(&json, &key));
    ET_TRY(read_field(&json, key, values));
  }
  return status;
}

static et_status unsupported(eti_builder *b, const char *kind, eti_string type) {
  char shown[ETI_SHOWN_BYTES];
  return ET_FAIL(b->err, ET_NOT_SUPPORTED, NAME ": expected a known %s, got '%s'", kind,
                 eti_text_shown(type, shown));
}

// {"Regex": "…"} or {"String": "…"} as a pattern or a text of a step.
static et_status read_pattern(eti_builder *b, eti_string value, eti_new_step *step) {
  if (value.n == 0) return ET_OK;
  eti_json json = eti_json_over(value, NAME ", pattern", b->err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '{'));
  while (eti_json_next(&json, '}', &status)) {
    eti_string key, raw;
    ET_TRY(eti_json_key(&json, &key));
    ET_TRY(eti_json_string(&json, &raw));
    ET_TRY(eti_hf_text(b, raw, eti_json_is(key, "Regex") ? &step->pattern : &step->text));
  }
  step->lines = true;  // the patterns are Oniguruma's
  return status;
}

// ---- lists

typedef et_status step_reader(eti_builder *b, step_values *values);

// Reads a step, or the steps of a Sequence in turn.
static et_status read_steps(eti_builder *b, eti_string value, step_reader *read) {
  step_values values;
  if (value.n == 0) return ET_OK;
  ET_TRY(read_values(value, &values, b->err));
  if (!eti_json_is(values.type, "Sequence")) return read(b, &values);
  eti_json json = eti_json_over(values.list, NAME ", Sequence", b->err);
  et_status status;
  ET_TRY(eti_json_begin(&json, '['));
  while (eti_json_next(&json, ']', &status)) {
    eti_string item;
    ET_TRY(eti_json_skip(&json, &item));
    ET_TRY(read_values(item, &values, b->err));
    if (eti_json_is(values.type, "Sequence")) return unsupported(b, "step", values.type);
    ET_TRY(read(b, &values));
  }
  return status;
}

// ---- normalizers

static et_status bert_normalizer(eti_builder *b, const step_values *v) {
  const bool accents = v->has_strip_accents ? v->strip_accents : v->lowercase;
  const uint32_t flags = (v->clean_text ? 1u : 0u) | (v->chinese ? 2u : 0u) | (accents ? 4u : 0u) |
                         (v->lowercase ? 8u : 0u);
  return eti_builder_step(b, ETI_SECTION_NORMALIZERS,
                          &(eti_new_step){.id = ETI_STEP_BERT, .flags = flags});
}

static et_status read_charsmap(eti_builder *b, eti_string base64, eti_string *map) {
  uint8_t *to;
  ET_TRY(eti_builder_temporary(b, base64.n / 4 * 3 + 3, 1, &to));
  *map = (eti_string){to, eti_base64(base64, to)};
  ET_CHECK(map->n != SIZE_MAX, b->err, ET_INVALID_EXTERNAL_DATA,
           NAME ": expected base64 in precompiled_charsmap, got other text");
  eti_charsmap opened;
  return eti_charsmap_open(*map, &opened, b->err);
}

static et_status normalizer(eti_builder *b, step_values *v) {
  static const struct {
    const char *name;
    eti_step_id id;
  } PLAIN[] = {{"NFC", ETI_STEP_NFC},
               {"NFD", ETI_STEP_NFD},
               {"NFKC", ETI_STEP_NFKC},
               {"NFKD", ETI_STEP_NFKD},
               {"Lowercase", ETI_STEP_LOWERCASE},
               {"StripAccents", ETI_STEP_STRIP_ACCENTS}};
  eti_new_step step = {.flags = 0};
  for (size_t i = 0; i < sizeof PLAIN / sizeof PLAIN[0]; i++)
    if (eti_json_is(v->type, PLAIN[i].name)) step.id = PLAIN[i].id;
  if (eti_json_is(v->type, "BertNormalizer")) return bert_normalizer(b, v);
  if (eti_json_is(v->type, "Strip")) {
    step.id = ETI_STEP_STRIP;
    step.flags = (v->left ? 1u : 0u) | (v->right ? 2u : 0u);
  } else if (eti_json_is(v->type, "Prepend")) {
    step.id = ETI_STEP_PREPEND;
    ET_TRY(eti_hf_text(b, v->content, &step.text));
  } else if (eti_json_is(v->type, "Replace")) {
    step.id = ETI_STEP_REPLACE;
    ET_TRY(read_pattern(b, v->pattern, &step));
    ET_TRY(eti_hf_text(b, v->content, &step.other));
  }
  if (eti_json_is(v->type, "Precompiled")) {
    step.id = ETI_STEP_CHARSMAP;
    ET_TRY(read_charsmap(b, v->charsmap, &step.text));
  }
  if (step.id == 0) return unsupported(b, "normalizer", v->type);
  return eti_builder_step(b, ETI_SECTION_NORMALIZERS, &step);
}

// ---- splitters

static et_status add_split(eti_builder *b, const char *pattern, uint32_t flags) {
  return eti_builder_step(
      b, ETI_SECTION_SPLITTERS,
      &(eti_new_step){
          .id = ETI_STEP_SPLIT, .flags = flags, .pattern = eti_string_of(pattern), .lines = true});
}

static et_status split_flags(eti_builder *b, const step_values *v, uint32_t *flags) {
  static const char *const NAMES[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  for (uint32_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
    if (!eti_json_is(v->behavior, NAMES[i])) continue;
    *flags = i | (v->invert ? (uint32_t)ETI_SPLIT_INVERT : 0u);
    return ET_OK;
  }
  return unsupported(b, "behavior of Split", v->behavior);
}

static et_status byte_level(eti_builder *b, const step_values *v) {
  b->header->flags |= ETI_BYTE_LEVEL;
  if (v->add_prefix_space)
    ET_TRY(
        eti_builder_step(b, ETI_SECTION_SPLITTERS, &(eti_new_step){.id = ETI_STEP_PREFIX_SPACE}));
  return v->use_regex ? add_split(b, GPT2, ETI_SPLIT_ISOLATED) : ET_OK;
}

static et_status metaspace(eti_builder *b, const step_values *v, eti_section list) {
  eti_new_step step = {.id = ETI_STEP_METASPACE,
                       .flags = v->split ? (uint32_t)ETI_METASPACE_SPLIT : 0u};
  ET_TRY(eti_hf_text(b, v->replacement, &step.text));
  if (v->scheme.n == 0 ? v->add_prefix_space : eti_json_is(v->scheme, "always"))
    step.flags |= ETI_METASPACE_ALWAYS;
  else if (eti_json_is(v->scheme, "first"))
    step.flags |= ETI_METASPACE_FIRST;
  return eti_builder_step(b, list, &step);
}

static et_status splitter(eti_builder *b, step_values *v) {
  if (eti_json_is(v->type, "ByteLevel")) return byte_level(b, v);
  if (eti_json_is(v->type, "Metaspace")) return metaspace(b, v, ETI_SECTION_SPLITTERS);
  if (eti_json_is(v->type, "Digits"))
    return add_split(b, v->individual ? "\\p{N}" : "\\p{N}+", ETI_SPLIT_ISOLATED);
  if (eti_json_is(v->type, "WhitespaceSplit")) return add_split(b, "\\s", ETI_SPLIT_REMOVED);
  if (eti_json_is(v->type, "Whitespace"))
    return add_split(b, "\\w+|[^\\w\\s]+", ETI_SPLIT_REMOVED | ETI_SPLIT_INVERT);
  if (eti_json_is(v->type, "BertPreTokenizer")) {
    ET_TRY(add_split(b, "\\s", ETI_SPLIT_REMOVED));
    return add_split(b, PUNCTUATION, ETI_SPLIT_ISOLATED);
  }
  uint32_t flags = ETI_SPLIT_ISOLATED;
  if (eti_json_is(v->type, "Punctuation")) {
    if (v->behavior.n > 0) ET_TRY(split_flags(b, v, &flags));
    return add_split(b, PUNCTUATION, flags);
  }
  eti_new_step step = {.id = ETI_STEP_SPLIT};
  if (eti_json_is(v->type, "CharDelimiterSplit")) {
    step.flags = ETI_SPLIT_REMOVED;
    ET_TRY(eti_hf_text(b, v->content, &step.text));
    return eti_builder_step(b, ETI_SECTION_SPLITTERS, &step);
  }
  if (!eti_json_is(v->type, "Split")) return unsupported(b, "pre-tokenizer", v->type);
  ET_TRY(split_flags(b, v, &step.flags));
  ET_TRY(read_pattern(b, v->pattern, &step));
  return eti_builder_step(b, ETI_SECTION_SPLITTERS, &step);
}

// ---- decoders

static et_status decoder(eti_builder *b, step_values *v) {
  eti_new_step step = {.flags = 0};
  if (eti_json_is(v->type, "ByteLevel")) return ET_OK;  // tokens are bytes already
  if (eti_json_is(v->type, "Metaspace")) return metaspace(b, v, ETI_SECTION_DECODERS);
  if (eti_json_is(v->type, "ByteFallback")) {
    step.id = ETI_STEP_BYTE_FALLBACK;
  } else if (eti_json_is(v->type, "Fuse")) {
    step.id = ETI_STEP_FUSE;
  } else if (eti_json_is(v->type, "Replace")) {
    step.id = ETI_STEP_REPLACE;
    ET_TRY(read_pattern(b, v->pattern, &step));
    ET_TRY(eti_hf_text(b, v->content, &step.other));
  } else if (eti_json_is(v->type, "Strip")) {
    step.id = ETI_STEP_STRIP_TEXT;
    step.flags = (uint32_t)(v->start & 0xFFFF) | (uint32_t)(v->stop & 0xFFFF) << 16;
    ET_TRY(eti_hf_text(b, v->content, &step.text));
  } else if (eti_json_is(v->type, "WordPiece")) {
    step.id = ETI_STEP_WORDPIECES;
    step.flags = v->cleanup ? 1 : 0;
    ET_TRY(eti_hf_text(b, v->prefix, &step.text));
  } else if (eti_json_is(v->type, "BPEDecoder")) {
    step.id = ETI_STEP_BPE_SUFFIX;
    ET_TRY(eti_hf_text(b, v->suffix, &step.text));
  } else {
    return unsupported(b, "decoder", v->type);
  }
  return eti_builder_step(b, ETI_SECTION_DECODERS, &step);
}

et_status eti_hf_steps(const eti_hf_parts *parts, eti_builder *b) {
  ET_TRY(read_steps(b, parts->normalizer, normalizer));
  ET_TRY(read_steps(b, parts->pre_tokenizer, splitter));
  ET_TRY(read_steps(b, parts->decoder, decoder));
  return eti_builder_lists(b);
}
