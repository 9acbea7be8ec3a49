// quant_avx512.c — the loops of quant.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/quantized/quant.h"

#include "kernels/contract.h"
#include "kernels/micro/quantized/quant_tokens_512.h"
#include "runtime/et.h"

#define QUANTIZE_TOKEN_GROUPS quantize_token_groups

#define T uint8_t
#define SUFFIX u8__avx512
#include "kernels/micro/quantized/quant.body.h"
#define T int8_t
#define SUFFIX i8__avx512
#include "kernels/micro/quantized/quant.body.h"
#define T int16_t
#define SUFFIX i16__avx512
#include "kernels/micro/quantized/quant.body.h"
#define T uint16_t
#define SUFFIX u16__avx512
#include "kernels/micro/quantized/quant.body.h"

const eti_quant_micro eti_quant_avx512[ETI_QUANT_TYPES] = {
    ETI_QUANT_ROW(ET_U8, u8__avx512),
    ETI_QUANT_ROW(ET_I8, i8__avx512),
    ETI_QUANT_ROW(ET_I16, i16__avx512),
    ETI_QUANT_ROW(ET_U16, u16__avx512),
};
