"""The version written into bundled programs."""

BUNDLED_PROGRAM_SCHEMA_VERSION = 2
