// weights_cache.h — a cache of packed weights with XNNPACK's weights cache interface: a store that
// may be shared, and one provider per engine. A provider knows the keys of its weights and holds
// those it uses. XNNPACK looks weights up by the addresses of a filter and its bias and by a seed
// of the micro-kernel's layout, which may collide. So a hit needs the key, which contains
// everything that packing depends on. A pair of addresses with two keys is never looked up. Relies
// on alloc_region.h; knows nothing of graphs and methods.
//
// A key names constants as the file does, and a file may lie. So weights are used without packing
// only by providers of the domain that packed them, or if they are proven: the names are SHA-256
// hashes of the bytes. Another domain packs its own and then shares those with equal bytes.
#ifndef ET_XNNPACK_WEIGHTS_CACHE_H
#define ET_XNNPACK_WEIGHTS_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

#include "backends/xnnpack/et_xnnpack.h"
#include "backends/xnnpack/weights/weights_arena.h"

// Packed weights. Those with a key are in a store's table, others belong to one provider.
typedef struct eti_xnn_packed_weights {
  struct eti_xnn_packed_weights *next;  // in the table's row, or in a provider's list
  const uint8_t *key;
  size_t key_bytes;  // 0: none
  uint32_t seed;
  uint64_t hash;   // of key and seed
  size_t n_users;  // providers
  const void
      *domain;  // its providers know that these weights were packed from the bytes of the key
  size_t n_domain_users;  // of n_users those that keep `domain`, which is NULL without any
  bool is_proven;         // the names of the key are hashes of the bytes: good for every domain
  void *data;
  size_t bytes;
  eti_xnn_weights_chunk *chunk;  // that contains data; NULL: none does
  bool is_mapped;                // data and key lie in the store's file
  bool is_verified, is_damaged;  // of mapped weights: the checksum was right or wrong; both false:
                                 // not checked yet
  uint64_t checksum;
} eti_xnn_packed_weights;

enum { ETI_XNN_STORE_ROWS = 1024 };

struct et_xnnpack_weights {
  pthread_mutex_t lock;
  eti_xnn_packed_weights *rows[ETI_XNN_STORE_ROWS];
  et_file_map file;
  eti_xnn_packed_weights *mapped;  // of the file
  size_t n_mapped;
  bool proves;  // finds out whether weights are proven, as only these may be saved
  size_t n_packed, n_shared, n_repacked, n_damaged, n_unproven;
};

// Adds packed weights of the file to the table.
void eti_xnn_weights_store_add(et_xnnpack_weights *store,
                               eti_xnn_packed_weights *packed);  // the lock is held

enum { ETI_XNN_MAX_NAMES = 4 };

// The key of a filter and its bias, by their addresses in one graph.
typedef struct eti_xnn_weights_key {
  const void *kernel, *bias;
  uint8_t *bytes;  // NULL: the pair has two keys
  size_t n_bytes;
  const char *names[ETI_XNN_MAX_NAMES];  // of the data that is packed: filter, bias, their scales
  size_t n_names;
  eti_xnn_packed_weights *packed;  // under this key by this provider; NULL: none
} eti_xnn_weights_key;

typedef struct eti_xnn_weights_provider {
  struct xnn_weights_cache_provider interface;  // for xnn_create_runtime; outlives the runtime
  et_xnnpack_weights *store;                    // or NULL
  const void *domain;  // providers of one domain have the same bytes under the same name
  // Called with the addresses of weights that were packed. NULL: no calls. Must not allocate.
  void (*on_packed)(void *ctx, const void *kernel, const void *bias);
  void *on_packed_ctx;
  eti_xnn_weights_key *keys;
  size_t n_keys, max_keys;
  size_t longest_key;
  eti_xnn_packed_weights **used;  // this provider is one of the users of each
  size_t n_used, max_used;
  size_t found;                      // by the last look_up: an index of `used`, or SIZE_MAX
  eti_xnn_weights_arena arena;       // of weights that it packs
  eti_xnn_packed_weights *reserved;  // memory that was reserved and is not packed yet
  bool is_damaged;  // it uses weights that are damaged, so its runtime must not run. The store has
                    // removed them, so a new provider gets others
} eti_xnn_weights_provider;

void eti_xnn_weights_provider_init(eti_xnn_weights_provider *provider, et_xnnpack_weights *store,
                                   const void *domain);
// Gives a key to a filter and its bias (NULL allowed), which lie at these addresses until
// eti_xnn_weights_provider_seal, as do its names. Without memory they get none. Is an
// on_weights_key of eti_xnn_graph_config.
void eti_xnn_weights_provider_add_key(void *provider, const void *kernel, const void *bias,
                                      const void *key, size_t key_bytes, const char *const *names,
                                      size_t n_names);
// Compares the names of weights that were packed with the hashes of their bytes, if the store wants
// proof. Call it before seal.
void eti_xnn_weights_provider_prove(eti_xnn_weights_provider *provider, const et_named_data *data);
// Ends packing: frees the keys and reserved memory that was not used. Weights that are used stay.
void eti_xnn_weights_provider_seal(eti_xnn_weights_provider *provider);
void eti_xnn_weights_provider_deinit(
    eti_xnn_weights_provider *provider);  // after the runtime was deleted

#endif  // ET_XNNPACK_WEIGHTS_CACHE_H
