// weights_cache.c — see weights_cache.h. XNNPACK keeps what look_up and look_up_or_insert return
// beside the operator and gives it to offset_to_addr before every use; here it is an index of the
// session's uses. look_up_or_insert must not fail, because XNNPACK does not look: everything it
// needs is claimed by reserve_space. Weights of a file are verified when XNNPACK asks for their
// address, which it does when a run tells it shapes or pointers: a load reads none of them, and no
// kernel reads what was not verified.
#include "backends/xnnpack/weights/weights_cache.h"

#include <string.h>

#include "backends/xnnpack/alloc_region.h"
#include "backends/xnnpack/weights/checksum.h"
#include "runtime/check.h"

static uint64_t hash_of(const uint8_t *name, size_t n_bytes, uint32_t seed) {
  const uint64_t hash = eti_xnn_checksum(name, n_bytes) ^ seed * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

// ---- The store

static eti_xnn_packed **row_of(et_xnnpack_weights *store, uint64_t hash) {
  return &store->rows[hash % ETI_XNN_STORE_ROWS];
}

void eti_xnn_store_add(et_xnnpack_weights *store, eti_xnn_packed *packed) {
  packed->hash = hash_of(packed->name, packed->name_bytes, packed->seed);
  eti_xnn_packed **const row = row_of(store, packed->hash);
  packed->next = *row;
  *row = packed;
}

static void remove_packed(et_xnnpack_weights *store, const eti_xnn_packed *packed) {
  eti_xnn_packed **at = row_of(store, packed->hash);
  while (*at != packed) at = &(*at)->next;
  *at = packed->next;
}

// The lock is held.
static eti_xnn_packed *find_packed(et_xnnpack_weights *store, const eti_xnn_name *name,
                                   uint32_t seed) {
  const uint64_t hash = hash_of(name->bytes, name->n_bytes, seed);
  eti_xnn_packed *packed = *row_of(store, hash);
  while (packed != NULL &&
         (packed->hash != hash || packed->seed != seed || packed->name_bytes != name->n_bytes ||
          memcmp(packed->name, name->bytes, name->n_bytes) != 0)) {
    packed = packed->next;
  }
  return packed;
}

// Whether mapped weights are what was written. Damaged ones leave the table, so that whoever asks
// next packs them anew; they stay in memory, which the file is.
static bool is_sound(et_xnnpack_weights *store, eti_xnn_packed *packed) {
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

static void free_packed(eti_xnn_packed *packed) {
  eti_xnn_piece_release((eti_xnn_piece){packed->data, packed->slab});
  eti_xnn_memory_release(packed);
}

// ---- A session's lists

static bool has_room(void **items, size_t item_bytes, size_t n, size_t *most) {
  if (n < *most) return true;
  const size_t more = n + n / 2 + 16;
  void *const larger = eti_xnn_memory_claim(more * item_bytes);
  if (larger == NULL) return false;
  if (n > 0) memcpy(larger, *items, n * item_bytes);
  eti_xnn_memory_release(*items);
  *items = larger;
  *most = more;
  return true;
}

static bool has_room_for_use(eti_xnn_session *session) {
  void *uses = session->uses;
  const bool has = has_room(&uses, sizeof *session->uses, session->n_uses, &session->most_uses);
  session->uses = uses;
  return has;
}

static const eti_xnn_name *find_name(const eti_xnn_session *session, const void *kernel,
                                     const void *bias) {
  for (size_t i = 0; i < session->n_names; i++) {
    const eti_xnn_name *const name = &session->names[i];
    if (name->kernel == kernel && name->bias == bias) return name;
  }
  return NULL;
}

static const eti_xnn_name *find_named(const eti_xnn_session *session,
                                      const struct xnn_weights_cache_look_up_key *key) {
  const eti_xnn_name *const name =
      session->store == NULL ? NULL : find_name(session, key->kernel, key->bias);
  return name == NULL || name->bytes == NULL ? NULL : name;
}

// The store's lock is held. There is room for one more. Returns its index.
static size_t use(eti_xnn_session *session, eti_xnn_packed *packed) {
  for (size_t i = session->n_uses; i-- > 0;) {
    if (session->uses[i] == packed) return i;
  }
  packed->n_users++;
  session->uses[session->n_uses] = packed;
  return session->n_uses++;
}

// ---- What XNNPACK calls

static size_t look_up(void *context, const struct xnn_weights_cache_look_up_key *key) {
  eti_xnn_session *const session = context;
  const eti_xnn_name *const name = find_named(session, key);
  eti_xnn_region *const region = eti_xnn_region_pause();
  size_t found = SIZE_MAX;
  if (name != NULL && has_room_for_use(session)) {
    (void)pthread_mutex_lock(&session->store->lock);
    eti_xnn_packed *const packed = find_packed(session->store, name, key->seed);
    if (packed != NULL) {
      found = use(session, packed);
      session->store->n_shared++;
    }
    (void)pthread_mutex_unlock(&session->store->lock);
  }
  session->found = found;
  eti_xnn_region_resume(region);
  return found;
}

// Room for a name of any length that the session knows lies behind the entry.
static eti_xnn_packed *claim_packed(eti_xnn_session *session, size_t bytes) {
  eti_xnn_packed *const packed = has_room_for_use(session)
                                     ? eti_xnn_memory_claim(sizeof *packed + session->longest_name)
                                     : NULL;
  eti_xnn_piece piece;
  if (packed == NULL || !eti_xnn_slabs_take(&session->slabs, bytes, &piece)) {
    eti_xnn_memory_release(packed);
    return NULL;
  }
  *packed = (eti_xnn_packed){.data = piece.data, .bytes = bytes, .slab = piece.slab};
  packed->next = session->waiting;
  session->waiting = packed;
  return packed;
}

static void *reserve_space(void *context, size_t bytes) {
  eti_xnn_region *const region = eti_xnn_region_pause();
  eti_xnn_packed *const packed = claim_packed(context, bytes);
  eti_xnn_region_resume(region);
  return packed == NULL ? NULL : packed->data;
}

static eti_xnn_packed *take_waiting(eti_xnn_session *session, const void *data) {
  eti_xnn_packed **at = &session->waiting;
  while (*at != NULL && (*at)->data != data) at = &(*at)->next;
  eti_xnn_packed *const packed = *at;
  if (packed != NULL) *at = packed->next;
  return packed;
}

// Puts what was packed into the store under its name; what is there already wins. The lock is held.
static eti_xnn_packed *insert_named(et_xnnpack_weights *store, const eti_xnn_name *name,
                                    uint32_t seed, eti_xnn_packed *packed) {
  eti_xnn_packed *const existing = find_packed(store, name, seed);
  if (existing != NULL) {
    free_packed(packed);
    store->n_shared++;
    return existing;
  }
  uint8_t *const own_name = (uint8_t *)(packed + 1);
  memcpy(own_name, name->bytes, name->n_bytes);
  packed->name = own_name;
  packed->name_bytes = name->n_bytes;
  packed->seed = seed;
  eti_xnn_store_add(store, packed);
  store->n_packed++;
  return packed;
}

// data is NULL after a look_up that found something, which by now may have been found damaged and
// have left the store.
static size_t look_up_or_insert(void *context, const struct xnn_weights_cache_look_up_key *key,
                                void *data, size_t bytes) {
  eti_xnn_session *const session = context;
  (void)bytes;
  if (data == NULL) return session->found;
  const eti_xnn_name *const name = find_named(session, key);
  eti_xnn_region *const region = eti_xnn_region_pause();
  eti_xnn_packed *const packed = take_waiting(session, data);
  size_t at = SIZE_MAX;
  if (packed != NULL && name != NULL) {
    (void)pthread_mutex_lock(&session->store->lock);
    at = use(session, insert_named(session->store, name, key->seed, packed));
    (void)pthread_mutex_unlock(&session->store->lock);
  } else if (packed != NULL) {
    at = use(session, packed);
  }
  eti_xnn_region_resume(region);
  if (session->on_packed != NULL)
    session->on_packed(session->on_packed_ctx, key->kernel, key->bias);
  return at;
}

static bool is_finalized(void *context) {
  (void)context;
  return true;  // indices do not change
}

static void *offset_to_addr(void *context, size_t offset) {
  eti_xnn_session *const session = context;
  eti_xnn_packed *const packed = session->uses[offset];
  if (packed->is_mapped && !is_sound(session->store, packed)) session->is_damaged = true;
  return packed->data;
}

static enum xnn_status delete_cache(void *context) {
  (void)context;
  return xnn_status_success;
}

// ---- Sessions

void eti_xnn_session_init(eti_xnn_session *session, et_xnnpack_weights *store) {
  *session = (eti_xnn_session){.provider = {.context = session,
                                            .look_up = look_up,
                                            .reserve_space = reserve_space,
                                            .look_up_or_insert = look_up_or_insert,
                                            .is_finalized = is_finalized,
                                            .offset_to_addr = offset_to_addr,
                                            .delete_cache = delete_cache},
                               .store = store};
}

void eti_xnn_session_name(void *context, const void *kernel, const void *bias, const void *name,
                          size_t name_bytes) {
  eti_xnn_session *const session = context;
  if (session->store == NULL) return;
  eti_xnn_name *const known = (eti_xnn_name *)(uintptr_t)find_name(session, kernel, bias);
  if (known != NULL) {
    const bool is_same = known->bytes != NULL && known->n_bytes == name_bytes &&
                         memcmp(known->bytes, name, name_bytes) == 0;
    if (!is_same) {
      eti_xnn_memory_release(known->bytes);
      known->bytes = NULL;
    }
    return;
  }
  void *names = session->names;
  const bool has = has_room(&names, sizeof *session->names, session->n_names, &session->most_names);
  session->names = names;
  uint8_t *const bytes = has ? eti_xnn_memory_claim(name_bytes) : NULL;
  if (bytes == NULL) return;
  memcpy(bytes, name, name_bytes);
  session->names[session->n_names++] = (eti_xnn_name){kernel, bias, bytes, name_bytes};
  if (name_bytes > session->longest_name) session->longest_name = name_bytes;
}

void eti_xnn_session_forget(eti_xnn_session *session) {
  for (size_t i = 0; i < session->n_names; i++) eti_xnn_memory_release(session->names[i].bytes);
  eti_xnn_memory_release(session->names);
  session->names = NULL;
  session->n_names = session->most_names = session->longest_name = 0;
  while (session->waiting != NULL) {
    eti_xnn_packed *const packed = session->waiting;
    session->waiting = packed->next;
    free_packed(packed);
  }
  eti_xnn_slabs_deinit(&session->slabs);
}

static void stop_using(eti_xnn_session *session, eti_xnn_packed *packed) {
  if (packed->name_bytes == 0) {
    free_packed(packed);
    return;
  }
  (void)pthread_mutex_lock(&session->store->lock);
  const bool is_last = --packed->n_users == 0 && !packed->is_mapped;
  if (is_last) remove_packed(session->store, packed);
  (void)pthread_mutex_unlock(&session->store->lock);
  if (is_last) free_packed(packed);
}

void eti_xnn_session_deinit(eti_xnn_session *session) {
  eti_xnn_session_forget(session);
  for (size_t i = 0; i < session->n_uses; i++) stop_using(session, session->uses[i]);
  eti_xnn_memory_release(session->uses);
  session->uses = NULL;
  session->n_uses = session->most_uses = 0;
}
