// data_map.c — external data files (.ptd): opening, verifying, finding entries; named data for delegates.
#include "runtime/data_map.h"

#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte.h"
#include "runtime/ptd_schema.h"

#define HEAD_BYTES 64
#define HEADER_BYTES 40

enum { T_ROOT, T_SEGMENT, T_NAMED, T_LAYOUT };

static const eti_fb_schema schema[] = {
    [T_ROOT] = {ETI_FB_SCALAR(4), ETI_FB_TABLES(T_SEGMENT), ETI_FB_TABLES(T_NAMED)},
    [T_SEGMENT] = {ETI_FB_SCALAR(8), ETI_FB_SCALAR(8)},
    [T_NAMED] = {ETI_FB_STRING, ETI_FB_SCALAR(4), ETI_FB_TABLE(T_LAYOUT)},
    [T_LAYOUT] = {ETI_FB_SCALAR(1), ETI_FB_VECTOR(4), ETI_FB_VECTOR(1)},
};

static eti_segments segments_of(const et_data_map *map) {
  const eti_segments segments = {
      .source = &map->source,
      .list = eti_fb_vector(map->root, PTD_ROOT_SEGMENTS),
      .base = map->segment_base,
      .bytes = map->segment_bytes,
  };
  return segments;
}

static et_status read_header(et_data_map *map, const uint8_t *head, uint64_t *flatbuffer_bytes, et_error *err) {
  const uint8_t *header = head + 8;
  ET_CHECK(memcmp(head + 4, "FT01", 4) == 0 && memcmp(header, "FH01", 4) == 0 && eti_u32(header + 4) >= HEADER_BYTES, err,
           ET_INVALID_EXTERNAL_DATA, "not an external data file: 'FT01', 'FH01' or a header of %d bytes is missing",
           HEADER_BYTES);
  const uint64_t offset = eti_u64(header + 8), size = eti_u64(header + 16);
  map->segment_base = eti_u64(header + 24);
  map->segment_bytes = eti_u64(header + 32);
  *flatbuffer_bytes = offset + size;
  ET_CHECK(eti_inside(offset, size, map->source.size) &&
               eti_inside(map->segment_base, map->segment_bytes, map->source.size),
           err, ET_INVALID_EXTERNAL_DATA, "the file has %llu bytes, its header speaks of %llu + %llu: it is cut short",
           (unsigned long long)map->source.size, (unsigned long long)map->segment_base,
           (unsigned long long)map->segment_bytes);
  return ET_OK;
}

static et_status open_flatbuffer(et_data_map *map, et_error *err) {
  const uint8_t *base = map->head.data;
  ET_CHECK(eti_is_aligned(base, 16), err, ET_INVALID_ARGUMENT, "external data must lie at a multiple of 16 in memory");
  size_t where = 0;
  ET_CHECK(map->head.size >= 8 && eti_fb_verify(base, map->head.size, schema, &where), err, ET_INVALID_EXTERNAL_DATA,
           "the structure of the external data is damaged at byte %zu", where);
  map->root = eti_fb_root(base);
  ET_CHECK(eti_fb_u32(map->root, PTD_ROOT_VERSION) == 0, err, ET_INVALID_EXTERNAL_DATA,
           "external data of version %lu, this runtime reads 0", (unsigned long)eti_fb_u32(map->root, PTD_ROOT_VERSION));
  const eti_segments segments = segments_of(map);
  const eti_vector named = eti_fb_vector(map->root, PTD_ROOT_NAMED_DATA);
  ET_CHECK(segments.list.data != NULL && named.data != NULL, err, ET_INVALID_EXTERNAL_DATA,
           "external data without segments or names");
  for (size_t i = 0; i < named.n; i++) {
    const uint8_t *entry = eti_fb_at(named, i);
    const uint8_t *layout = eti_fb_table(entry, PTD_NAMED_LAYOUT);
    uint64_t offset, size;
    ET_CHECK(eti_fb_string(entry, PTD_NAMED_KEY) != NULL &&
                 eti_segment_find(&segments, eti_fb_u32(entry, PTD_NAMED_SEGMENT), &offset, &size) &&
                 eti_fb_vector(layout, PTD_LAYOUT_SIZES).n == eti_fb_vector(layout, PTD_LAYOUT_DIM_ORDER).n,
             err, ET_INVALID_EXTERNAL_DATA, "external data entry %zu has no key, no bytes or half a layout", i);
  }
  return ET_OK;
}

et_status et_data_map_open(et_data_map *map, const et_source *source, et_error *err) {
  memset(map, 0, sizeof *map);
  map->source = *source;
  ET_CHECK(source->size >= HEAD_BYTES, err, ET_INVALID_ARGUMENT, "%llu bytes are no external data file",
           (unsigned long long)source->size);
  et_blob head;
  uint64_t bytes;
  ET_TRY(eti_source_load(&map->source, 0, HEAD_BYTES, &head, err));
  et_status status = read_header(map, head.data, &bytes, err);
  eti_source_release(&head);
  if (status == ET_OK) status = eti_source_load(&map->source, 0, bytes, &map->head, err);
  if (status == ET_OK) status = open_flatbuffer(map, err);
  if (status != ET_OK) et_data_map_close(map);
  return status;
}

void et_data_map_close(et_data_map *map) {
  eti_source_release(&map->head);
  map->root = NULL;
}

size_t et_data_map_count(const et_data_map *map) { return eti_fb_vector(map->root, PTD_ROOT_NAMED_DATA).n; }

const char *et_data_map_key(const et_data_map *map, size_t i) {
  const eti_vector named = eti_fb_vector(map->root, PTD_ROOT_NAMED_DATA);
  return i < named.n ? eti_fb_string(eti_fb_at(named, i), PTD_NAMED_KEY) : NULL;
}

// Both formats' NamedData have key and segment in the same slots; only external data has layouts.
static bool find(const eti_segments *segments, eti_vector entries, const char *key, eti_named_entry *out) {
  for (size_t i = 0; i < entries.n; i++) {
    const uint8_t *entry = eti_fb_at(entries, i);
    if (strcmp(eti_fb_string(entry, PTD_NAMED_KEY), key) != 0) continue;
    out->source = segments->source;
    out->layout = eti_fb_table(entry, PTD_NAMED_LAYOUT);
    return eti_segment_find(segments, eti_fb_u32(entry, PTD_NAMED_SEGMENT), &out->offset, &out->bytes);
  }
  return false;
}

static bool find_in_map(const et_data_map *map, const char *key, eti_named_entry *out) {
  const eti_segments segments = segments_of(map);
  return find(&segments, eti_fb_vector(map->root, PTD_ROOT_NAMED_DATA), key, out);
}

et_status eti_external_find(const eti_named_data *named, const char *key, eti_named_entry *out, et_error *err) {
  for (size_t m = 0; m < named->n_maps; m++) {
    if (find_in_map(named->maps[m], key, out)) return ET_OK;
  }
  return ET_FAIL(err, ET_NOT_FOUND, "external data '%s' is in none of the %zu data files given", key, named->n_maps);
}

et_status eti_named_data_verify(const eti_named_data *named, et_error *err) {
  eti_named_entry entry;
  for (size_t m = 1; m < named->n_maps; m++) {
    const char *key;
    for (size_t i = 0; (key = et_data_map_key(named->maps[m], i)) != NULL; i++) {
      for (size_t k = 0; k < m; k++) {
        ET_CHECK(!find_in_map(named->maps[k], key, &entry), err, ET_INVALID_ARGUMENT,
                 "'%s' is in external data files %zu and %zu", key, k, m);
      }
    }
  }
  return ET_OK;
}

static et_status get(const void *ctx, const char *key, et_blob *out, et_error *err) {
  const eti_named_data *named = ctx;
  eti_named_entry entry;
  if (eti_external_find(named, key, &entry, NULL) != ET_OK) {
    const eti_segments segments = eti_program_segments(named->program);
    ET_CHECK(find(&segments, eti_fb_vector(named->program->root, PTE_PROGRAM_NAMED_DATA), key, &entry), err, ET_NOT_FOUND,
             "named data '%s' is neither in the program nor in the %zu external data files given", key, named->n_maps);
  }
  return eti_source_load(entry.source, entry.offset, entry.bytes, out, err);
}

static void release(const void *ctx, et_blob *blob) {
  (void)ctx;
  eti_source_release(blob);
}

et_named_data eti_named_data_handle(const eti_named_data *named) {
  const et_named_data handle = {.ctx = named, .get = get, .release = release};
  return handle;
}
