// version_info.h — which XNNPACK is linked and what it finds on this machine, for people to read.
#ifndef ET_XNNPACK_ABOUT_H
#define ET_XNNPACK_ABOUT_H

#include <stddef.h>

// "0.0~git20241108.4ea82e5": the release that was built; "of unknown version" for a prefix that
// does not say.
const char *eti_xnn_version(void);

// Names of the instruction sets that this machine has and XNNPACK has kernels for, the last ones
// preferred. Writes at most n of them and returns how many there are; 0 when XNNPACK's library for
// asking the machine came without its header, or cannot be used here.
size_t eti_xnn_instruction_sets(const char **names, size_t n);

// Names of the functions in XNNPACK's tables that ours (gemm_kernels.h) have taken the place of;
// as above. It is gemm_override.c that knows.
size_t eti_xnn_own_kernels(const char **names, size_t n);

#endif  // ET_XNNPACK_ABOUT_H
