// qs8_channels.h — the channel step and the limits of int8 kernels that compute channel by channel.
#ifndef ET_XNNPACK_QS8_CHANNELS_H
#define ET_XNNPACK_QS8_CHANNELS_H

#include <stdint.h>

// The channels of a step.
enum { ETI_XNN_QS8_CHANNELS = 16 };

// The results' zero point and bounds, in XNNPACK's layout for filters with a scale for each
// channel.
typedef struct eti_xnn_qs8_limits {
  int16_t zero_point, min, max;
} eti_xnn_qs8_limits;

#endif  // ET_XNNPACK_QS8_CHANNELS_H
