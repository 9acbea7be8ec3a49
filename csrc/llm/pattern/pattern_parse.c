// pattern_parse.c — groups, alternatives and quantifiers of a pattern, to steps.
//
// There is no tree: steps are written while the text is read. An atom with a quantifier is read
// again for each of its copies, so that the steps of a copy need not be moved.
#include "llm/pattern/pattern_parse.h"

static et_status add_step(eti_pattern_parser *p, eti_step step) {
  ET_CHECK(p->program->n_steps < PATTERN_MAX_STEPS, p->err, ET_NOT_SUPPORTED,
           "pattern: expected at most %d steps, got more at byte %zu", PATTERN_MAX_STEPS, p->at);
  p->program->steps[p->program->n_steps++] = step;
  return ET_OK;
}

static et_status alternatives(eti_pattern_parser *p);

// ---- atoms

static et_status set_atom(eti_pattern_parser *p) {
  uint8_t set;
  ET_TRY(eti_pattern_read_set(p, &set));
  return add_step(p, (eti_step){.kind = STEP_SET, .set = set});
}

// The rest of (?=x), (?!x), (?<=x) or (?<!x).
static et_status look_around(eti_pattern_parser *p, eti_step_kind kind, bool negated) {
  eti_step step = {.kind = (uint8_t)kind, .negated = negated, .at_edge = negated};
  ET_TRY(eti_pattern_read_set(p, &step.set));
  ET_CHECK(eti_pattern_skip(p, ")"), p->err, ET_NOT_SUPPORTED,
           "pattern: expected look-around of one code point, got more at byte %zu", p->at);
  return add_step(p, step);
}

static et_status group(eti_pattern_parser *p) {
  const bool folds = p->folds;
  if (eti_pattern_skip(p, "?=")) return look_around(p, STEP_AHEAD, false);
  if (eti_pattern_skip(p, "?!")) return look_around(p, STEP_AHEAD, true);
  if (eti_pattern_skip(p, "?<=")) return look_around(p, STEP_BEHIND, false);
  if (eti_pattern_skip(p, "?<!")) return look_around(p, STEP_BEHIND, true);
  if (eti_pattern_skip(p, "?i)")) {  // to the end of the group around it
    p->folds = true;
    return ET_OK;
  }
  if (eti_pattern_skip(p, "?i:"))
    p->folds = true;
  else if (!eti_pattern_skip(p, "?:"))
    ET_CHECK(p->at == p->text.n || p->text.bytes[p->at] != '?', p->err, ET_NOT_SUPPORTED,
             "pattern: expected (?:, (?i:, (?=, (?!, (?<= or (?<!, got another group at byte %zu",
             p->at);
  ET_CHECK(p->depth < PATTERN_MAX_DEPTH, p->err, ET_NOT_SUPPORTED,
           "pattern: expected groups at most %d deep, got more at byte %zu", PATTERN_MAX_DEPTH,
           p->at);
  p->depth++;
  ET_TRY(alternatives(p));
  p->depth--;
  p->folds = folds;
  ET_CHECK(eti_pattern_skip(p, ")"), p->err, ET_INVALID_ARGUMENT,
           "pattern: expected ')' at byte %zu, got the end", p->at);
  return ET_OK;
}

// ^ and $ at the ends of lines are the ends of the text, and places beside a line feed.
static et_status anchor(eti_pattern_parser *p, eti_step_kind kind, bool lines) {
  eti_step step = {.kind = (uint8_t)kind, .at_edge = true};
  ET_TRY(lines ? eti_pattern_line_feed_set(p, &step.set) : eti_pattern_empty_set(p, &step.set));
  return add_step(p, step);
}

// \b: a letter on one side only. Of the two ways that are tried, one can match at a place.
static et_status word_border(eti_pattern_parser *p, bool border) {
  uint8_t word;
  ET_TRY(eti_pattern_word_set(p, &word));
  const size_t first = p->program->n_steps;
  ET_TRY(add_step(
      p, (eti_step){.kind = STEP_SPLIT, .x = (uint16_t)(first + 1), .y = (uint16_t)(first + 4)}));
  for (int i = 0; i < 2; i++) {
    const bool outside = i == 1, ahead_outside = border != outside;
    ET_TRY(add_step(
        p, (eti_step){.kind = STEP_BEHIND, .set = word, .negated = outside, .at_edge = outside}));
    ET_TRY(add_step(
        p,
        (eti_step){
            .kind = STEP_AHEAD, .set = word, .negated = ahead_outside, .at_edge = ahead_outside}));
    if (i == 0) ET_TRY(add_step(p, (eti_step){.kind = STEP_JUMP, .x = (uint16_t)(first + 6)}));
  }
  return ET_OK;
}

static et_status atom(eti_pattern_parser *p) {
  if (eti_pattern_skip(p, "(")) return group(p);
  if (eti_pattern_skip(p, "^")) return anchor(p, STEP_BEHIND, p->lines);
  if (eti_pattern_skip(p, "$")) return anchor(p, STEP_AHEAD, p->lines);
  if (eti_pattern_skip(p, "\\A")) return anchor(p, STEP_BEHIND, false);
  if (eti_pattern_skip(p, "\\z")) return anchor(p, STEP_AHEAD, false);
  if (eti_pattern_skip(p, "\\b")) return word_border(p, true);
  if (eti_pattern_skip(p, "\\B")) return word_border(p, false);
  const uint8_t next = p->text.bytes[p->at];
  ET_CHECK(next != '*' && next != '+' && next != '?', p->err, ET_INVALID_ARGUMENT,
           "pattern: expected something to repeat at byte %zu, got '%c'", p->at, next);
  return set_atom(p);
}

// ---- quantifiers

#define UNBOUNDED UINT32_MAX

typedef struct quantifier {
  uint32_t least, most;
  bool lazy, possessive;
} quantifier;

// A number of at most four digits; false if there is none.
static bool number(eti_pattern_parser *p, uint32_t *value) {
  const size_t first = p->at;
  *value = 0;
  while (p->at < p->text.n && p->at - first < 4 && (uint32_t)(p->text.bytes[p->at] - '0') <= 9)
    *value = *value * 10 + (p->text.bytes[p->at++] - (uint32_t)'0');
  return p->at > first;
}

// {m}, {m,}, {,n} or {m,n}; any other text is a literal brace.
static bool counted(eti_pattern_parser *p, quantifier *q) {
  const size_t first = p->at;
  if (!eti_pattern_skip(p, "{")) return false;
  const bool has_least = number(p, &q->least);
  q->most = q->least;
  bool has_most = has_least;
  if (eti_pattern_skip(p, ",")) {
    has_most = number(p, &q->most);
    if (!has_most) q->most = UNBOUNDED;
  }
  if ((has_least || has_most) && eti_pattern_skip(p, "}")) return true;
  p->at = first;
  return false;
}

static bool read_quantifier(eti_pattern_parser *p, quantifier *q) {
  *q = (quantifier){0, UNBOUNDED, false, false};
  if (eti_pattern_skip(p, "+"))
    q->least = 1;
  else if (eti_pattern_skip(p, "?"))
    q->most = 1;
  else if (!eti_pattern_skip(p, "*") && !counted(p, q))
    return false;
  q->lazy = eti_pattern_skip(p, "?");
  q->possessive = !q->lazy && eti_pattern_skip(p, "+");
  return true;
}

// A split whose first way goes on with the next step; `other` is set later.
static et_status add_split(eti_pattern_parser *p) {
  return add_step(p, (eti_step){.kind = STEP_SPLIT, .x = (uint16_t)(p->program->n_steps + 1)});
}

static void end_splits(eti_pattern_parser *p, size_t first, size_t last, size_t at, bool lazy) {
  // `first` and `last` are splits; those between them whose way out is not set are theirs.
  for (size_t i = first; i <= last; i++) {
    eti_step *const step = &p->program->steps[i];
    if (step->kind != STEP_SPLIT || step->y != 0) continue;
    step->y = (uint16_t)at;
    if (!lazy) continue;
    const uint16_t way = step->x;
    step->x = step->y;
    step->y = way;
  }
}

// The copies that may be left out, and the way around them. Splits of an atom are complete when it
// has been read, so that those without a way out are of this quantifier.
static et_status optional_copies(eti_pattern_parser *p, const quantifier *q, size_t from) {
  eti_pattern_program *const program = p->program;
  const size_t first = program->n_steps;
  const bool loops = q->most == UNBOUNDED;
  const uint32_t n = loops ? 1 : q->most - q->least;
  size_t last = first;
  const size_t end = p->at;
  for (uint32_t i = 0; i < n; i++) {
    last = program->n_steps;
    ET_TRY(add_split(p));
    p->at = from;
    ET_TRY(atom(p));
  }
  p->at = end;
  if (n == 0) return ET_OK;
  if (loops) ET_TRY(add_step(p, (eti_step){.kind = STEP_JUMP, .x = (uint16_t)first}));
  size_t out = program->n_steps;
  if (!q->possessive) {
    end_splits(p, first, last, out, q->lazy);
    return ET_OK;
  }
  // Possessive: the way out must not be taken where the set could be read once more.
  const uint8_t set = program->steps[first + 1].set;
  if (!loops) ET_TRY(add_step(p, (eti_step){.kind = STEP_JUMP, .x = (uint16_t)(out + 2)}));
  out = program->n_steps;
  ET_TRY(add_step(p, (eti_step){.kind = STEP_AHEAD, .set = set, .negated = true, .at_edge = true}));
  end_splits(p, first, last, out, false);
  return ET_OK;
}

static et_status quantified(eti_pattern_parser *p) {
  const size_t from = p->at, first = p->program->n_steps;
  const bool folds = p->folds;
  ET_TRY(atom(p));
  const size_t after = p->at;
  quantifier q;
  if (!read_quantifier(p, &q)) return ET_OK;
  ET_CHECK(q.least <= q.most, p->err, ET_INVALID_ARGUMENT,
           "pattern: expected {m,n} with m <= n at byte %zu, got %u and %u", after, q.least,
           q.most);
  const bool one_set =
      p->program->n_steps == first + 1 && p->program->steps[first].kind == STEP_SET;
  ET_CHECK(one_set || !q.possessive, p->err, ET_NOT_SUPPORTED,
           "pattern: expected a possessive quantifier behind one code point, got one behind a "
           "group at byte %zu",
           after);
  const size_t end = p->at;
  p->program->n_steps = first;
  for (uint32_t i = 0; i < q.least; i++) {
    p->at = from;
    p->folds = folds;
    ET_TRY(atom(p));
  }
  p->at = end;
  return optional_copies(p, &q, from);
}

// ---- sequences and alternatives

static bool at_end_of_sequence(const eti_pattern_parser *p) {
  return p->at == p->text.n || p->text.bytes[p->at] == '|' || p->text.bytes[p->at] == ')';
}

// Each alternative begins with a step that is a split to the next one, or a jump to its own first
// step if it is the last. The jumps from their ends are linked by x until the end is known.
static et_status alternatives(eti_pattern_parser *p) {
  eti_pattern_program *const program = p->program;
  uint16_t link = 0;
  for (;;) {
    const uint16_t first = (uint16_t)program->n_steps;
    ET_TRY(add_step(p, (eti_step){.kind = STEP_JUMP, .x = (uint16_t)(first + 1)}));
    while (!at_end_of_sequence(p)) ET_TRY(quantified(p));
    if (!eti_pattern_skip(p, "|")) break;
    const uint16_t jump = (uint16_t)program->n_steps;
    ET_TRY(add_step(p, (eti_step){.kind = STEP_JUMP, .x = link}));
    program->steps[first] =
        (eti_step){.kind = STEP_SPLIT, .x = (uint16_t)(first + 1), .y = (uint16_t)(jump + 1)};
    link = jump;
  }
  while (link != 0) {
    const uint16_t before = program->steps[link].x;
    program->steps[link].x = (uint16_t)program->n_steps;
    link = before;
  }
  return ET_OK;
}

et_status eti_pattern_parse(eti_string text, bool lines, eti_pattern_program *program,
                            et_error *err) {
  const size_t valid = eti_utf8_valid_bytes(text);
  ET_CHECK(valid == text.n, err, ET_INVALID_ARGUMENT, "pattern: expected UTF-8, got byte %d at %zu",
           text.bytes[valid], valid);
  program->n_items = program->n_sets = program->n_steps = 0;
  eti_pattern_parser parser = {.text = text, .lines = lines, .program = program, .err = err};
  ET_TRY(alternatives(&parser));
  ET_CHECK(parser.at == text.n, err, ET_INVALID_ARGUMENT,
           "pattern: expected '(' before byte %zu, got ')' alone", parser.at);
  return add_step(&parser, (eti_step){.kind = STEP_MATCH});
}
