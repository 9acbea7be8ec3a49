"""Tuned kernels compared with XNNPACK's: nodes of int8 graphs and f32 depthwise convolutions.

See int8_nodes.c. One thread. On machines without tuned kernels both times are the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.c_build import build_c


def main() -> None:
    subprocess.run([build_c("release", "int8_nodes") / "int8_nodes"], check=True)


if __name__ == "__main__":
    main()
