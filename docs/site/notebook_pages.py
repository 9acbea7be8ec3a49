"""Notebooks as Markdown pages: prose as it is, code in fences, stored outputs below the code."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any


def _text(value: Any) -> str:
    """A notebook's text, which is a string or a list of lines."""
    return value if isinstance(value, str) else "".join(value)


def _fenced(language: str, text: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````\n"


def _output(output: dict[str, Any], image: Path) -> str:
    """One stored output as Markdown; a picture is written to `image`."""
    data = output.get("data", {})
    if "image/png" in data:
        image.write_bytes(base64.b64decode(_text(data["image/png"])))
        return f"![output]({image.name})\n"
    text = _text(output.get("text") or data.get("text/plain", ""))
    return _fenced("text", text) if text.strip() else ""


def write_page(notebook: Path, page: Path) -> None:
    """Writes the page of a notebook, and its pictures beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source + "\n")
            continue
        parts.append(_fenced("python", source))
        for index, output in enumerate(cell.get("outputs", [])):
            parts.append(_output(output, page.with_name(f"{page.stem}_{number}_{index}.png")))
    page.write_text("\n".join(part for part in parts if part))
