// weights_cache.c — see weights_cache.h. XNNPACK stores the result of look_up and look_up_or_insert
// in the operator and passes it to offset_to_addr before every use; here it is an index of the
// provider's used weights. look_up_or_insert must not fail, as XNNPACK does not check it: all
// memory it needs is allocated by reserve_space. Weights of a file are verified when XNNPACK gets
// their address, in a reshape or a setup. A load reads none of them, and no kernel reads weights
// that were not verified.
#include "backends/xnnpack/weights/weights_cache.h"

#include <string.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/weights/checksum.h"
#include "backends/xnnpack/weights/sha256.h"
#include "runtime/check.h"

static uint64_t hash_of(const uint8_t *name, size_t n_bytes, uint32_t seed) {
  const uint64_t hash = eti_xnn_checksum(name, n_bytes) ^ seed * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

// ---- The store

static eti_xnn_packed_weights **row_of(et_xnnpack_weights *store, uint64_t hash) {
  return &store->rows[hash % ETI_XNN_STORE_ROWS];
}

void eti_xnn_weights_store_add(et_xnnpack_weights *store, eti_xnn_packed_weights *packed) {
  ET_ASSERT(packed->key != NULL && packed->key_bytes > 0);
  packed->hash = hash_of(packed->key, packed->key_bytes, packed->seed);
  eti_xnn_packed_weights **const row = row_of(store, packed->hash);
  packed->next = *row;
  *row = packed;
}

static void remove_packed(et_xnnpack_weights *store, const eti_xnn_packed_weights *packed) {
  eti_xnn_packed_weights **at = row_of(store, packed->hash);
  while (*at != packed) {
    ET_ASSERT(*at != NULL);  // it is in the table
    at = &(*at)->next;
  }
  *at = packed->next;
}

static bool has_key(const eti_xnn_packed_weights *packed, uint64_t hash,
                    const eti_xnn_weights_key *name, uint32_t seed) {
  return packed->hash == hash && packed->seed == seed && packed->key_bytes == name->n_bytes &&
         memcmp(packed->key, name->bytes, name->n_bytes) == 0;
}

// Finds weights that a domain may use without packing its own. The lock is held.
static eti_xnn_packed_weights *find_trusted(et_xnnpack_weights *store,
                                            const eti_xnn_weights_key *name, uint32_t seed,
                                            const void *domain) {
  const uint64_t hash = hash_of(name->bytes, name->n_bytes, seed);
  eti_xnn_packed_weights *packed = *row_of(store, hash);
  while (packed != NULL &&
         ((!packed->is_proven && packed->domain != domain) || !has_key(packed, hash, name, seed)))
    packed = packed->next;
  return packed;
}

// Finds weights with the bytes of others that were packed under their key. The lock is held.
static eti_xnn_packed_weights *find_equal(et_xnnpack_weights *store,
                                          const eti_xnn_weights_key *name, uint32_t seed,
                                          const eti_xnn_packed_weights *other) {
  const uint64_t hash = hash_of(name->bytes, name->n_bytes, seed);
  eti_xnn_packed_weights *packed = *row_of(store, hash);
  while (packed != NULL && (packed->bytes != other->bytes || !has_key(packed, hash, name, seed) ||
                            memcmp(packed->data, other->data, other->bytes) != 0))
    packed = packed->next;
  if (packed != NULL) packed->is_verified = true;
  return packed;
}

// Drops weights of the file from the table if others under their key turned out to be proven: they
// are damaged. The lock is held.
static void drop_false(et_xnnpack_weights *store, const eti_xnn_weights_key *name) {
  const eti_xnn_packed_weights *const proven = name->packed;
  eti_xnn_packed_weights *packed = *row_of(store, proven->hash);
  while (packed != NULL) {
    eti_xnn_packed_weights *const next = packed->next;
    if (packed != proven && packed->is_mapped &&
        has_key(packed, proven->hash, name, proven->seed)) {
      packed->is_damaged = true;
      packed->is_verified = false;
      remove_packed(store, packed);
      store->n_damaged++;
    }
    packed = next;
  }
}

// Verifies the checksum of mapped weights, once. Damaged ones are removed from the table, so that
// the next look_up misses and they are packed again; their memory belongs to the file.
static bool is_sound(et_xnnpack_weights *store, eti_xnn_packed_weights *packed) {
  (void)pthread_mutex_lock(&store->lock);
  if (!packed->is_verified && !packed->is_damaged) {
    packed->is_verified = eti_xnn_checksum(packed->data, packed->bytes) == packed->checksum;
    packed->is_damaged = !packed->is_verified;
    if (packed->is_damaged) remove_packed(store, packed);
    store->n_damaged += packed->is_damaged;
  }
  const bool is_verified = packed->is_verified;
  (void)pthread_mutex_unlock(&store->lock);
  return is_verified;
}

static void free_packed(eti_xnn_packed_weights *packed) {
  eti_xnn_weights_block_free((eti_xnn_weights_block){packed->data, packed->chunk});
  eti_xnn_free(packed);
}

// ---- A provider's lists

// Makes room for one more item; false without memory.
static bool reserve_item(void **items, size_t item_bytes, size_t n, size_t *capacity) {
  if (n < *capacity) return true;
  const size_t more = n + n / 2 + 16;
  void *const larger = eti_xnn_alloc(more * item_bytes);
  if (larger == NULL) return false;
  if (n > 0) memcpy(larger, *items, n * item_bytes);
  eti_xnn_free(*items);
  *items = larger;
  *capacity = more;
  return true;
}

static bool reserve_used(eti_xnn_weights_provider *provider) {
  void *used = provider->used;
  const bool has =
      reserve_item(&used, sizeof *provider->used, provider->n_used, &provider->max_used);
  provider->used = used;
  return has;
}

static eti_xnn_weights_key *find_key(const eti_xnn_weights_provider *provider, const void *kernel,
                                     const void *bias) {
  for (size_t i = 0; i < provider->n_keys; i++) {
    eti_xnn_weights_key *const name = &provider->keys[i];
    if (name->kernel == kernel && name->bias == bias) return name;
  }
  return NULL;
}

static eti_xnn_weights_key *find_usable_key(const eti_xnn_weights_provider *provider,
                                            const struct xnn_weights_cache_look_up_key *key) {
  eti_xnn_weights_key *const name =
      provider->store == NULL ? NULL : find_key(provider, key->kernel, key->bias);
  return name == NULL || name->bytes == NULL ? NULL : name;
}

// Adds weights to those used; returns their index. The store's lock is held, and there is room.
static size_t add_used(eti_xnn_weights_provider *provider, eti_xnn_packed_weights *packed) {
  for (size_t i = provider->n_used; i-- > 0;) {
    if (provider->used[i] == packed) return i;
  }
  packed->n_users++;
  if (packed->domain != provider->domain) packed->n_domain_users = 0;
  packed->domain = provider->domain;  // it packed equal bytes, or trusts those that did
  packed->n_domain_users++;
  provider->used[provider->n_used] = packed;
  return provider->n_used++;
}

// ---- XNNPACK's interface

static size_t look_up(void *context, const struct xnn_weights_cache_look_up_key *key) {
  eti_xnn_weights_provider *const provider = context;
  const eti_xnn_weights_key *const name = find_usable_key(provider, key);
  eti_xnn_alloc_region *const region = eti_xnn_alloc_region_pause();
  size_t found = SIZE_MAX;
  if (name != NULL && reserve_used(provider)) {
    (void)pthread_mutex_lock(&provider->store->lock);
    eti_xnn_packed_weights *const packed =
        find_trusted(provider->store, name, key->seed, provider->domain);
    if (packed != NULL) {
      found = add_used(provider, packed);
      provider->store->n_shared++;
    }
    (void)pthread_mutex_unlock(&provider->store->lock);
  }
  provider->found = found;
  eti_xnn_alloc_region_resume(region);
  return found;
}

// Allocates weights and room after the entry for the longest key of the provider.
static eti_xnn_packed_weights *alloc_packed(eti_xnn_weights_provider *provider, size_t bytes) {
  eti_xnn_packed_weights *const packed =
      reserve_used(provider) ? eti_xnn_alloc(sizeof *packed + provider->longest_key) : NULL;
  eti_xnn_weights_block block;
  if (packed == NULL || !eti_xnn_weights_arena_alloc(&provider->arena, bytes, &block)) {
    eti_xnn_free(packed);
    return NULL;
  }
  *packed = (eti_xnn_packed_weights){.data = block.data, .bytes = bytes, .chunk = block.chunk};
  packed->next = provider->reserved;
  provider->reserved = packed;
  return packed;
}

static void *reserve_space(void *context, size_t bytes) {
  eti_xnn_alloc_region *const region = eti_xnn_alloc_region_pause();
  eti_xnn_packed_weights *const packed = alloc_packed(context, bytes);
  eti_xnn_alloc_region_resume(region);
  return packed == NULL ? NULL : packed->data;
}

static eti_xnn_packed_weights *remove_reserved(eti_xnn_weights_provider *provider,
                                               const void *data) {
  eti_xnn_packed_weights **at = &provider->reserved;
  while (*at != NULL && (*at)->data != data) at = &(*at)->next;
  eti_xnn_packed_weights *const packed = *at;
  if (packed != NULL) *at = packed->next;
  return packed;
}

// Adds packed weights to the store under their key; returns those with equal bytes that are there
// already, if any, and frees the new ones. The lock is held.
static eti_xnn_packed_weights *insert_packed(et_xnnpack_weights *store,
                                             const eti_xnn_weights_key *name, uint32_t seed,
                                             eti_xnn_packed_weights *packed) {
  eti_xnn_packed_weights *const existing = find_equal(store, name, seed, packed);
  if (existing != NULL) {
    free_packed(packed);
    store->n_shared++;
    store->n_repacked++;
    return existing;
  }
  uint8_t *const own_key = (uint8_t *)(packed + 1);
  memcpy(own_key, name->bytes, name->n_bytes);
  packed->key = own_key;
  packed->key_bytes = name->n_bytes;
  packed->seed = seed;
  eti_xnn_weights_store_add(store, packed);
  store->n_packed++;
  return packed;
}

// data is NULL after a look_up with a result. That entry may since have been found damaged and
// removed from the store.
static size_t look_up_or_insert(void *context, const struct xnn_weights_cache_look_up_key *key,
                                void *data, size_t bytes) {
  eti_xnn_weights_provider *const provider = context;
  (void)bytes;
  if (data == NULL) return provider->found;
  eti_xnn_weights_key *const name = find_usable_key(provider, key);
  eti_xnn_alloc_region *const region = eti_xnn_alloc_region_pause();
  eti_xnn_packed_weights *const packed = remove_reserved(provider, data);
  size_t at = SIZE_MAX;
  if (packed != NULL && name != NULL) {
    (void)pthread_mutex_lock(&provider->store->lock);
    name->packed = insert_packed(provider->store, name, key->seed, packed);
    at = add_used(provider, name->packed);
    (void)pthread_mutex_unlock(&provider->store->lock);
  } else if (packed != NULL) {
    at = add_used(provider, packed);
  }
  eti_xnn_alloc_region_resume(region);
  if (provider->on_packed != NULL)
    provider->on_packed(provider->on_packed_ctx, key->kernel, key->bias);
  return at;
}

static bool is_finalized(void *context) {
  (void)context;
  return true;  // indices never change
}

static void *offset_to_addr(void *context, size_t offset) {
  eti_xnn_weights_provider *const provider = context;
  ET_ASSERT(offset < provider->n_used);  // XNNPACK got it from this provider
  eti_xnn_packed_weights *const packed = provider->used[offset];
  if (packed->is_mapped && !is_sound(provider->store, packed)) provider->is_damaged = true;
  return packed->data;
}

static enum xnn_status delete_cache(void *context) {
  (void)context;
  return xnn_status_success;
}

// ---- Providers

void eti_xnn_weights_provider_init(eti_xnn_weights_provider *provider, et_xnnpack_weights *store,
                                   const void *domain) {
  *provider = (eti_xnn_weights_provider){.interface = {.context = provider,
                                                       .look_up = look_up,
                                                       .reserve_space = reserve_space,
                                                       .look_up_or_insert = look_up_or_insert,
                                                       .is_finalized = is_finalized,
                                                       .offset_to_addr = offset_to_addr,
                                                       .delete_cache = delete_cache},
                                         .store = store,
                                         .domain = domain};
}

void eti_xnn_weights_provider_add_key(void *context, const void *kernel, const void *bias,
                                      const void *name, size_t key_bytes, const char *const *names,
                                      size_t n_names) {
  eti_xnn_weights_provider *const provider = context;
  ET_ASSERT(key_bytes > 0 && n_names <= ETI_XNN_MAX_NAMES);
  if (provider->store == NULL) return;
  eti_xnn_weights_key *const known = find_key(provider, kernel, bias);
  if (known != NULL) {
    const bool is_same = known->bytes != NULL && known->n_bytes == key_bytes &&
                         memcmp(known->bytes, name, key_bytes) == 0;
    if (!is_same) {
      eti_xnn_free(known->bytes);
      known->bytes = NULL;
    }
    return;
  }
  void *keys = provider->keys;
  const bool has =
      reserve_item(&keys, sizeof *provider->keys, provider->n_keys, &provider->max_keys);
  provider->keys = keys;
  uint8_t *const bytes = has ? eti_xnn_alloc(key_bytes) : NULL;
  if (bytes == NULL) return;
  memcpy(bytes, name, key_bytes);
  eti_xnn_weights_key *const key = &provider->keys[provider->n_keys++];
  *key = (eti_xnn_weights_key){.kernel = kernel, .bias = bias, .bytes = bytes};
  key->n_bytes = key_bytes;
  for (; key->n_names < n_names; key->n_names++) key->names[key->n_names] = names[key->n_names];
  if (key_bytes > provider->longest_key) provider->longest_key = key_bytes;
}

// Whether all names of a key are hashes of the bytes that the data has under them.
static bool is_true(const eti_xnn_weights_key *key, const et_named_data *data) {
  for (size_t i = 0; i < key->n_names; i++) {
    et_error ignored;
    et_blob blob;
    if (data->get(data->ctx, key->names[i], &blob, &ignored) != ET_OK) return false;
    const bool is_hash = eti_sha256_is_key_of(key->names[i], blob.data, blob.size);
    if (data->release != NULL) data->release(data->ctx, &blob);
    if (!is_hash) return false;
  }
  return true;
}

// Depthwise filters are packed by every load and often equal those of the file: no hash is needed.
static bool is_proven_already(et_xnnpack_weights *store, const eti_xnn_packed_weights *packed) {
  (void)pthread_mutex_lock(&store->lock);
  const bool is_proven = packed->is_proven;
  (void)pthread_mutex_unlock(&store->lock);
  return is_proven;
}

void eti_xnn_weights_provider_prove(eti_xnn_weights_provider *provider, const et_named_data *data) {
  et_xnnpack_weights *const store = provider->store;
  for (size_t i = 0; i < provider->n_keys && store != NULL && store->proves; i++) {
    const eti_xnn_weights_key *const key = &provider->keys[i];
    if (key->packed == NULL || is_proven_already(store, key->packed)) continue;
    const bool is_proven = is_true(key, data);
    (void)pthread_mutex_lock(&store->lock);
    key->packed->is_proven = key->packed->is_proven || is_proven;
    if (is_proven) drop_false(store, key);
    store->n_unproven += !is_proven;
    (void)pthread_mutex_unlock(&store->lock);
  }
}

void eti_xnn_weights_provider_seal(eti_xnn_weights_provider *provider) {
  for (size_t i = 0; i < provider->n_keys; i++) eti_xnn_free(provider->keys[i].bytes);
  eti_xnn_free(provider->keys);
  provider->keys = NULL;
  provider->n_keys = provider->max_keys = provider->longest_key = 0;
  while (provider->reserved != NULL) {
    eti_xnn_packed_weights *const packed = provider->reserved;
    provider->reserved = packed->next;
    free_packed(packed);
  }
  eti_xnn_weights_arena_deinit(&provider->arena);
}

static void release_used(eti_xnn_weights_provider *provider, eti_xnn_packed_weights *packed) {
  if (packed->key_bytes == 0) {
    free_packed(packed);
    return;
  }
  (void)pthread_mutex_lock(&provider->store->lock);
  ET_ASSERT(packed->n_users > 0);
  if (packed->domain == provider->domain && packed->n_domain_users > 0) packed->n_domain_users--;
  if (packed->n_domain_users == 0) packed->domain = NULL;
  const bool is_last = --packed->n_users == 0 && !packed->is_mapped;
  if (is_last) remove_packed(provider->store, packed);
  (void)pthread_mutex_unlock(&provider->store->lock);
  if (is_last) free_packed(packed);
}

void eti_xnn_weights_provider_deinit(eti_xnn_weights_provider *provider) {
  eti_xnn_weights_provider_seal(provider);
  for (size_t i = 0; i < provider->n_used; i++) release_used(provider, provider->used[i]);
  eti_xnn_free(provider->used);
  provider->used = NULL;
  provider->n_used = provider->max_used = 0;
}
