// weights_cache_file.c — packed weights in a file, which a later process maps and uses in place.
// The file belongs to one machine and one build of XNNPACK, so numbers are in the machine's byte
// order.
//
//   header | identity, padded to 8 | index | padding | weights, each aligned to 64 | 64 zeros
//
// The index has a record and a key, padded to 8, for each weights. Header, identity and index have
// one checksum, which is verified when the file is opened. Weights have one each, which is verified
// at their first use (weights_cache.c), so that a program reads only the weights it needs.
#define _GNU_SOURCE  // declares clock_gettime, fsync and mkstemp
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>  // rename
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/weights/checksum.h"
#include "backends/xnnpack/weights/weights_cache.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

enum { ALIGN = 64, VERSION = 2 };

static const char magic[8] = {'E', 'T', 'X', 'N', 'N', 'W', 'T', 'S'};

typedef struct file_header {
  char magic[8];
  uint32_t version, identity_bytes;
  uint64_t n_records, index_bytes;
  uint64_t data_offset, file_bytes;
  uint64_t checksum;  // of identity and index, then of this header with a checksum of 0
} file_header;

typedef struct file_record {
  uint64_t offset, bytes, checksum;
  uint32_t seed, key_bytes;
} file_record;

static size_t padded(size_t bytes, size_t align) {
  return (bytes + align - 1) & ~(align - 1);
}

static uint64_t checksum_of(file_header header, const uint8_t *behind, size_t bytes) {
  header.checksum = eti_xnn_checksum(behind, bytes);
  return eti_xnn_checksum(&header, sizeof header);
}

// ---- Reading

// The reason why a file cannot be used; NULL: it can.
static const char *problem_of(const et_file_map *file, file_header *header) {
  char identity[ET_XNNPACK_IDENTITY_BYTES];
  if (file->size < sizeof *header) return "it is too short";
  memcpy(header, file->data, sizeof *header);
  if (memcmp(header->magic, magic, sizeof magic) != 0) return "it is not a file of packed weights";
  if (header->version != VERSION) return "it has another version";
  if (header->file_bytes != file->size) return "it is truncated";
  const uint8_t *const behind = (const uint8_t *)file->data + sizeof *header;
  const size_t most = file->size - sizeof *header;
  size_t bytes;
  if (header->index_bytes > most || header->identity_bytes > most ||
      !eti_add(padded(header->identity_bytes, 8), (size_t)header->index_bytes, &bytes) ||
      bytes > most || header->data_offset > file->size ||
      checksum_of(*header, behind, bytes) != header->checksum) {
    return "it is damaged";
  }
  et_xnnpack_identity(identity);
  if (strlen(identity) != header->identity_bytes ||
      memcmp(behind, identity, header->identity_bytes) != 0) {
    return "it was written by another XNNPACK or for another CPU";
  }
  return NULL;
}

// Reads the records of the index; false: they do not fit the file.
static bool read_records(et_xnnpack_weights *store, const file_header *header) {
  const uint8_t *const file = store->file.data;
  const uint8_t *at = file + sizeof *header + padded(header->identity_bytes, 8);
  size_t left = (size_t)header->index_bytes;
  for (size_t i = 0; i < store->n_mapped; i++) {
    file_record record;
    if (left < sizeof record) return false;
    memcpy(&record, at, sizeof record);
    at += sizeof record;
    left -= sizeof record;
    const size_t key_bytes = padded(record.key_bytes, 8);
    if (key_bytes > left || record.key_bytes == 0 || record.offset % ALIGN != 0 ||
        !eti_inside(record.offset, record.bytes, header->file_bytes)) {
      return false;
    }
    store->mapped[i] = (eti_xnn_packed_weights){.key = at,
                                                .key_bytes = record.key_bytes,
                                                .seed = record.seed,
                                                .data = (void *)(uintptr_t)(file + record.offset),
                                                .bytes = (size_t)record.bytes,
                                                .is_mapped = true,
                                                .is_proven = true,
                                                .checksum = record.checksum};
    at += key_bytes;
    left -= key_bytes;
  }
  return true;
}

static const char *read_file(et_xnnpack_weights *store) {
  file_header header;
  const char *const problem = problem_of(&store->file, &header);
  if (problem != NULL) return problem;
  if (header.n_records > header.index_bytes / sizeof(file_record)) return "it is damaged";
  store->n_mapped = (size_t)header.n_records;
  store->mapped = eti_xnn_alloc(store->n_mapped * sizeof *store->mapped);
  if (store->mapped == NULL) return "out of memory for its index";
  if (!read_records(store, &header)) return "it is damaged";
  for (size_t i = 0; i < store->n_mapped; i++) eti_xnn_weights_store_add(store, &store->mapped[i]);
  return NULL;
}

static void close_file(et_xnnpack_weights *store) {
  et_file_map_close(&store->file);
  eti_xnn_free(store->mapped);
  store->mapped = NULL;
  store->n_mapped = 0;
}

et_status et_xnnpack_weights_open(et_xnnpack_weights **out, const char *path, et_error *note) {
  et_xnnpack_weights *const store = eti_xnn_alloc(sizeof *store);
  ET_CHECK(store != NULL, note, ET_OUT_OF_MEMORY, "out of memory for a store of packed weights");
  memset(store, 0, sizeof *store);
  if (pthread_mutex_init(&store->lock, NULL) != 0) {
    eti_xnn_free(store);
    return ET_FAIL(note, ET_OUT_OF_RESOURCES, "cannot make a lock for a store of packed weights");
  }
  store->proves = path != NULL;
  *out = store;
  if (note != NULL) note->message[0] = '\0';
  if (path == NULL || access(path, F_OK) != 0) return ET_OK;
  const char *problem = "";
  if (et_file_map_open(&store->file, path, note) == ET_OK) problem = read_file(store);
  if (problem == NULL) return ET_OK;
  if (*problem != '\0') {
    ET_APPEND(note, "packed weights '%s' are not used and will be packed anew: %s", path, problem);
  }
  if (note != NULL) note->status = ET_OK;
  close_file(store);
  return ET_OK;
}

void et_xnnpack_weights_close(et_xnnpack_weights *store) {
  if (store == NULL) return;
  close_file(store);
  (void)pthread_mutex_destroy(&store->lock);
  eti_xnn_free(store);
}

// ---- Writing

typedef struct file_writer {
  int file;
  uint64_t at;
  bool failed;
} file_writer;

static void write_bytes(file_writer *w, const void *data, size_t bytes) {
  const uint8_t *from = data;
  w->at += bytes;
  while (bytes > 0 && !w->failed) {
    const ssize_t n = write(w->file, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    w->failed = n <= 0;
    from += n > 0 ? n : 0;
    bytes -= n > 0 ? (size_t)n : 0;
  }
}

static void write_padding(file_writer *w, size_t align) {
  static const uint8_t zeros[ALIGN];
  write_bytes(w, zeros, (size_t)(-w->at & (align - 1)));
}

// The next weights of a store in the order of its rows; the first after NULL.
static eti_xnn_packed_weights *next_packed(et_xnnpack_weights *store,
                                           const eti_xnn_packed_weights *packed) {
  if (packed != NULL && packed->next != NULL) return packed->next;
  size_t row = packed == NULL ? 0 : packed->hash % ETI_XNN_STORE_ROWS + 1;
  while (row < ETI_XNN_STORE_ROWS && store->rows[row] == NULL) row++;
  return row < ETI_XNN_STORE_ROWS ? store->rows[row] : NULL;
}

// The next weights that a file may keep. Unproven ones would reach programs with other bytes.
static eti_xnn_packed_weights *next_proven(et_xnnpack_weights *store,
                                           const eti_xnn_packed_weights *packed) {
  eti_xnn_packed_weights *next = next_packed(store, packed);
  while (next != NULL && !next->is_proven) next = next_packed(store, next);
  return next;
}

// Allocates and fills the identity and the index of a store; fills the header.
static uint8_t *make_index(et_xnnpack_weights *store, file_header *header) {
  char identity[ET_XNNPACK_IDENTITY_BYTES];
  et_xnnpack_identity(identity);
  *header = (file_header){.version = VERSION, .identity_bytes = (uint32_t)strlen(identity)};
  memcpy(header->magic, magic, sizeof magic);
  for (eti_xnn_packed_weights *p = next_proven(store, NULL); p != NULL; p = next_proven(store, p)) {
    header->n_records++;
    header->index_bytes += sizeof(file_record) + padded(p->key_bytes, 8);
  }
  const size_t begin = padded(header->identity_bytes, 8);
  uint8_t *const index = eti_xnn_alloc(begin + (size_t)header->index_bytes);
  if (index == NULL) return NULL;
  memset(index, 0, begin + (size_t)header->index_bytes);
  memcpy(index, identity, header->identity_bytes);
  header->data_offset = padded(sizeof *header + begin + (size_t)header->index_bytes, ALIGN);
  uint8_t *at = index + begin;
  uint64_t offset = header->data_offset;
  for (eti_xnn_packed_weights *p = next_proven(store, NULL); p != NULL; p = next_proven(store, p)) {
    if (!p->is_mapped) p->checksum = eti_xnn_checksum(p->data, p->bytes);
    const file_record record = {.offset = offset,
                                .bytes = p->bytes,
                                .checksum = p->checksum,
                                .seed = p->seed,
                                .key_bytes = (uint32_t)p->key_bytes};
    memcpy(at, &record, sizeof record);
    memcpy(at + sizeof record, p->key, p->key_bytes);
    at += sizeof record + padded(p->key_bytes, 8);
    offset += padded(p->bytes, ALIGN);
  }
  header->file_bytes = offset + ALIGN;
  header->checksum = checksum_of(*header, index, begin + (size_t)header->index_bytes);
  return index;
}

static bool write_all(et_xnnpack_weights *store, int file) {
  file_header header;
  uint8_t *const index = make_index(store, &header);
  if (index == NULL) {
    errno = ENOMEM;
    return false;
  }
  file_writer w = {.file = file};
  write_bytes(&w, &header, sizeof header);
  write_bytes(&w, index, padded(header.identity_bytes, 8) + (size_t)header.index_bytes);
  eti_xnn_free(index);
  write_padding(&w, ALIGN);
  for (eti_xnn_packed_weights *p = next_proven(store, NULL); p != NULL; p = next_proven(store, p)) {
    write_bytes(&w, p->data, p->bytes);
    write_padding(&w, ALIGN);
  }
  static const uint8_t zeros[ALIGN];
  write_bytes(&w, zeros, ALIGN);
  return !w.failed;
}

static bool has_unsaved(et_xnnpack_weights *store) {
  for (eti_xnn_packed_weights *p = next_proven(store, NULL); p != NULL; p = next_proven(store, p)) {
    if (!p->is_mapped) return true;
  }
  return false;
}

// Writes a temporary file beside `path` and renames it: readers of `path` see the old file or the
// new one.
static bool replace_file(et_xnnpack_weights *store, const char *path) {
  static const char suffix[] = ".XXXXXX";
  const size_t n = strlen(path);
  char *const temporary = eti_xnn_alloc(n + sizeof suffix);
  if (temporary == NULL) return false;
  memcpy(temporary, path, n);
  memcpy(temporary + n, suffix, sizeof suffix);
  const int file = mkstemp(temporary);
  bool is_done = file >= 0 && fchmod(file, 0644) == 0 && write_all(store, file);
  is_done = is_done && fsync(file) == 0;  // before the name leads to it
  if (file >= 0) is_done = close(file) == 0 && is_done;
  is_done = is_done && rename(temporary, path) == 0;
  const int problem = errno;
  if (!is_done && file >= 0) (void)unlink(temporary);
  eti_xnn_free(temporary);
  errno = problem;
  return is_done;
}

et_status et_xnnpack_weights_save(et_xnnpack_weights *store, const char *path, et_error *err) {
  ET_CHECK(store->proves, err, ET_INVALID_STATE,
           "packed weights for '%s': expected a store that was opened with a path, got one without",
           path);
  (void)pthread_mutex_lock(&store->lock);
  errno = ENOMEM;
  const bool is_saved = !has_unsaved(store) || replace_file(store, path);
  (void)pthread_mutex_unlock(&store->lock);
  ET_CHECK(is_saved, err, ET_ACCESS_FAILED, "cannot write packed weights '%s': %s", path,
           strerror(errno));
  return ET_OK;
}

void et_xnnpack_weights_facts(et_xnnpack_weights *store, et_xnnpack_facts *facts) {
  (void)pthread_mutex_lock(&store->lock);
  *facts = (et_xnnpack_facts){.n_packed = store->n_packed,
                              .n_shared = store->n_shared,
                              .n_damaged = store->n_damaged,
                              .n_unproven = store->n_unproven,
                              .n_repacked = store->n_repacked};
  for (eti_xnn_packed_weights *p = next_packed(store, NULL); p != NULL; p = next_packed(store, p)) {
    facts->n_weights++;
    facts->bytes += p->bytes;
    facts->n_mapped += p->is_mapped;
    facts->mapped_bytes += p->is_mapped ? p->bytes : 0;
  }
  (void)pthread_mutex_unlock(&store->lock);
}
