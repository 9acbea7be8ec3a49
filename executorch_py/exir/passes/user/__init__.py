"""Base classes and tools for users' own passes: ExportPass, pass managers, DebugPass."""
