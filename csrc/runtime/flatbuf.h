// flatbuf.h — reading flatbuffers: a verifier of the structure, and readers that trust it. A
// table's address is a pointer to its first byte; an absent field reads as 0, NULL or an empty
// vector, and so does every field of a NULL table. Knows the encoding, not the meaning of tables.
// tables mean.
#ifndef ET_FLATBUF_H
#define ET_FLATBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- Schema: one byte per slot, ETI_FB_SLOTS slots per table; a table's number is its row.
#define ETI_FB_SLOTS 10
#define ETI_FB_SCALAR(bytes) (1u << 5 | (bytes))
#define ETI_FB_STRING (2u << 5)
#define ETI_FB_VECTOR(bytes) (3u << 5 | (bytes))  // of scalars
#define ETI_FB_TABLE(type) (4u << 5 | (type))
#define ETI_FB_TABLES(type) (5u << 5 | (type))  // vector of tables
// Type code 1 is table `first`, the others follow it.
#define ETI_FB_UNION(first) (6u << 5 | (first))
// The slot after a union's: the number of its members.
#define ETI_FB_MEMBERS(count) (7u << 5 | (count))
// 0 marks a slot that nobody reads; it is not verified.

typedef uint8_t eti_fb_schema[ETI_FB_SLOTS];

// Verifies that every table, vector and string reachable through the schema from the root is inside
// base[0, size), is aligned to its size (counted from base), and that strings end in NUL. False:
// *where is the offset of the damage.
bool eti_fb_verify(const uint8_t *base, size_t size, const eti_fb_schema *schema, size_t *where);

// ---- Reading
typedef struct eti_vector {
  const uint8_t *data;
  size_t n;
} eti_vector;

// The address of the slot's value; NULL when absent.
const uint8_t *eti_fb_field(const uint8_t *table, unsigned slot);
uint8_t eti_fb_u8(const uint8_t *table, unsigned slot);
uint32_t eti_fb_u32(const uint8_t *table, unsigned slot);
uint64_t eti_fb_u64(const uint8_t *table, unsigned slot);
const uint8_t *eti_fb_table(const uint8_t *table, unsigned slot);
eti_vector eti_fb_vector(const uint8_t *table, unsigned slot);   // data is NULL only when absent
const char *eti_fb_string(const uint8_t *table, unsigned slot);  // NULL when absent
const uint8_t *eti_fb_at(eti_vector tables, size_t i);  // element of a vector of tables; i < n
const uint8_t *eti_fb_root(const uint8_t *base);

#endif  // ET_FLATBUF_H
