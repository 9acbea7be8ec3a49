"""The checkout for structure tests: its files, functions, imports, includes, calls.

Everything is read from text: Python by its syntax trees, C by lines, which the formatter keeps
regular (a function ends with the first `}` at the beginning of a line). Knows no rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.paths import ROOT

PACKAGE = "executorch_py"
EXTENSION = f"{PACKAGE}._C"


@dataclass(frozen=True)
class Function:
    """A function with a body, and its number of lines."""

    path: str
    name: str
    lines: int


@dataclass(frozen=True)
class Import:
    """One module that imports another; `kind` is "", "lazy" (in a function) or "type"."""

    importer: str
    imported: str
    kind: str


@cache
def tracked() -> tuple[str, ...]:
    """Paths of the files under version control that exist, from the root of the checkout."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return tuple(path for path in listed if (ROOT / path).exists())


def c_files(folder: str = "") -> list[str]:
    """C sources and headers below a folder."""
    return [p for p in tracked() if p.endswith((".c", ".h")) and p.startswith(folder)]


def python_files(folder: str = "") -> list[str]:
    """Python files below a folder."""
    return [p for p in tracked() if p.endswith(".py") and p.startswith(folder)]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text()


def includes(path: str) -> list[str]:
    """Project headers that a C file includes, as paths below csrc; those that the build makes have
    no folder and are left out."""
    return re.findall(r'^#include "([^"]+/[^"]+)"', text(path), flags=re.M)


# ---- functions


def c_functions(path: str) -> Iterator[Function]:
    """Functions of a C file, from a line that ends with `) {` to the next `}` in column 0.

    A function whose head is one macro (`COMPLEX_LOOP(mul) {`) has the macro's name.
    """
    yield from (found for found, _ in _c_functions_and_heads(path))


def _c_functions_and_heads(path: str) -> Iterator[tuple[Function, str]]:
    lines = text(path).splitlines()
    begin, name, head = None, "", ""
    for i, line in enumerate(lines):
        if begin is None and line.endswith("{") and ")" in line:
            head, first = _head_of(lines, i)
            found = re.match(r"(?:[A-Za-z_][\w \t*]*?\b)?(\w+)\(", head)
            if found and found.group(1) != "__attribute__" and not head.startswith("typedef"):
                begin, name = first, found.group(1)
        elif begin is not None and line.startswith("}"):
            yield Function(path, name, i - begin + 1), head
            begin = None


def _head_of(lines: list[str], end: int) -> tuple[str, int]:
    """The declaration that ends in line `end`, and the line where it begins."""
    first = end
    while first > 0 and lines[first].startswith((" ", "\t")):
        first -= 1
    return " ".join(lines[first : end + 1]), first


def c_macros(path: str) -> Iterator[Function]:
    """Macros of a C file that have bodies of several lines."""
    lines = text(path).splitlines()
    for i, line in enumerate(lines):
        found = re.match(r"\s*#\s*define (\w+)", line)
        end = i
        while found and lines[end].endswith("\\"):
            end += 1
        if found and end > i:
            yield Function(path, found.group(1), end - i + 1)


def python_functions(path: str) -> Iterator[Function]:
    """Functions and methods of a Python file; nested ones count in the outer one, too."""
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Function(path, node.name, node.end_lineno - node.lineno + 1)


# ---- Python imports


@cache
def modules() -> dict[str, str]:
    """Module name -> path, for every module of the package."""
    return {_module_name(path): path for path in python_files(f"{PACKAGE}/")}


@cache
def modules_of_tests() -> dict[str, str]:
    """Module name -> path, for every Python file of the tests, whose folder is on the path."""
    return {_module_name(path.removeprefix("tests/")): path for path in python_files("tests/")}


def _module_name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports() -> tuple[Import, ...]:
    """Every import of one module of the package by another, in functions and for types included."""
    found = set()
    for name, path in modules().items():
        body = ast.parse(text(path)).body
        for node, kind in _import_nodes(body, ""):
            for imported in _imported(node):
                found.add(Import(name, imported, kind))
        found.update(Import(name, imported, "lazy") for imported in _homes(name, body))
    return tuple(sorted(found, key=lambda i: (i.importer, i.imported, i.kind)))


def _import_nodes(
    body: list[ast.stmt], kind: str
) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, kind
            continue
        inner = kind
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = "lazy"
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        yield from _import_nodes(getattr(node, "body", []), "type" if is_for_types else inner)
        for block in ("orelse", "finalbody"):
            yield from _import_nodes(getattr(node, block, []), inner)
        for branch in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from _import_nodes(branch.body, inner)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.module is None or node.level:
        names = []  # a relative import, of which there is none
    else:
        whole = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [n if n in modules() or n == EXTENSION else node.module for n in whole]
    return [name for name in names if name.split(".")[0] == PACKAGE]


@cache
def imports_of_tests() -> tuple[Import, ...]:
    """Every import of one module of the tests by another, in functions included.

    Scripts of one folder import each other without its name.
    """
    known, found = modules_of_tests(), set()
    for name, path in known.items():
        for node in ast.walk(ast.parse(text(path))):
            for imported in _names_imported(node):
                sibling = f"{name.rpartition('.')[0]}.{imported}"
                for target in (imported, sibling):
                    if target in known and target != name:
                        found.add(Import(name, target, ""))
    return tuple(sorted(found, key=lambda i: (i.importer, i.imported)))


def _names_imported(node: ast.AST) -> list[str]:
    """Modules that a statement may import: of `from a import b`, both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _homes(package: str, body: list[ast.stmt]) -> Iterator[str]:
    """Modules of the package that `_HOME` names, a table of public name -> module.

    The package imports them by their names when a public name is first used.
    """
    for value, constants in _values_of_home(body):
        home = _text_of(value, constants)
        if not home.startswith("torch"):
            yield home if home in modules() else f"{package}.{home}"


def _values_of_home(body: list[ast.stmt]) -> Iterator[tuple[ast.expr, dict[str, str]]]:
    """Values of the dictionary `_HOME` of a module, and the texts that were assigned before it."""
    constants: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "_HOME":
                assert isinstance(node.value, ast.Dict)
                yield from ((value, constants) for value in node.value.values)
            elif isinstance(node.value, ast.Constant):
                constants[node.targets[0].id] = str(node.value.value)


def _text_of(value: ast.expr, constants: dict[str, str]) -> str:
    """A literal string or f-string of constants."""
    if isinstance(value, ast.JoinedStr):
        return "".join(_text_of(part, constants) for part in value.values)
    if isinstance(value, ast.FormattedValue):
        return constants[ast.unparse(value.value)]
    assert isinstance(value, ast.Constant)
    return str(value.value)


def relative_imports() -> list[str]:
    """Relative imports of the package and of the tests."""
    return [
        f"{path}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def literal_splats() -> list[str]:
    """Places where a tuple, list or set is written out and unpacked at once: `*("a", "b")`."""
    return [
        f"{path}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List | ast.Set)
    ]


def computed_imports() -> set[str]:
    """Modules of the package that import modules whose names they compute."""
    return {
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and not isinstance(node.args[0], ast.Constant)
    }


# ---- calls between C files


# Prefixes of names that C files share.
_SHARED = r"\b(?:et|eti|py|op|prepare)_\w+"


@cache
def c_definitions() -> dict[str, str]:
    """Name of each function and each table of data that C files share -> its file."""
    found: dict[str, str] = {}
    for path in c_files("csrc/"):
        if path.endswith(".c"):
            for function, head in _c_functions_and_heads(path):
                if re.fullmatch(_SHARED, function.name) and not head.startswith("static"):
                    found.setdefault(function.name, path)
            for name in _c_tables(path):
                found.setdefault(name, path)
    return found


def _c_tables(path: str) -> list[str]:
    """Data of a C file that others may read; some templates take its name as a macro."""
    named = re.findall(rf"^const \w+ ({_SHARED})(?:\[[^\n]*\])* =", text(path), flags=re.M)
    return named + re.findall(rf"^#define \w+_TABLE ({_SHARED})$", text(path), flags=re.M)


@cache
def c_calls() -> dict[str, set[str]]:
    """C file or header -> the C files whose functions and tables its code names."""
    where = c_definitions()
    found: dict[str, set[str]] = defaultdict(set)
    for path in c_files("csrc/"):
        for name in set(re.findall(_SHARED, _c_code(path))):
            target = where.get(name)
            if target is not None and target != path:
                found[path].add(target)
    return dict(found)


def _c_code(path: str) -> str:
    """Code of a C file without comments, with the lists that it includes.

    A header counts with the bodies of functions and macros: declarations in column 0 call nothing.
    """
    code = re.sub(r"//[^\n]*", "", text(path))
    if path.endswith(".c"):
        lists = [f"csrc/{name}" for name in includes(path) if name.endswith(".inc.h")]
        return "\n".join([code, *(text(name) for name in lists)])
    return "\n".join(line for line in code.splitlines() if line.startswith((" ", "#define")))


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (strongly connected components of two and more)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found
