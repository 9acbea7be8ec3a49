// fuzz.h — the interface between a fuzz entry and the replayer, which replaces a fuzzing engine:
// the entry, a mutator for the format, and counters of how far inputs got.
#ifndef ET_FUZZ_H
#define ET_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

typedef struct fuzz_reach {
  unsigned long inputs, opened, loaded, started, finished;  // methods, except the first two
  unsigned long sum;  // of the outputs' bytes, so that they are read
} fuzz_reach;
extern fuzz_reach reach;

// An undamaged file that accompanies every input: external data for programs, a program for
// external data. Without one it has no bytes.
typedef struct fuzz_companion {
  const uint8_t *bytes;
  size_t size;
} fuzz_companion;
extern fuzz_companion companion;

static inline uint64_t fuzz_random(uint64_t *state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif  // ET_FUZZ_H
