// letters.c — letter case, accents, white space, Chinese characters.
#include "llm/text/letters.h"

#include "llm/text/unicode.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

eti_string eti_strip(eti_string in, bool left, bool right) {
  size_t begin = 0, end = in.n;
  while (left && begin < end && eti_unicode_is_space(eti_utf8_at(in.bytes + begin)))
    begin += eti_utf8_bytes(in.bytes[begin]);
  while (right && begin < end) {
    size_t last = end - 1;
    while ((in.bytes[last] & 0xC0) == 0x80) last--;
    if (!eti_unicode_is_space(eti_utf8_at(in.bytes + last))) break;
    end = last;
  }
  return (eti_string){in.bytes + begin, end - begin};
}

static bool has_ascii_upper(eti_string in) {
  bool found = false;
  for (size_t i = 0; i < in.n; i++) found |= (uint8_t)(in.bytes[i] - 'A') < 26;
  return found;
}

// Copies bytes, those of ASCII in lower case.
static uint8_t *copy_lower(uint8_t *to, const uint8_t *from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const uint8_t byte = from[i];
    to[i] = (uint8_t)(byte + ((uint8_t)(byte - 'A') < 26 ? 'a' - 'A' : 0));
  }
  return to + n;
}

static uint8_t *write_lower(uint8_t *to, uint32_t c) {
  const uint32_t *parts;
  const size_t n = eti_unicode_map(&eti_unicode_lower, c, &parts);
  for (size_t i = 0; i < n; i++) to += eti_utf8_write(parts[i], to);
  return to;
}

// Does what the flags say, code point by code point: MARK and NONSPACING remove it, LOWER maps it
// (ASCII too), HAN puts spaces around it. The caller proves that `to` has room.
static uint8_t *rewrite(eti_string in, unsigned flags, uint8_t *to) {
  const bool lowers = (flags & ETI_UNICODE_LOWER) != 0;
  for (size_t at = 0; at < in.n;) {
    const size_t end = eti_unicode_find(in, at, flags);
    if (lowers) {
      to = copy_lower(to, in.bytes + at, end - at);
    } else {
      memcpy(to, in.bytes + at, end - at);
      to += end - at;
    }
    if (end == in.n) break;
    const uint8_t *const p = in.bytes + end;
    const size_t n = eti_utf8_bytes(p[0]);
    const uint32_t c = eti_utf8_at(p);
    const unsigned found = eti_unicode_class_of(c).flags & flags;
    if ((found & ETI_UNICODE_LOWER) != 0) {
      to = write_lower(to, c);
    } else if ((found & ETI_UNICODE_HAN) != 0) {
      *to++ = ' ';
      for (size_t i = 0; i < n; i++) *to++ = p[i];
      *to++ = ' ';
    }
    at = end + n;
  }
  return to;
}

static et_status rewrite_checked(eti_string in, unsigned flags, size_t bytes, et_span out,
                                 size_t *n_out, et_error *err) {
  ET_CHECK(in.n < SIZE_MAX / 2 && out.size >= bytes, err, ET_OUT_OF_MEMORY,
           "normalizer: expected %zu bytes for the result, got %zu", bytes, out.size);
  *n_out = in.n == 0 ? 0 : (size_t)(rewrite(in, flags, out.data) - (uint8_t *)out.data);
  return ET_OK;
}

bool eti_lowercase_is_identity(eti_string in) {
  return !has_ascii_upper(in) && eti_unicode_find(in, 0, ETI_UNICODE_LOWER) == in.n;
}

et_status eti_lowercase(eti_string in, et_span out, size_t *n_out, et_error *err) {
  return rewrite_checked(in, ETI_UNICODE_LOWER, eti_lowercase_bytes(in.n), out, n_out, err);
}

bool eti_strip_accents_is_identity(eti_string in) {
  return eti_unicode_find(in, 0, ETI_UNICODE_MARK) == in.n;
}

et_status eti_strip_accents(eti_string in, et_span out, size_t *n_out, et_error *err) {
  return rewrite_checked(in, ETI_UNICODE_MARK, in.n, out, n_out, err);
}

// ---- BERT

// Bytes at the beginning that are ASCII without controls, by eights.
static size_t printable_bytes(const uint8_t *p, size_t n) {
  const uint64_t ones = 0x0101010101010101u, high = 0x80 * ones;
  size_t i = 0;
  for (uint64_t eight; n - i >= sizeof eight; i += sizeof eight) {
    memcpy(&eight, p + i, sizeof eight);
    // For bytes below 0x80: subtracting 0x20 sets the high bit of controls or borrows from a byte
    // behind one, adding 1 sets that of 0x7F.
    if (((eight | (eight - 0x20 * ones) | (eight + ones)) & high) != 0) break;
  }
  return i;
}

// The place at or behind `at` of the first code point that clean_text removes or replaces.
static size_t clean_end(eti_string in, size_t at) {
  while (at < in.n) {
    const uint8_t *const p = in.bytes + at;
    if (p[0] >= 0x80) {
      if (eti_unicode_flags_of(eti_utf8_at(p), ETI_UNICODE_UNCLEAN | ETI_UNICODE_SPACE) != 0) break;
      at += eti_utf8_bytes(p[0]);
    } else if (p[0] < ' ' || p[0] == 0x7F) {
      break;
    } else {
      const size_t n = printable_bytes(p, in.n - at);
      at += n == 0 ? 1 : n;
    }
  }
  return at;
}

static eti_string clean(eti_string in, uint8_t *out) {
  uint8_t *to = out;
  for (size_t at = 0; at < in.n;) {
    const size_t end = clean_end(in, at);
    memcpy(to, in.bytes + at, end - at);
    to += end - at;
    if (end == in.n) break;
    const uint32_t c = eti_utf8_at(in.bytes + end);
    const bool breaks = c == '\t' || c == '\n' || c == '\r';
    if (breaks || (eti_unicode_class_of(c).flags & ETI_UNICODE_UNCLEAN) == 0) *to++ = ' ';
    at = end + eti_utf8_bytes(in.bytes[end]);
  }
  return (eti_string){out, (size_t)(to - out)};
}

static unsigned rewrite_flags(eti_bert_options options) {
  return (options.handle_chinese_chars ? (unsigned)ETI_UNICODE_HAN : 0) |
         (options.strip_accents ? (unsigned)ETI_UNICODE_NONSPACING : 0) |
         (options.lowercase ? (unsigned)ETI_UNICODE_LOWER : 0);
}

bool eti_bert_is_identity(eti_bert_options options, eti_string in) {
  return (!options.clean_text || clean_end(in, 0) == in.n) &&
         (!options.lowercase || !has_ascii_upper(in)) &&
         (!options.strip_accents || eti_normalize_is_identity(ETI_NFD, in)) &&
         eti_unicode_find(in, 0, rewrite_flags(options)) == in.n;
}

// Spaces are put around Chinese characters behind NFD instead of before it: both are starters, and
// such characters decompose to one of their kind, so that the result is the same. A code point of
// n bytes then becomes at most 3 n: no more by NFD, and those that NFD does not lengthen by 2
// spaces around 3 bytes or by the half in lower case.
et_status eti_bert_normalize(eti_bert_options options, eti_string in, et_span out, size_t *n_out,
                             et_span scratch, et_error *err) {
  ET_CHECK(in.n < SIZE_MAX / 16 && out.size >= eti_bert_bytes(in.n) &&
               scratch.size >= eti_bert_scratch_bytes(in.n),
           err, ET_OUT_OF_MEMORY,
           "BERT's normalizer: expected %zu bytes for the result and %zu for scratch, got %zu "
           "and %zu",
           eti_bert_bytes(in.n), eti_bert_scratch_bytes(in.n), out.size, scratch.size);
  const et_span items = {scratch.data, eti_normalize_scratch_bytes(in.n)};
  uint8_t *const cleaned = (uint8_t *)scratch.data + items.size;
  const et_span decomposed = {cleaned + in.n, eti_normalize_bytes(ETI_NFD, in.n)};
  if (options.clean_text && clean_end(in, 0) < in.n) in = clean(in, cleaned);
  if (options.strip_accents && !eti_normalize_is_identity(ETI_NFD, in)) {
    size_t n = 0;
    ET_TRY(eti_normalize(ETI_NFD, in, decomposed, &n, items, err));
    in = (eti_string){decomposed.data, n};
  }
  return rewrite_checked(in, rewrite_flags(options), 0, out, n_out, err);
}
