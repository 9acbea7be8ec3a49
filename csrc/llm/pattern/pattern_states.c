// pattern_states.c — the automaton of a pattern: a state for each ordered list of steps at which a
// backtracking matcher may be, the first choice first.
//
// Look-ahead waits in the list until the next class is known, so that a transition says whether a
// match ended before the class. Behind a match, steps of lesser choice are dropped.
#include "llm/pattern/pattern_program.h"

#include <string.h>

enum { MAX_STATES = 1024, MAX_LISTED = 1 << 16, HASH_SLOTS = 4 * MAX_STATES };

typedef struct step_list {
  uint16_t steps[PATTERN_MAX_STEPS];
  size_t n;
  bool ended;  // a match was listed
  bool seen[PATTERN_MAX_STEPS];
} step_list;

typedef struct automaton {
  eti_pattern_program program;
  eti_pattern_classes classes;
  uint8_t pages[ETI_PATTERN_PAGES][256];
  uint16_t listed[MAX_LISTED];  // the lists of all states
  uint32_t begin[MAX_STATES + 1];
  size_t n_states;
  uint16_t slots[HASH_SLOTS];  // number of a state + 1, by the hash of its list
  step_list now, then;
  uint16_t stack[2 * PATTERN_MAX_STEPS + 1];
  et_error *err;
} automaton;

static void begin_list(step_list *l) {
  l->n = 0;
  l->ended = false;
  memset(l->seen, 0, sizeof l->seen);
}

// Whether look-around passes beside a class; n_classes stands for the edge of the text.
static bool passes(const automaton *a, const eti_step *step, size_t class) {
  if (class == a->classes.n_classes) return step->at_edge;
  return (a->classes.sets_of[class] >> step->set & 1) != step->negated;
}

// Appends the steps that are reached from `first` without reading. `before` is the class before
// them; `ahead` the next one, or SIZE_MAX while it is not known: then look-ahead is appended.
static et_status follow(automaton *a, step_list *to, uint16_t first, size_t before, size_t ahead) {
  size_t n = 0;
  a->stack[n++] = first;
  while (n > 0 && !to->ended) {
    const uint16_t at = a->stack[--n];
    const eti_step *const step = &a->program.steps[at];
    if (to->seen[at]) continue;
    to->seen[at] = true;
    if (step->kind == STEP_SPLIT) {
      a->stack[n++] = step->y;
      a->stack[n++] = step->x;
    } else if (step->kind == STEP_JUMP) {
      a->stack[n++] = step->x;
    } else if (step->kind == STEP_BEHIND) {
      ET_CHECK(before != SIZE_MAX, a->err, ET_NOT_SUPPORTED,
               "pattern: expected look-behind before look-ahead at one place, got it after");
      if (passes(a, step, before)) a->stack[n++] = (uint16_t)(at + 1);
    } else if (step->kind == STEP_AHEAD && ahead != SIZE_MAX) {
      if (passes(a, step, ahead)) a->stack[n++] = (uint16_t)(at + 1);
    } else {
      to->steps[to->n++] = at;
      to->ended = step->kind == STEP_MATCH;
    }
  }
  return ET_OK;
}

static size_t hash_of(const step_list *l) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (size_t i = 0; i < l->n; i++) hash = (hash ^ l->steps[i]) * 16777619u;
  return hash % HASH_SLOTS;
}

// The number of the state with the steps of a list; a new one if there is none.
static et_status state_of(automaton *a, const step_list *l, uint16_t *number) {
  const size_t bytes = l->n * sizeof l->steps[0];
  size_t slot = hash_of(l);
  for (; a->slots[slot] != 0; slot = (slot + 1) % HASH_SLOTS) {
    const size_t i = a->slots[slot] - 1u;
    const bool equal = a->begin[i + 1] - a->begin[i] == l->n &&
                       memcmp(a->listed + a->begin[i], l->steps, bytes) == 0;
    if (!equal) continue;
    *number = (uint16_t)i;
    return ET_OK;
  }
  const size_t begin = a->begin[a->n_states];
  ET_CHECK(a->n_states < MAX_STATES && MAX_LISTED - begin >= l->n, a->err, ET_NOT_SUPPORTED,
           "pattern: expected an automaton of at most %d states, got more", MAX_STATES);
  memcpy(a->listed + begin, l->steps, bytes);
  *number = (uint16_t)a->n_states;
  a->begin[++a->n_states] = (uint32_t)(begin + l->n);
  a->slots[slot] = (uint16_t)a->n_states;
  return ET_OK;
}

static et_status transition(automaton *a, size_t state, size_t class, uint16_t *to) {
  begin_list(&a->now);
  for (size_t i = a->begin[state]; i < a->begin[state + 1] && !a->now.ended; i++)
    ET_TRY(follow(a, &a->now, a->listed[i], SIZE_MAX, class));
  begin_list(&a->then);
  for (size_t i = 0; i < a->now.n && class < a->classes.n_classes; i++) {
    const uint16_t at = a->now.steps[i];
    const eti_step *const step = &a->program.steps[at];
    if (step->kind == STEP_SET && (a->classes.sets_of[class] >> step->set & 1) != 0)
      ET_TRY(follow(a, &a->then, (uint16_t)(at + 1), class, SIZE_MAX));
  }
  ET_TRY(state_of(a, &a->then, to));
  if (a->now.ended) *to |= ETI_PATTERN_MATCHED;
  return ET_OK;
}

// ---- the result

typedef struct writer {
  uint8_t *base;
  size_t size, used;
} writer;

static et_status append(writer *w, const void *bytes, size_t n, et_error *err) {
  ET_CHECK(w->size - w->used >= n, err, ET_OUT_OF_MEMORY,
           "pattern: expected room for its automaton, got %zu bytes", w->size);
  memcpy(w->base + w->used, bytes, n);
  w->used += n;
  return ET_OK;
}

// The states in the order of their numbers: each row of transitions may append new ones.
static et_status append_states(automaton *a, writer *w) {
  a->n_states = 0;
  a->begin[0] = 0;
  memset(a->slots, 0, sizeof a->slots);
  begin_list(&a->then);
  uint16_t to;  // the first state has an empty list: ETI_PATTERN_DEAD
  ET_TRY(state_of(a, &a->then, &to));
  const size_t n_classes = a->classes.n_classes;
  for (size_t before = 0; before <= n_classes; before++) {
    begin_list(&a->then);
    ET_TRY(follow(a, &a->then, 0, before, SIZE_MAX));
    ET_TRY(state_of(a, &a->then, &to));
    ET_TRY(append(w, &to, sizeof to, a->err));
  }
  for (size_t state = 0; state < a->n_states; state++)
    for (size_t class = 0; class <= n_classes; class ++) {
      ET_TRY(transition(a, state, class, &to));
      ET_TRY(append(w, &to, sizeof to, a->err));
    }
  return ET_OK;
}

size_t eti_pattern_work_bytes(void) {
  return sizeof(automaton) + 63;  // the arena begins at a multiple of 64
}

et_status eti_pattern_compile(eti_string text, bool lines, et_span out, size_t *used, et_span work,
                              et_error *err) {
  et_arena arena = eti_arena_over(work);
  automaton *const a = ETI_CLAIM(&arena, automaton, 1);
  ET_CHECK(a != NULL, err, ET_OUT_OF_MEMORY, "pattern: expected %zu bytes to compile it, got %zu",
           eti_pattern_work_bytes(), work.size);
  a->err = err;
  a->classes.pages = a->pages;
  ET_TRY(eti_pattern_parse(text, lines, &a->program, err));
  ET_TRY(eti_pattern_classify(&a->program, &a->classes, err));
  writer w = {out.data, out.size, 0};
  eti_pattern_header header = {(uint32_t)a->classes.n_classes, (uint32_t)a->classes.n_pages, 0};
  ET_TRY(append(&w, &header, sizeof header, err));
  ET_TRY(append(&w, a->classes.page_of, sizeof a->classes.page_of, err));
  ET_TRY(append(&w, a->pages, a->classes.n_pages * sizeof a->pages[0], err));
  ET_TRY(append_states(a, &w));
  header.n_states = (uint32_t)a->n_states;
  memcpy(out.data, &header, sizeof header);
  static const uint8_t ZEROS[4];
  ET_TRY(append(&w, ZEROS, -w.used & 3, err));
  *used = w.used;
  return ET_OK;
}
