"""`executorch_py pack`: writes the packed weights of a program, for processors like this one."""

from __future__ import annotations

import argparse

from executorch_py import _C
from executorch_py.runtime.pack import pack_weights
from executorch_py.terminal_text import quoted


def pack(options: argparse.Namespace) -> int:
    """Writes the file, and says what it has and where it is valid."""
    facts = pack_weights(options.file, options.output, data_path=options.data or None)
    system = _C.system_info()
    xnnpack = system["xnnpack"]
    assert xnnpack is not None  # it packed
    sets = ", ".join(xnnpack["instruction_sets"])
    print(f"{quoted(facts['path'])}: {facts['weights']} weights, {facts['bytes'] / 1e6:.1f} MB")
    print(f"for XNNPACK {xnnpack['version']} on {system['machine']} with {sets}")
    return 0
