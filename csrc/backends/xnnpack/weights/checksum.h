// checksum.h — a 64-bit checksum that is as fast as reading memory. It detects damage, not malice.
// Part of the format of the file of packed weights: another function needs another version.
#ifndef ET_XNNPACK_CHECKSUM_H
#define ET_XNNPACK_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t eti_xnn_checksum(const void *data, size_t bytes);

#endif  // ET_XNNPACK_CHECKSUM_H
