"""Runs every benchmark and prints one table.

`make bench`; a name as argument runs that one only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHES = (
    "startup",
    "overhead",
    "kernels",
    "operators",
    "attention",
    "int8_nodes",
    "lowering",
    "models",
    "peers",
    "delegate",
    "quantized",
    "accuracy",
    "decoders",
    "perplexity",
    "text",
    "tokenizers",
)


def main() -> None:
    names = sys.argv[1:] or BENCHES
    for name in names:
        process = subprocess.Popen(
            [sys.executable, HERE / f"bench_{name}.py"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            subject = row.pop("subject")
            figures = "  ".join(f"{key} {value}" for key, value in row.items())
            print(f"{subject:<55} {figures}", flush=True)
        if process.wait() != 0:
            sys.exit(f"bench_{name}.py failed with exit code {process.returncode}")


if __name__ == "__main__":
    main()
