// config.h — compile-time limits and switches of the runtime. Override with -D on the compiler's
// command line.
#ifndef ET_CONFIG_H
#define ET_CONFIG_H

// Messages: 1 gives errors a text. 0 leaves the status code alone, for the smallest builds.
#ifndef ET_MESSAGES
#define ET_MESSAGES 1
#endif

// Largest number of instructions in one run; more count as an infinite loop (upstream's figure).
#ifndef ET_MAX_EXECUTED_INSTRUCTIONS
#define ET_MAX_EXECUTED_INSTRUCTIONS 10000000u
#endif

// Bytes of stack for the temporary arguments of one kernel's prepare step. An instruction whose
// arguments need more is run without being prepared.
#ifndef ET_PREPARE_ROOM_BYTES
#define ET_PREPARE_ROOM_BYTES 4096u
#endif

// Largest number of chains (the format's lists of instructions) in a plan; files have one. Finding
// an instruction walks them, so a file with very many chains would be slow to read.
#ifndef ET_MAX_CHAINS
#define ET_MAX_CHAINS 64u
#endif

// Largest number of threads of a pool, the caller included. Further CPUs stay idle.
#ifndef ET_MAX_THREADS
#define ET_MAX_THREADS 1024u
#endif

// Largest number of steps for reading one plan, beyond one for each of its parts. Steps count
// entries of lists and arguments, which small files can share among many instructions, and look-ups
// of one part in another. Real plans stay far below it.
#ifndef ET_MAX_PLAN_WORK
#define ET_MAX_PLAN_WORK 0x2000000u
#endif

#endif  // ET_CONFIG_H
