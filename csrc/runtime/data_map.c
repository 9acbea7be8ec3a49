// data_map.c — external data files (.ptd): opening, verifying, finding entries; named data for
// delegates.
#include "runtime/data_map.h"

#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte.h"
#include "runtime/ptd_schema.h"

enum { T_ROOT, T_SEGMENT, T_NAMED, T_LAYOUT };

static const eti_fb_schema schema[] = {
    [T_ROOT] = {ETI_FB_SCALAR(4), ETI_FB_TABLES(T_SEGMENT), ETI_FB_TABLES(T_NAMED)},
    [T_SEGMENT] = {ETI_FB_SCALAR(8), ETI_FB_SCALAR(8)},
    [T_NAMED] = {ETI_FB_STRING, ETI_FB_SCALAR(4), ETI_FB_TABLE(T_LAYOUT)},
    [T_LAYOUT] = {ETI_FB_SCALAR(1), ETI_FB_VECTOR(4), ETI_FB_VECTOR(1)},
};

const eti_format eti_ptd_format = {
    .identifier = {'F', 'T', '0', '1'},
    .magic = {'F', 'H', '0', '1'},
    .header_bytes = 40,
    .figures_at = 16,
    .segments = PTD_ROOT_SEGMENTS,
    .named = PTD_ROOT_NAMED_DATA,
    .damaged = ET_INVALID_EXTERNAL_DATA,
    .dangling = ET_INVALID_EXTERNAL_DATA,
    .schema = schema,
};

static et_status verify(const et_data_map *map, et_error *err) {
  const eti_vector named = eti_fb_vector(map->file.root, PTD_ROOT_NAMED_DATA);
  ET_CHECK(named.data != NULL && eti_fb_vector(map->file.root, PTD_ROOT_SEGMENTS).data != NULL, err,
           ET_INVALID_EXTERNAL_DATA,
           "external data: the file lacks its list of segments or of names");
  for (size_t i = 0; i < named.n; i++) {
    const uint8_t *layout = eti_fb_table(eti_fb_at(named, i), PTD_NAMED_LAYOUT);
    const size_t n_sizes = eti_fb_vector(layout, PTD_LAYOUT_SIZES).n;
    const size_t n_order = eti_fb_vector(layout, PTD_LAYOUT_DIM_ORDER).n;
    ET_CHECK(
        n_sizes == n_order, err, ET_INVALID_EXTERNAL_DATA,
        "external data entry %zu: expected as many sizes as dim order entries, got %zu and %zu", i,
        n_sizes, n_order);
  }
  return ET_OK;
}

et_status et_data_map_open(et_data_map *map, const et_source *source, et_error *err) {
  memset(map, 0, sizeof *map);
  et_status status = eti_file_open(&map->file, source, &eti_ptd_format, false, err);
  if (status == ET_OK) status = verify(map, err);
  if (status != ET_OK) et_data_map_close(map);
  return status;
}

void et_data_map_close(et_data_map *map) {
  eti_file_close(&map->file);
}

size_t et_data_map_count(const et_data_map *map) {
  return eti_fb_vector(map->file.root, PTD_ROOT_NAMED_DATA).n;
}

const char *et_data_map_key(const et_data_map *map, size_t i) {
  const eti_vector named = eti_fb_vector(map->file.root, PTD_ROOT_NAMED_DATA);
  return i < named.n ? eti_fb_string(eti_fb_at(named, i), PTD_NAMED_KEY) : NULL;
}

et_status eti_external_find(const eti_named_data *named, const char *key, eti_named_entry *out,
                            et_error *err) {
  for (size_t m = 0; m < named->n_maps; m++) {
    if (eti_file_find_named(&named->maps[m]->file, key, out)) return ET_OK;
  }
  return ET_FAIL(err, ET_NOT_FOUND, "external data '%s' is in none of the %zu data files given",
                 key, named->n_maps);
}

et_status eti_named_data_verify(const eti_named_data *named, et_error *err) {
  eti_named_entry entry;
  for (size_t m = 1; m < named->n_maps; m++) {
    const char *key;
    for (size_t i = 0; (key = et_data_map_key(named->maps[m], i)) != NULL; i++) {
      for (size_t k = 0; k < m; k++) {
        ET_CHECK(!eti_file_find_named(&named->maps[k]->file, key, &entry), err, ET_INVALID_ARGUMENT,
                 "'%s' is in external data files %zu and %zu", key, k, m);
      }
    }
  }
  return ET_OK;
}

static et_status get_data(const void *ctx, const char *key, et_blob *out, et_error *err) {
  const eti_named_data *named = ctx;
  eti_named_entry entry;
  if (eti_external_find(named, key, &entry, NULL) != ET_OK) {
    ET_CHECK(eti_file_find_named(&named->program->file, key, &entry), err, ET_NOT_FOUND,
             "named data '%s' is neither in the program nor in the %zu external data files given",
             key, named->n_maps);
  }
  return eti_source_load(entry.source, entry.offset, entry.bytes, out, err);
}

static void release_data(const void *ctx, et_blob *blob) {
  (void)ctx;
  eti_source_release(blob);
}

et_named_data eti_named_data_handle(const eti_named_data *named) {
  const et_named_data handle = {.ctx = named, .get = get_data, .release = release_data};
  return handle;
}
