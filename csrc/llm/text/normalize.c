// normalize.c — decomposition, canonical order and composition.
//
// Code points that no form changes are copied in runs. Others wait in `items` until a starter that
// is composed with nothing before it: code points in front of it and behind it do not interact.
#include "llm/text/normalize.h"

#include "llm/text/unicode.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

enum { ITEM_COMBINING_SHIFT = 24, ITEM_CODE_POINT = 0xFFFFFF, INSERTED = 32 };

typedef struct normalizer {
  bool composes, compatible;
  uint8_t *to;      // the next byte of the result
  uint32_t *items;  // waiting code points: combining class << 24 | code point
  size_t n;
} normalizer;

static unsigned form_flag(eti_normal_form form) {
  return 1u << form;
}
_Static_assert(ETI_UNICODE_NFC == 1 << ETI_NFC && ETI_UNICODE_NFD == 1 << ETI_NFD &&
                   ETI_UNICODE_NFKC == 1 << ETI_NFKC && ETI_UNICODE_NFKD == 1 << ETI_NFKD,
               "a form's number is that of its flag");

bool eti_normalize_is_identity(eti_normal_form form, eti_string in) {
  return eti_unicode_find(in, 0, form_flag(form)) == in.n;
}

// ---- canonical order

// Sorts items of one run by insertion, which is stable.
static void insert_items(uint32_t *items, size_t n) {
  for (size_t i = 1; i < n; i++) {
    const uint32_t item = items[i];
    size_t at = i;
    for (; at > 0 && items[at - 1] >> ITEM_COMBINING_SHIFT > item >> ITEM_COMBINING_SHIFT; at--)
      items[at] = items[at - 1];
    items[at] = item;
  }
}

// Sorts items of one run by four of their bits, stably. They go through UTF-8 in `room`, the
// part of the result that is free: it has place for all code points that wait.
static void count_items(uint32_t *items, size_t n, unsigned shift, uint8_t *room) {
  size_t at[16] = {0};
  uint8_t bytes[4];
  for (size_t i = 0; i < n; i++)
    at[items[i] >> shift & 15] += eti_utf8_write(items[i] & ITEM_CODE_POINT, bytes);
  size_t total = 0;
  for (size_t i = 0; i < 16; i++) {
    const size_t size = at[i];
    at[i] = total;
    total += size;
  }
  for (size_t i = 0; i < n; i++) {
    size_t *const place = &at[items[i] >> shift & 15];
    *place += eti_utf8_write(items[i] & ITEM_CODE_POINT, room + *place);
  }
  for (size_t i = 0; i < n; i++) {
    const uint32_t c = eti_utf8_at(room);
    room += eti_utf8_bytes(room[0]);
    items[i] = (uint32_t)eti_unicode_class_of(c).combining << ITEM_COMBINING_SHIFT | c;
  }
}

// Sorts items of one run by their combining classes, stably.
static void order_run(uint32_t *items, size_t n, uint8_t *room) {
  if (n <= INSERTED) {
    insert_items(items, n);
    return;
  }
  count_items(items, n, ITEM_COMBINING_SHIFT, room);
  count_items(items, n, ITEM_COMBINING_SHIFT + 4, room);
}

static void order(normalizer *z) {
  for (size_t i = 0; i < z->n;) {
    const size_t first = i;
    uint32_t last = 0;
    bool sorted = true;
    for (; i < z->n; i++) {
      const uint32_t class = z->items[i] >> ITEM_COMBINING_SHIFT;
      if (class == 0) break;
      sorted &= last <= class;
      last = class;
    }
    if (!sorted) order_run(z->items + first, i - first, z->to);
    i += i == first;
  }
}

// ---- composition

// Composes ordered items in place. A mark is composed with the starter before it unless a mark of
// its own class, or a starter, is between them.
static void compose(normalizer *z) {
  uint32_t *const items = z->items;
  size_t starter = SIZE_MAX, kept = 0;
  uint32_t last = 0;  // the class of the item before, if that is not the starter
  for (size_t i = 0; i < z->n; i++) {
    const uint32_t item = items[i], class = item >> ITEM_COMBINING_SHIFT;
    if (starter != SIZE_MAX && (kept == starter + 1 || last < class)) {
      const uint32_t composite = eti_unicode_compose(items[starter], item & ITEM_CODE_POINT);
      if (composite != 0) {
        items[starter] = composite;
        continue;
      }
    }
    if (class == 0) starter = kept;
    last = class;
    items[kept++] = item;
  }
  z->n = kept;
}

// ---- decomposition

static void flush(normalizer *z) {
  if (z->n > 1) order(z);
  if (z->n > 1 && z->composes) compose(z);
  for (size_t i = 0; i < z->n; i++) {
    const uint32_t c = z->items[i] & ITEM_CODE_POINT;
    if (c < 0x80)
      *z->to++ = (uint8_t)c;
    else
      z->to += eti_utf8_write(c, z->to);
  }
  z->n = 0;
}

// Adds a code point that is decomposed.
static void push_part(normalizer *z, uint32_t c, eti_unicode_class class) {
  if (class.combining == 0 && !(z->composes && (class.flags & ETI_UNICODE_SECOND) != 0)) flush(z);
  z->items[z->n++] = (uint32_t)class.combining << ITEM_COMBINING_SHIFT | c;
}

static void push_hangul(normalizer *z, uint32_t s) {
  const uint32_t t = s % ETI_HANGUL_N_T, lv = s / ETI_HANGUL_N_T;
  const uint32_t parts[3] = {ETI_HANGUL_L + lv / ETI_HANGUL_N_V, ETI_HANGUL_V + lv % ETI_HANGUL_N_V,
                             ETI_HANGUL_T + t};
  for (size_t i = 0; i < (t == 0 ? 2 : 3); i++)
    push_part(z, parts[i], eti_unicode_class_of(parts[i]));
}

static void push(normalizer *z, uint32_t c) {
  const eti_unicode_class class = eti_unicode_class_of(c);
  const eti_unicode_mapping *mapping = NULL;
  if ((class.flags & ETI_UNICODE_CANONICAL) != 0) mapping = &eti_unicode_canonical;
  if (z->compatible && (class.flags & ETI_UNICODE_COMPATIBLE) != 0)
    mapping = &eti_unicode_compatible;
  if (mapping != NULL) {
    const uint32_t *parts;
    const size_t n = eti_unicode_map(mapping, c, &parts);
    for (size_t i = 0; i < n; i++) push_part(z, parts[i], eti_unicode_class_of(parts[i]));
  } else if (c - ETI_HANGUL_S < ETI_HANGUL_N_S) {
    push_hangul(z, c - ETI_HANGUL_S);
  } else {
    push_part(z, c, class);
  }
}

// Copies the code points before `end` that no form changes. Composing forms keep the last one of
// them for what follows it. Returns the place where the copy ends.
static size_t copy_plain(normalizer *z, eti_string in, size_t at, size_t end) {
  if (z->composes && end < in.n && end > at) {
    end--;
    while ((in.bytes[end] & 0xC0) == 0x80) end--;
  }
  memcpy(z->to, in.bytes + at, end - at);
  z->to += end - at;
  return end;
}

et_status eti_normalize(eti_normal_form form, eti_string in, et_span out, size_t *n_out,
                        et_span scratch, et_error *err) {
  ET_CHECK(in.n < SIZE_MAX / 16 && out.size >= eti_normalize_bytes(form, in.n) &&
               scratch.size >= eti_normalize_scratch_bytes(in.n),
           err, ET_OUT_OF_MEMORY,
           "normalizer: expected %zu bytes for the result and %zu for scratch, got %zu and %zu",
           eti_normalize_bytes(form, in.n), eti_normalize_scratch_bytes(in.n), out.size,
           scratch.size);
  ET_CHECK(eti_is_aligned(scratch.data, _Alignof(uint32_t)), err, ET_INVALID_ARGUMENT,
           "normalizer: expected scratch memory aligned to 4 bytes, got less");
  const unsigned flag = form_flag(form);
  normalizer z = {.composes = form == ETI_NFC || form == ETI_NFKC,
                  .compatible = form == ETI_NFKC || form == ETI_NFKD,
                  .to = out.data,
                  .items = scratch.data};
  size_t at = 0;
  while (at < in.n) {
    at = copy_plain(&z, in, at, eti_unicode_find(in, at, flag));
    bool plain = true;  // the first code point is pushed, and those behind it that may change
    while (at < in.n) {
      const uint8_t *const p = in.bytes + at;
      const uint32_t c = eti_utf8_at(p);
      if (!plain && eti_unicode_flags_of(c, flag) == 0) break;
      push(&z, c);
      at += eti_utf8_bytes(p[0]);
      plain = false;
    }
    flush(&z);
  }
  *n_out = (size_t)(z.to - (uint8_t *)out.data);
  return ET_OK;
}
