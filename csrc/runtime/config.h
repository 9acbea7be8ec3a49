// config.h — compile-time limits and switches of the runtime. Override with -D on the compiler's
// command line.
#ifndef ET_CONFIG_H
#define ET_CONFIG_H

// 1: errors carry words. 0: errors carry the status code alone, which is what the smallest builds
// want.
#ifndef ET_MESSAGES
#define ET_MESSAGES 1
#endif

// Instructions one run may execute before it is taken for an endless loop (upstream's figure).
#ifndef ET_MAX_EXECUTED_INSTRUCTIONS
#define ET_MAX_EXECUTED_INSTRUCTIONS 10000000u
#endif

// Stack bytes for the temporary arguments of one kernel's prepare step. An instruction whose
// arguments need more is run without being prepared.
#ifndef ET_PREPARE_ROOM_BYTES
#define ET_PREPARE_ROOM_BYTES 4096u
#endif

// Most chains of instructions in a plan (files have one). Finding an instruction walks them, so
// that a file with a great many would take forever to read.
#ifndef ET_MAX_CHAINS
#define ET_MAX_CHAINS 64u
#endif

// Most threads of a pool, the caller counted. Machines with more CPUs leave the rest idle.
#ifndef ET_MAX_THREADS
#define ET_MAX_THREADS 1024u
#endif

// Steps that reading one plan may take beyond one for each of its parts: entries of lists and
// arguments, which small files can share among many instructions, and look-ups of one part in
// another. Real plans stay far below it.
#ifndef ET_MAX_PLAN_WORK
#define ET_MAX_PLAN_WORK 0x2000000u
#endif

#endif  // ET_CONFIG_H
