"""Public names of a package by module, and those of a list that still exist.

A program: `python public_names.py OUT.json [--asked OLD.json]` with PYTHONPATH set to the checkout.
Without a list it walks the modules of executorch_py; a name is public when `__all__` has it, or,
in a module without, when it is defined there or imported from the package and has no underscore
before it. With a list, each module is imported by its old path and each name is asked for, so
that lazy and deprecated aliases count.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import pkgutil
import re
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "executorch_py"
_IMPORTS = re.compile(rf"^\s*from ({PACKAGE}[\w.]*) import (\([^)]*\)|[^\n(]+)", re.M)


def modules() -> list[str]:
    """All modules of the package; one that cannot be imported is still listed."""
    package = importlib.import_module(PACKAGE)
    found = pkgutil.walk_packages(package.__path__, f"{PACKAGE}.", onerror=lambda name: None)
    return [PACKAGE, *sorted(info.name for info in found)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under `if` and `try` among them."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _statements([*statement.body, *statement.orelse])


def _bound(statement: ast.stmt, imports_of: str) -> Iterator[str]:
    """Names that a statement binds; of imports, those from one package alone."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name))
    elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(imports_of):
        yield from (alias.asname or alias.name for alias in statement.names)


def names_in(source: str, imports_of: str = PACKAGE) -> set[str]:
    """Names that a source text binds at its top, without those that begin with an underscore."""
    found = {
        name for node in _statements(ast.parse(source).body) for name in _bound(node, imports_of)
    }
    return {name for name in found if not name.startswith("_")}


def names_of(module: types.ModuleType) -> list[str]:
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    path = getattr(module, "__file__", None) or ""
    if path.endswith(".py"):
        found = names_in(Path(path).read_text())
        found |= set(dir(module)) if "__dir__" in vars(module) else set()
    else:
        found = set(dir(module))
    return sorted(
        name
        for name in found
        if not name.startswith("_")
        and hasattr(module, name)
        and not isinstance(getattr(module, name), types.ModuleType)
    )


def documented(root: Path) -> dict[str, set[str]]:
    """Module → names that README, docs, notebooks and scripts for upstream import from it."""
    found: dict[str, set[str]] = {}
    patterns = ("*.md", "docs/**/*.md", "csrc/**/*.md", f"{PACKAGE}/**/*.md", "notebooks/*")
    for path in (p for pattern in (*patterns, "tests/drop_in/*.py") for p in root.glob(pattern)):
        text = path.read_text().replace("\\n", "\n").replace('"', " ")
        for module, names in _IMPORTS.findall(text):
            words = re.sub(r"#[^\n]*| as \w+|[(),]", " ", names).split()
            found.setdefault(module, set()).update(words)
    return found


def upstream_names(folder: Path, module: str) -> set[str] | None:
    """Names of upstream's module of the same path; None where it has none."""
    path = folder.joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return names_in(file.read_text(), "")
    return None


def _import(name: str) -> types.ModuleType | str:
    """The module, or the error of its import. `__main__` would run, so it is only located."""
    try:
        if name.endswith("__main__"):
            there = importlib.util.find_spec(name) is not None
            return types.ModuleType(name) if there else "there is no such module"
        return importlib.import_module(name)
    except Exception as error:  # whatever an import does, the others are recorded
        return f"{type(error).__name__}: {error}"


def record(root: Path, upstream: Path | None) -> dict[str, Any]:
    """Module → its names, and which of them are upstream's or documented."""
    in_docs = documented(root)
    found: dict[str, Any] = {}
    for name in modules():
        module = _import(name)
        if isinstance(module, str):
            print(f"{name}: not importable, left out: {module.splitlines()[0]}")
            continue
        names = names_of(module)
        theirs = upstream_names(upstream, name) if upstream is not None else None
        found[name] = {
            "names": names,
            "is_upstream": theirs is not None,
            "upstream": sorted(set(names) & (theirs or set())),
            "documented": sorted(set(names) & in_docs.get(name, set())),
        }
    return found


def answers(asked: dict[str, Any]) -> dict[str, Any]:
    """Module → the listed names that it has; a module that no longer exists is left out."""
    found: dict[str, Any] = {}
    for name, facts in asked.items():
        module = _import(name)
        if not isinstance(module, str):
            found[name] = {"names": [n for n in facts["names"] if hasattr(module, n)]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--asked", type=Path, help="the record whose names are looked up")
    parser.add_argument("--upstream", type=Path, help="the folder of upstream's package")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    root = Path(str(importlib.import_module(PACKAGE).__file__)).parent.parent
    if arguments.asked is not None:
        found = answers(json.loads(arguments.asked.read_text())["names"])
    else:
        found = record(root, arguments.upstream)
    arguments.out.write_text(json.dumps(found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
