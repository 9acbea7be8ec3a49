"""Reference graph of sections in relocatable object files (ELF, little-endian).

Objects are compiled with a section for each function and datum, so a section is the unit that a
linker keeps or drops. Relocations are the edges between sections. Knows neither operators nor
compilers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Node = tuple[str, int]  # object, section index

_RELA, _REL, _SYMTAB, _NOBITS = 4, 9, 2, 8
_ALLOC = 2
_SECTION_SYMBOL = 3


@dataclass
class Graph:
    """Sections of several objects: sizes, references, defined and undefined symbols."""

    size: dict[Node, int] = field(default_factory=dict)
    name: dict[Node, str] = field(default_factory=dict)
    edges: dict[Node, set[Node]] = field(default_factory=dict)
    defined: dict[str, Node] = field(default_factory=dict)
    undefined: dict[Node, set[str]] = field(default_factory=dict)  # symbols by section

    def reach(self, roots: Iterable[str | Node]) -> set[Node]:
        """All sections that the given symbols or sections need, themselves included."""
        todo = [self.defined[r] if isinstance(r, str) else r for r in roots]
        seen: set[Node] = set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            todo.extend(self.edges.get(node, ()))
            symbols = self.undefined.get(node, ())
            todo.extend(self.defined[s] for s in symbols if s in self.defined)
        return seen

    def bytes_of(self, nodes: Iterable[Node]) -> int:
        return sum(self.size[node] for node in nodes)

    def undefined_in(self, nodes: Iterable[Node]) -> set[str]:
        return set().union(*(self.undefined.get(node, set()) for node in nodes))


def add_object(graph: Graph, path: str) -> None:
    data = Path(path).read_bytes()
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise ValueError(f"{path}: expected a little-endian ELF object, got bytes {data[:6]!r}")
    wide = data[4] == 2
    sections = _sections(data, wide)
    for i, section in enumerate(sections):
        if section.flags & _ALLOC:
            graph.size[path, i] = 0 if section.type == _NOBITS else section.size
            graph.name[path, i] = section.name
    for section in sections:
        if section.type in (_RELA, _REL) and (path, section.info) in graph.size:
            table = sections[section.link]
            _add_edges(graph, path, data, wide, sections, section, table)
    for section in sections:
        if section.type == _SYMTAB:
            for symbol in _symbols(data, wide, sections, section):
                if symbol.is_global and (path, symbol.section) in graph.size:
                    graph.defined[symbol.name] = (path, symbol.section)


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    is_global: bool


def _sections(data: bytes, wide: bool) -> list[_Section]:
    if wide:
        (start,) = struct.unpack_from("<Q", data, 40)
        entry, count, names = struct.unpack_from("<HHH", data, 58)
        form = "<IIQQQQIIQQ"
    else:
        (start,) = struct.unpack_from("<I", data, 32)
        entry, count, names = struct.unpack_from("<HHH", data, 46)
        form = "<IIIIIIIIII"
    if count == 0:  # more than 0xff00 sections: their number is in the first section
        count = struct.unpack_from(form, data, start)[5]
    rows = [struct.unpack_from(form, data, start + entry * i) for i in range(count)]
    if names == 0xFFFF:
        names = rows[0][6]
    text = rows[names][4]
    return [
        _Section(_text(data, text + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[9]) for r in rows
    ]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "replace")


def _symbols(data: bytes, wide: bool, sections: list[_Section], table: _Section) -> list[_Symbol]:
    names = sections[table.link].offset
    symbols = []
    for at in range(table.offset, table.offset + table.size, table.entry):
        if wide:
            name, info, _, section = struct.unpack_from("<IBBH", data, at)
        else:
            name, _, _, info, _, section = struct.unpack_from("<IIIBBH", data, at)
        symbols.append(_Symbol(_text(data, names + name), section, info >> 4 != 0))
    return symbols


def _add_edges(
    graph: Graph,
    path: str,
    data: bytes,
    wide: bool,
    sections: list[_Section],
    section: _Section,
    table: _Section,
) -> None:
    source: Node = (path, section.info)
    symbols = _symbols(data, wide, sections, table)
    for at in range(section.offset, section.offset + section.size, section.entry):
        if wide:
            index = struct.unpack_from("<Q", data, at + 8)[0] >> 32
        else:
            index = struct.unpack_from("<I", data, at + 4)[0] >> 8
        symbol = symbols[index]
        if symbol.section == 0:
            graph.undefined.setdefault(source, set()).add(symbol.name)
        elif (path, symbol.section) in graph.size:
            graph.edges.setdefault(source, set()).add((path, symbol.section))
