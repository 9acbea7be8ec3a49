// charsmap.c — grapheme clusters, and the pieces of a text that a charsmap replaces.
#include "llm/text/charsmap.h"

#include "llm/text/unicode.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

enum { WHOLE_CLUSTER_BYTES = 6, ZERO_WIDTH_NON_JOINER = 0x200C };

// ---- grapheme clusters (UAX 29, extended)

typedef struct cluster {
  uint8_t last;     // eti_grapheme of its last code point
  bool conjunct;    // a consonant, extenders and a linker among them are its end
  bool consonant;   // a consonant and extenders
  bool pictograph;  // a pictograph and extenders
  bool joined;      // and behind them a zero width joiner
} cluster;

static uint8_t grapheme_of(uint32_t c) {
  return eti_unicode_flags_of(c, ETI_UNICODE_GRAPHEME) == 0 ? ETI_GRAPHEME_OTHER
                                                            : eti_unicode_class_of(c).grapheme;
}

static bool is_extender(uint8_t g) {
  return g == ETI_GRAPHEME_EXTEND || g == ETI_GRAPHEME_LINKER;
}

static bool is_control(uint8_t g) {
  return g == ETI_GRAPHEME_CR || g == ETI_GRAPHEME_LF || g == ETI_GRAPHEME_CONTROL;
}

static bool hangul_joins(uint8_t last, uint8_t g) {
  switch (last) {
    case ETI_GRAPHEME_L:
      return g == ETI_GRAPHEME_L || g == ETI_GRAPHEME_V || g == ETI_GRAPHEME_LV ||
             g == ETI_GRAPHEME_LVT;
    case ETI_GRAPHEME_LV:
    case ETI_GRAPHEME_V:
      return g == ETI_GRAPHEME_V || g == ETI_GRAPHEME_T;
    case ETI_GRAPHEME_LVT:
    case ETI_GRAPHEME_T:
      return g == ETI_GRAPHEME_T;
    default:
      return false;
  }
}

// Whether a code point belongs to the cluster before it. Pairs of regional indicators are left out:
// with or without them, pieces of less than 6 bytes are the same ones.
static bool joins(const cluster *k, uint8_t g) {
  if (is_control(k->last) || is_control(g))
    return k->last == ETI_GRAPHEME_CR && g == ETI_GRAPHEME_LF;
  if (is_extender(g) || g == ETI_GRAPHEME_ZWJ || g == ETI_GRAPHEME_SPACING) return true;
  if (k->last == ETI_GRAPHEME_PREPEND || hangul_joins(k->last, g)) return true;
  return (g == ETI_GRAPHEME_CONSONANT && k->conjunct) ||
         (g == ETI_GRAPHEME_PICTOGRAPH && k->joined);
}

static void append(cluster *k, uint32_t c, uint8_t g) {
  const bool extends = is_extender(g);
  const bool conjoins = (extends && c != ZERO_WIDTH_NON_JOINER) || g == ETI_GRAPHEME_ZWJ;
  k->conjunct = conjoins && (k->conjunct || (k->consonant && g == ETI_GRAPHEME_LINKER));
  k->consonant = g == ETI_GRAPHEME_CONSONANT || (k->consonant && conjoins);
  k->joined = k->pictograph && g == ETI_GRAPHEME_ZWJ;
  k->pictograph = g == ETI_GRAPHEME_PICTOGRAPH || (k->pictograph && extends);
  k->last = g;
}

// The end of the cluster that begins at `at`.
static size_t cluster_end(eti_string in, size_t at) {
  cluster k = {0};
  uint32_t c = eti_utf8_at(in.bytes + at);
  append(&k, c, grapheme_of(c));
  for (at += eti_utf8_bytes(in.bytes[at]); at < in.n; at += eti_utf8_bytes(in.bytes[at])) {
    c = eti_utf8_at(in.bytes + at);
    const uint8_t g = grapheme_of(c);
    if (g == ETI_GRAPHEME_OTHER && k.last != ETI_GRAPHEME_PREPEND) return at;
    if (!joins(&k, g)) return at;
    append(&k, c, g);
  }
  return at;
}

// ---- the trie

static uint32_t unit_at(const eti_charsmap *map, size_t at) {
  return eti_u32(map->units + 4 * at);
}
static size_t unit_offset(uint32_t unit) {
  return (size_t)(unit >> 10) << ((unit >> 9 & 1) * 8);
}
static uint32_t unit_label(uint32_t unit) {
  return unit & (1u << 31 | 0xFF);
}
static bool unit_has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}

static et_status replacement_at(const eti_charsmap *map, size_t place, eti_string *to,
                                et_error *err) {
  const eti_string all = map->replacements;
  ET_CHECK(place <= all.n && (place == all.n || (all.bytes[place] & 0xC0) != 0x80), err,
           ET_INVALID_EXTERNAL_DATA,
           "charsmap: expected a replacement that begins in %zu bytes, got one at byte %zu", all.n,
           place);
  size_t end = place;
  while (end < all.n && all.bytes[end] != 0) end++;
  *to = (eti_string){all.bytes + place, end - place};
  return ET_OK;
}

// The replacement of the shortest prefix of a text that is in the map, if there is one.
static et_status find_prefix(const eti_charsmap *map, eti_string text, bool *found, eti_string *to,
                             et_error *err) {
  *found = false;
  size_t at = unit_offset(unit_at(map, 0));
  for (size_t i = 0; i < text.n && text.bytes[i] != 0; i++) {
    at ^= text.bytes[i];
    ET_CHECK(at < map->n_units, err, ET_INVALID_EXTERNAL_DATA,
             "charsmap: expected places below %zu in the trie, got %zu", map->n_units, at);
    const uint32_t unit = unit_at(map, at);
    if (unit_label(unit) != text.bytes[i]) return ET_OK;
    at ^= unit_offset(unit);
    if (!unit_has_leaf(unit)) continue;
    ET_CHECK(at < map->n_units, err, ET_INVALID_EXTERNAL_DATA,
             "charsmap: expected leaves below %zu in the trie, got %zu", map->n_units, at);
    *found = true;
    return replacement_at(map, unit_at(map, at) & INT32_MAX, to, err);
  }
  return ET_OK;
}

et_status eti_charsmap_longest(const eti_charsmap *map, eti_string text, size_t *n, eti_string *to,
                               et_error *err) {
  *n = 0;
  size_t at = unit_offset(unit_at(map, 0)), leaf = 0;
  for (size_t i = 0; i < text.n && text.bytes[i] != 0; i++) {
    at ^= text.bytes[i];
    ET_CHECK(at < map->n_units, err, ET_INVALID_EXTERNAL_DATA,
             "charsmap: expected places below %zu in the trie, got %zu", map->n_units, at);
    const uint32_t unit = unit_at(map, at);
    if (unit_label(unit) != text.bytes[i]) break;
    at ^= unit_offset(unit);
    if (!unit_has_leaf(unit)) continue;
    ET_CHECK(at < map->n_units && (i + 1 == text.n || (text.bytes[i + 1] & 0xC0) != 0x80), err,
             ET_INVALID_EXTERNAL_DATA,
             "charsmap: expected leaves below %zu in the trie, of whole letters, got %zu",
             map->n_units, at);
    *n = i + 1;
    leaf = at;
  }
  return *n == 0 ? ET_OK : replacement_at(map, unit_at(map, leaf) & INT32_MAX, to, err);
}

bool eti_charsmap_has_ascii_pairs(const eti_charsmap *map) {
  const size_t root = unit_offset(unit_at(map, 0));
  for (size_t first = 1; first < 128; first++) {
    const size_t at = root ^ first;
    if (at >= map->n_units || unit_label(unit_at(map, at)) != first) continue;
    for (size_t second = 1; second < 128; second++) {
      const size_t next = at ^ unit_offset(unit_at(map, at)) ^ second;
      if (next >= map->n_units || unit_label(unit_at(map, next)) == second) return true;
    }
  }
  return false;
}

eti_charsmap eti_charsmap_parts(eti_string bytes) {
  const size_t n = eti_u32(bytes.bytes) / 4;
  eti_charsmap m = {.units = bytes.bytes + 4, .n_units = n};
  m.replacements = (eti_string){m.units + 4 * n, bytes.n - 4 - 4 * n};
  const size_t root = unit_offset(unit_at(&m, 0));
  for (size_t byte = 1; byte < sizeof m.ascii; byte++) {
    const bool inside = (root ^ byte) < n;  // else the normalizer has to find the damage
    const uint32_t unit = inside ? unit_at(&m, root ^ byte) : 0;
    m.ascii[byte] = !inside || (unit_label(unit) == byte && (unit_has_leaf(unit) || byte == '\r'));
  }
  return m;
}

et_status eti_charsmap_open(eti_string bytes, eti_charsmap *map, et_error *err) {
  const size_t n = bytes.n >= 4 ? eti_u32(bytes.bytes) / 4 : 0;
  ET_CHECK(n > 0 && n <= (bytes.n - 4) / 4, err, ET_INVALID_EXTERNAL_DATA,
           "charsmap: expected a trie of at least one unit in %zu bytes, got %zu units", bytes.n,
           n);
  const eti_charsmap m = eti_charsmap_parts(bytes);
  const size_t valid = eti_utf8_valid_bytes(m.replacements);
  ET_CHECK(valid == m.replacements.n, err, ET_INVALID_EXTERNAL_DATA,
           "charsmap: expected replacements in UTF-8, got others at byte %zu", valid);
  *map = m;
  return ET_OK;
}

// ---- pieces

// Walks over the pieces of a text that are replaced.
typedef struct reader {
  const eti_charsmap *map;
  eti_string in;
  size_t at;
  size_t by_code_points;  // code points before this place are pieces of their own
  size_t begin, end;      // the piece; begin is in.n behind the last one
  eti_string to;
} reader;

// Skips ASCII that is not in the map, without the last byte before a code point that may extend it:
// other bytes are clusters of their own, but for U+000D before U+000A.
static void skip_ascii(reader *r) {
  const uint8_t *const p = r->in.bytes;
  size_t end = r->at;
  while (end < r->in.n && p[end] < 0x80 && !r->map->ascii[p[end]]) end++;
  if (end > r->at) r->at = end == r->in.n || p[end] < 0x80 ? end : end - 1;
}

static et_status next_piece(reader *r, et_error *err) {
  while (r->at < r->in.n) {
    size_t n = eti_utf8_bytes(r->in.bytes[r->at]);
    if (r->at >= r->by_code_points) {
      skip_ascii(r);
      if (r->at == r->in.n) break;
      n = cluster_end(r->in, r->at) - r->at;
      r->by_code_points = r->at + n;
      if (n >= WHOLE_CLUSTER_BYTES) n = eti_utf8_bytes(r->in.bytes[r->at]);
    }
    bool found;
    const eti_string piece = {r->in.bytes + r->at, n};
    ET_TRY(find_prefix(r->map, piece, &found, &r->to, err));
    if (!found) n = eti_utf8_bytes(piece.bytes[0]);  // the rest of a cluster is read by code points
    r->begin = r->at;
    r->end = r->at += n;
    if (found) return ET_OK;
  }
  r->begin = r->end = r->in.n;
  return ET_OK;
}

bool eti_charsmap_is_identity(const eti_charsmap *map, eti_string in) {
  reader r = {.map = map, .in = in};
  return next_piece(&r, NULL) == ET_OK && r.begin == in.n;
}

et_status eti_charsmap_normalize(const eti_charsmap *map, eti_string in, et_span out, size_t *n_out,
                                 et_error *err) {
  reader r = {.map = map, .in = in};
  uint8_t *const to = out.data;
  size_t n = 0, copied = 0;
  do {
    ET_TRY(next_piece(&r, err));
    const size_t kept = r.begin - copied;
    const size_t replaced = r.begin < in.n ? r.to.n : 0;
    if (to != NULL) {
      ET_CHECK(kept <= out.size - n && replaced <= out.size - n - kept, err, ET_OUT_OF_MEMORY,
               "charsmap: expected more than %zu bytes for the result, got %zu", n, out.size);
      if (kept > 0) memcpy(to + n, in.bytes + copied, kept);
      if (replaced > 0) memcpy(to + n + kept, r.to.bytes, replaced);
    }
    ET_CHECK(eti_add(n, kept, &n) && eti_add(n, replaced, &n), err, ET_OUT_OF_MEMORY,
             "charsmap: expected a result that a size can count, got more");
    copied = r.end;
  } while (r.begin < in.n);
  *n_out = n;
  return ET_OK;
}
