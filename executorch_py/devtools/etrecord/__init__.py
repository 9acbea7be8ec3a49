"""ETRecord: an export's programs and debug data, for tools that read runs of the program."""

from executorch_py.devtools.etrecord._etrecord import (
    ETRecord,
    ETRecordReservedFileNames,
    generate_etrecord,
    parse_etrecord,
)

__all__ = ["ETRecord", "ETRecordReservedFileNames", "generate_etrecord", "parse_etrecord"]
