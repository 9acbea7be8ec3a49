// version_info.h — the linked XNNPACK, its release, and the kernels that run on this machine, as
// texts for people to read.
#ifndef ET_XNNPACK_VERSION_INFO_H
#define ET_XNNPACK_VERSION_INFO_H

#include <stddef.h>

// "0.0~git20241108.4ea82e5": the release that was built; "of unknown version" for a prefix that
// does not say.
const char *eti_xnn_version(void);

// Names of the instruction sets that this machine has and XNNPACK has kernels for, the last ones
// preferred. Writes at most n of them and returns how many there are; 0 when cpuinfo came without
// its header or does not support this machine.
size_t eti_xnn_instruction_sets(const char **names, size_t n);

// Names of the functions of XNNPACK that kernels of this project (tuned.h) replace on this machine;
// as above.
size_t eti_xnn_own_kernels(const char **names, size_t n);

#endif  // ET_XNNPACK_VERSION_INFO_H
