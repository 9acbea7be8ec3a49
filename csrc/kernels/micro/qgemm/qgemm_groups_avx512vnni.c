// qgemm_groups_avx512vnni.c — the products of qgemm_groups.h with VPDPBUSD on 512-bit vectors: a
// panel is one vector. A tile has 6 rows of two panels, whose sums and totals use 24 of the 32
// registers. Needs AVX-512 F, BW, VL, VNNI.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define ISA(name) name##__avx512vnni
#define TV 2
#define MR 6
#define FEW 3

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi codes, vi terms) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(terms));
  return sum;
}
#define VI_DOT(sum, codes, terms) add_products(sum, codes, terms)

// The first 1 ≤ n ≤ 64 bytes, and zeros.
static inline vi load_bytes(const int8_t *p, size_t n) {
  return _mm512_maskz_loadu_epi8(UINT64_MAX >> (64 - n), p);
}

#include "kernels/micro/qgemm/qgemm_groups_dot.body.h"

const eti_qgroups_micro eti_qgroups_avx512vnni = {
    .tile = ISA(tile), .begins = ISA(begins), .rows_of_a_tile = MR};
