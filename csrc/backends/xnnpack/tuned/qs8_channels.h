// qs8_channels.h — what the kernels of our own for int8 share with those who call them.
#ifndef ET_XNNPACK_QS8_H
#define ET_XNNPACK_QS8_H

#include <stdint.h>

// Channels are taken by 16.
enum { ETI_XNN_QS8_CHANNELS = 16 };

// The results' zero point and bounds, as XNNPACK has them for filters with a scale for each
// channel.
typedef struct eti_xnn_qs8_limits {
  int16_t zero_point, min, max;
} eti_xnn_qs8_limits;

#endif  // ET_XNNPACK_QS8_H
