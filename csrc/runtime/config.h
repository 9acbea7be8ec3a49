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

#endif  // ET_CONFIG_H
