// pace.c — see pace.h.
#include "llm/generation/pace.h"

#define SHARE 0.03       // of the time of reads without drafts, that drafts may cost
#define FIRST_BALANCE 1  // reads that the first drafts may cost
#define MOST_BALANCE 8   // so that drafts end soon when a text no longer repeats
#define USUAL_TOKEN 0.2  // of a read, that a token of a draft adds, before one was measured
#define LEAST_TOKEN 0.01
enum { FIRST_LENGTH = 4 };

static double mixed(double old, double now, double weight) {
  return old == 0 ? now : old + weight * (now - old);
}

size_t eti_pace_length(const et_llm_pace *pace, size_t most) {
  if (pace->step == 0) return 0;
  const double affordable = pace->balance / pace->draft_token;
  const size_t length = pace->length < most ? pace->length : most;
  return affordable < 1 ? 0 : affordable < (double)length ? (size_t)affordable : length;
}

void eti_pace_step(et_llm_pace *pace, double time) {
  const double most = MOST_BALANCE * pace->step;
  if (pace->step == 0) {
    *pace = (et_llm_pace){time, USUAL_TOKEN * time, FIRST_BALANCE * time, FIRST_LENGTH};
    return;
  }
  // One slow read among others says little about the next one.
  pace->step = mixed(pace->step, time < 2 * pace->step ? time : 2 * pace->step, 0.25);
  pace->balance += SHARE * pace->step;
  if (pace->balance > most) pace->balance = most;
}

void eti_pace_draft(et_llm_pace *pace, size_t n, size_t accepted, double time) {
  const double slowest = 2 * pace->step * (double)(n + 1);
  if (time > slowest) time = slowest;
  const double added = (time - pace->step) / (double)n, least = LEAST_TOKEN * pace->step;
  pace->draft_token = mixed(pace->draft_token, added > least ? added : least, 0.5);
  pace->balance += pace->step * (double)(accepted + 1) - time;
  const double most = MOST_BALANCE * pace->step;
  if (pace->balance > most) pace->balance = most;
  pace->length = accepted == n ? 2 * n : accepted + 1;
}
