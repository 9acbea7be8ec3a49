// weights_cache.h — packed weights behind XNNPACK's cache interface: a store that may be shared,
// and one session per delegate, which knows the names of its weights and holds what it uses.
// XNNPACK asks by the addresses of a filter and its bias and by a seed, which stands for the
// micro-kernel's layout and is no proof of it; so a hit needs the name, which spells out everything
// that packing depends on, and a pair of addresses that bears two names is not looked up at all.
// Relies on alloc_region.h; knows nothing of graphs and methods.
#ifndef ET_XNNPACK_WEIGHTS_H
#define ET_XNNPACK_WEIGHTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

#include "backends/xnnpack/et_xnnpack.h"
#include "backends/xnnpack/weights/weights_arena.h"

// Packed weights. Named ones are in a store's table, others belong to one session.
typedef struct eti_xnn_packed {
  struct eti_xnn_packed *next;  // in the table's row, or of those waiting in a session
  const uint8_t *name;
  size_t name_bytes;  // 0: unnamed
  uint32_t seed;
  uint64_t hash;   // of name and seed
  size_t n_users;  // sessions
  void *data;
  size_t bytes;
  eti_xnn_slab *slab;            // that data lies in; NULL: in none
  bool is_mapped;                // data and name lie in the store's file
  bool is_verified, is_damaged;  // mapped: its checksum was right, was wrong, or is not known yet
  uint64_t checksum;
} eti_xnn_packed;

enum { ETI_XNN_STORE_ROWS = 1024 };

struct et_xnnpack_weights {
  pthread_mutex_t lock;
  eti_xnn_packed *rows[ETI_XNN_STORE_ROWS];
  et_file_map file;
  eti_xnn_packed *mapped;  // of the file
  size_t n_mapped;
  size_t n_packed, n_shared, n_damaged;
};

// Where the file's packed weights go.
void eti_xnn_store_add(et_xnnpack_weights *store, eti_xnn_packed *packed);  // the lock is held

// What a filter and its bias are, by their addresses in one graph.
typedef struct eti_xnn_name {
  const void *kernel, *bias;
  uint8_t *bytes;  // NULL: the pair has two names
  size_t n_bytes;
} eti_xnn_name;

typedef struct eti_xnn_session {
  struct xnn_weights_cache_provider provider;  // for xnn_create_runtime; lives as long as runtimes
  et_xnnpack_weights *store;                   // or NULL
  // Told of the addresses of what was packed; NULL: nobody wants to know. Must not claim memory.
  void (*on_packed)(void *ctx, const void *kernel, const void *bias);
  void *on_packed_ctx;
  eti_xnn_name *names;
  size_t n_names, most_names;
  size_t longest_name;
  eti_xnn_packed **uses;  // one user of each is this session
  size_t n_uses, most_uses;
  size_t found;             // by the last look_up: an index of uses, or SIZE_MAX
  eti_xnn_slabs slabs;      // what it packs lies there
  eti_xnn_packed *waiting;  // reserved, not yet packed
  bool is_damaged;          // it uses weights that turned out to be damaged: its runtimes must not
                            // run. The store has dropped them, so a new session gets others
} eti_xnn_session;

void eti_xnn_session_init(eti_xnn_session *session, et_xnnpack_weights *store);
// Names a filter and its bias (NULL allowed), which lie at these addresses until
// eti_xnn_session_forget. Without memory they just stay unnamed. Matches eti_xnn_graph_config.
void eti_xnn_session_name(void *session, const void *kernel, const void *bias, const void *name,
                          size_t name_bytes);
// The names and what was reserved in vain go, and it packs no more; what is used stays.
void eti_xnn_session_forget(eti_xnn_session *session);
void eti_xnn_session_deinit(eti_xnn_session *session);  // when no runtime uses it any more

#endif  // ET_XNNPACK_WEIGHTS_H
