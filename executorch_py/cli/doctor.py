"""`executorch_py doctor`: installed and missing packages, and instruction sets of this machine."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from typing import Any

from executorch_py import __version__
from executorch_py.terminal_text import message_text, name_text

# Optional packages and their uses.
OPTIONAL = (
    ("torch", "exporting models"),
    ("torchao", "quantizing models before export"),
    ("ml_dtypes", "bfloat16 and float8 arrays without torch"),
)

NO_XNNPACK = (
    "not in this build: programs that need XnnpackBackend do not run. Install again with a C++\n"
    "              compiler and, on Debian, a network (`pip install -v .` shows what is found);\n"
    "              elsewhere set XNNPACK_DIR to an installed XNNPACK with static libraries, or\n"
    "              XNNPACK_SOURCE_DIR to its sources (csrc/cmake/get_xnnpack.py)"
)


def doctor(options: argparse.Namespace) -> int:
    """Print the state of the installation; returns 1 if the runtime cannot be loaded, else 0."""
    facts = collect()
    print(json.dumps(facts, indent=2) if options.json else text(facts))
    return 0 if facts["runtime"]["ok"] else 1


def version_of(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def collect() -> dict[str, Any]:
    """Installed packages and their versions, as data."""
    return {
        "executorch_py": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "numpy": version_of("numpy"),
        "runtime": runtime_facts(),
        "optional": {name: version_of(name) for name, _ in OPTIONAL},
    }


def runtime_facts() -> dict[str, Any]:
    """Facts that the extension module reports, or the error of importing it."""
    try:
        from executorch_py import _C
    except ImportError as error:
        return {"ok": False, "error": str(error)}
    manifest = _C.kernel_manifest()
    return {
        "ok": True,
        "file": _C.__file__,
        **_C.system_info(),
        "operators": len(manifest),
        "libraries": dict(_C.loaded_ops()),
        "backends": _C.backend_names(),
    }


def text(facts: dict[str, Any]) -> str:
    """The facts as text."""
    runtime = facts["runtime"]
    lines = [
        f"executorch_py {facts['executorch_py']}",
        f"python        {facts['python']}",
        f"numpy         {facts['numpy'] or 'missing: pip install numpy'}",
    ]
    if runtime["ok"]:
        features = " ".join(runtime["cpu_features"]) or "baseline"
        lines += [
            f"runtime       {runtime['version']}, built by {runtime['compiler']}",
            f"operators     {runtime['operators']}",
            *(
                f"custom        {name_text(name)} from {message_text(path)}"
                for path, names in runtime["libraries"].items()
                for name in names
            ),
            f"backends      {', '.join(runtime['backends']) or 'none'}",
            f"xnnpack       {xnnpack_text(runtime['xnnpack'])}",
            f"machine       {runtime['machine']}: {features}",
            f"threads       {runtime['cpu_count']} (CPUs this process may use)",
        ]
    else:
        lines.append(f"runtime       cannot be loaded: {message_text(runtime['error'])}")
        lines.append("              build it: pip install . (needs a C compiler)")
    for name, purpose in OPTIONAL:
        found = facts["optional"][name]
        lines.append(f"{name:<13} {found or f'not installed; only needed for {purpose}'}")
    return "\n".join(lines)


def xnnpack_text(facts: dict[str, Any] | None) -> str:
    """Version of the linked XNNPACK, and instruction sets that its kernels use here."""
    if facts is None:
        return NO_XNNPACK
    sets = " ".join(facts["instruction_sets"]) or "unknown instruction sets"
    text = f"{facts['version']}, kernels for {sets}"
    if own := facts["own_kernels"]:
        text += f"\n{'':<14}replaced by tuned kernels: {' '.join(own)}"
    return text
