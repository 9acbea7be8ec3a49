// unit_queues.h — units of work that the slots of an operator share, one slot for each thread. A
// slot takes the units of its own queue first, a part of the range: they follow one another in
// memory, and slots of the operator before have often written what they read. Then it takes those
// of others, so that a slower core gets fewer.
#ifndef ET_UNIT_QUEUES_H
#define ET_UNIT_QUEUES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { ETI_UNIT_QUEUES = 16 };  // at most: further slots share them

typedef struct eti_unit_queues {
  size_t n_units, n_queues;
  atomic_size_t taken[ETI_UNIT_QUEUES];  // units of each queue that slots have begun
} eti_unit_queues;

static inline void eti_unit_queues_fill(eti_unit_queues *q, size_t n_units, size_t n_slots) {
  q->n_units = n_units;
  q->n_queues = n_slots < ETI_UNIT_QUEUES ? n_slots : ETI_UNIT_QUEUES;
  for (size_t i = 0; i < q->n_queues; i++) atomic_init(&q->taken[i], 0);
}

// Takes a unit for a slot. False if all are taken.
static inline bool eti_take_unit(eti_unit_queues *q, size_t slot, size_t *unit) {
  for (size_t i = 0; i < q->n_queues; i++) {
    const size_t queue = (slot + i) % q->n_queues;
    const size_t first = queue * q->n_units / q->n_queues;
    const size_t end = (queue + 1) * q->n_units / q->n_queues;
    *unit = first + atomic_fetch_add_explicit(&q->taken[queue], 1, memory_order_relaxed);
    if (*unit < end) return true;
  }
  return false;
}

#endif  // ET_UNIT_QUEUES_H
