#include "llm/tokenizer/bpe.h"

enum { SHORT = 32 };

// ---- symbols

// The tokens of the bytes of a letter; 0 if one is missing.
static size_t byte_symbols(const eti_tokenizer_image *image, eti_string letter, uint32_t end,
                           eti_symbol *symbols) {
  for (size_t i = 0; i < letter.n; i++) {
    const uint32_t id = image->byte_ids[letter.bytes[i]];
    if (id == ETI_NO_TOKEN) return 0;
    symbols[i] = (eti_symbol){id, end - (uint32_t)(letter.n - 1 - i)};
  }
  return letter.n;
}

// The token of a byte, or of a letter of *bytes bytes that BPE joins first of all.
static uint32_t byte_or_letter(const eti_tokenizer_image *image, eti_string rest, size_t *bytes) {
  const size_t n = eti_utf8_bytes(rest.bytes[0]);
  if (n > 1 && n <= rest.n && image->letters != NULL) {
    const uint32_t id = eti_vocab_find(&image->vocab, (eti_string){rest.bytes, n});
    *bytes = n;
    if (id != ETI_NO_TOKEN && eti_bit_of(image->letters, id)) return id;
  }
  *bytes = 1;
  return image->byte_ids[rest.bytes[0]];
}

size_t eti_bpe_symbols(const eti_tokenizer_image *image, eti_string word, eti_symbol *symbols) {
  const eti_image_header *const h = image->header;
  size_t n = 0;
  bool unknown = false;  // the last symbol is the unknown token
  for (size_t at = 0, bytes; at < word.n; at += bytes) {
    const eti_string rest = {word.bytes + at, word.n - at};
    uint32_t id;
    if ((h->flags & ETI_BYTE_LEVEL) != 0) {
      id = byte_or_letter(image, rest, &bytes);
    } else {
      bytes = eti_utf8_bytes(*rest.bytes);
      if (bytes > rest.n) bytes = rest.n;
      id = eti_vocab_find(&image->vocab, (eti_string){rest.bytes, bytes});
    }
    const eti_string letter = {rest.bytes, bytes};
    const uint32_t end = (uint32_t)(at + bytes);
    if ((h->flags & ETI_JOIN_UNKNOWN) != 0) {
      symbols[n++] = (eti_symbol){id, end};
      continue;
    }
    size_t n_bytes = 0;
    if (id == ETI_NO_TOKEN && image->byte_ids != NULL)
      n_bytes = byte_symbols(image, letter, end, symbols + n);
    n += n_bytes;
    if (id != ETI_NO_TOKEN || n_bytes > 0) {
      if (n_bytes == 0) symbols[n++] = (eti_symbol){id, end};
      unknown = false;
      continue;
    }
    if (unknown && (h->flags & ETI_FUSE_UNKNOWN) != 0)
      symbols[n - 1].end = end;
    else if (h->unknown != ETI_NO_TOKEN)
      symbols[n++] = (eti_symbol){h->unknown, end};
    unknown = n > 0;
  }
  return n;
}

// ---- short words

// The least rank is searched anew for each join: for a few symbols nothing is faster.
static size_t join_short(const eti_vocab *v, const uint8_t *word, uint32_t begin, eti_symbol *s,
                         size_t n) {
  eti_joining next[SHORT];  // [i]: symbols i and i + 1
  for (size_t i = 0; i + 1 < n; i++)
    next[i] = eti_joining_of(v, word, i == 0 ? begin : s[i - 1].end, s[i], s[i + 1]);
  for (;;) {
    size_t least = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (next[i].rank < next[least].rank) least = i;
    if (n < 2 || next[least].rank == ETI_NEVER) return n;
    s[least] = (eti_symbol){next[least].id, s[least + 1].end};
    n--;
    memmove(s + least + 1, s + least + 2, (n - least - 1) * sizeof *s);
    if (least + 1 < n) {
      memmove(next + least + 1, next + least + 2, (n - least - 2) * sizeof *next);
      next[least] =
          eti_joining_of(v, word, least == 0 ? begin : s[least - 1].end, s[least], s[least + 1]);
    }
    if (least > 0)
      next[least - 1] =
          eti_joining_of(v, word, least == 1 ? begin : s[least - 2].end, s[least - 1], s[least]);
  }
}

// ---- long words: a list of symbols, and a heap of pairs

// Symbols are linked; `before` and `after` are n at the ends of the list. A symbol that was joined
// to the one before it has the rank ETI_NEVER, as the last one.
typedef struct long_word {
  const eti_vocab *v;
  const uint8_t *word;
  eti_symbol *s;
  uint32_t begin, n, *before, *after, *rank, *joined;
  uint64_t *heap;  // rank << 32 | left symbol, the least one first; outdated ones remain
  size_t n_heap;
} long_word;

static void sift_up(uint64_t *heap, size_t at) {
  const uint64_t item = heap[at];
  for (; at > 0 && item < heap[(at - 1) / 2]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = item;
}

static uint64_t take_least(long_word *w) {
  const uint64_t least = w->heap[0], item = w->heap[--w->n_heap];
  size_t at = 0;
  for (size_t child = 1; child < w->n_heap; child = 2 * at + 1) {
    if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child]) child++;
    if (item <= w->heap[child]) break;
    w->heap[at] = w->heap[child];
    at = child;
  }
  w->heap[at] = item;
  return least;
}

// Finds the pair that begins with a symbol, and puts it on the heap if there is one.
static void update(long_word *w, uint32_t left) {
  const uint32_t right = w->after[left], before = w->before[left];
  w->rank[left] = ETI_NEVER;
  if (right == w->n) return;
  const uint32_t begin = before == w->n ? w->begin : w->s[before].end;
  const eti_joining next = eti_joining_of(w->v, w->word, begin, w->s[left], w->s[right]);
  w->rank[left] = next.rank;
  w->joined[left] = next.id;
  if (next.rank == ETI_NEVER) return;
  w->heap[w->n_heap] = (uint64_t)next.rank << 32 | left;
  sift_up(w->heap, w->n_heap++);
}

static void join_pair(long_word *w, uint32_t left) {
  const uint32_t right = w->after[left], behind = w->after[right], before = w->before[left];
  w->s[left] = (eti_symbol){w->joined[left], w->s[right].end};
  w->after[left] = behind;
  w->rank[right] = ETI_NEVER;
  if (behind != w->n) w->before[behind] = left;
  update(w, left);
  if (before != w->n) update(w, before);
}

static size_t join_long(const eti_vocab *v, const uint8_t *word, uint32_t begin, eti_symbol *s,
                        size_t n, void *scratch) {
  uint64_t *const heap = scratch;  // one item for each first pair, and two for each join
  uint32_t *const lists = (uint32_t *)(heap + 3 * n);
  const uint32_t count = (uint32_t)n;
  long_word w = {v, word, s, begin, count, lists, lists + n, lists + 2 * n, lists + 3 * n, heap, 0};
  for (uint32_t i = 0; i < count; i++) {
    w.before[i] = i == 0 ? count : i - 1;
    w.after[i] = i + 1;
  }
  for (uint32_t i = 0; i < count; i++) update(&w, i);
  while (w.n_heap > 0) {
    const uint64_t least = take_least(&w);
    const uint32_t left = (uint32_t)least;
    if (w.rank[left] == (uint32_t)(least >> 32)) join_pair(&w, left);
  }
  size_t left = 0;
  for (uint32_t i = 0; i != count; i = w.after[i]) s[left++] = s[i];
  return left;
}

size_t eti_bpe_join(const eti_vocab *vocab, const uint8_t *word, uint32_t begin,
                    eti_symbol *symbols, size_t n, void *scratch) {
  return n <= SHORT ? join_short(vocab, word, begin, symbols, n)
                    : join_long(vocab, word, begin, symbols, n, scratch);
}
