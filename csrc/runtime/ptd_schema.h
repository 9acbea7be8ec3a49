// ptd_schema.h — slot numbers of the external data file format, as constants. DataSegment is the
// program format's.
#ifndef ET_PTD_SCHEMA_H
#define ET_PTD_SCHEMA_H

enum {
  PTD_ROOT_VERSION = 0,
  PTD_ROOT_SEGMENTS = 1,
  PTD_ROOT_NAMED_DATA = 2,
  PTD_NAMED_KEY = 0,
  PTD_NAMED_SEGMENT = 1,
  PTD_NAMED_LAYOUT = 2,
  PTD_LAYOUT_DTYPE = 0,
  PTD_LAYOUT_SIZES = 1,
  PTD_LAYOUT_DIM_ORDER = 2,
};

#endif  // ET_PTD_SCHEMA_H
