"""Builds the documentation's static site: `python docs/site/build_site.py`, or `make docs`.

Gathers the README, docs/, the folders' READMEs, the notebooks, the operator table, the tables of
upstream's import paths and of its names that are refused, and one page for each public module below
build/docs/pages, rewrites the links between them, and runs MkDocs. A file of the repository that a
page links to becomes a page, too. Nothing is fetched, and the site loads nothing from elsewhere.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import flow_chart
import notebook_pages

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PAGES = ROOT / "build" / "docs" / "pages"
SITE = ROOT / "build" / "docs" / "site"
OPERATORS = ROOT / "build" / "docs" / "operators.md"
# Public modules, with the title of their page.
MODULES = {
    "executorch_py": "executorch_py",
    "exir": "executorch_py.exir: the exporter",
    "quantizer": "executorch_py.quantizer",
    "backends.xnnpack": "executorch_py.backends.xnnpack",
    "export": "executorch_py.export: exports described by recipes",
    "runtime": "executorch_py.runtime",
    "testing": "executorch_py.testing",
    "errors": "executorch_py.errors",
}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,})(\w*).*?^\1$\n?", re.M | re.S)
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".md": "markdown", ".ipynb": "json"}


def page_of(path: str) -> str:
    """The page of a file of the repository: "docs/export.md" -> "export.md"."""
    if path in ("README.md", "CONTRIBUTING.md"):
        return "index.md" if path == "README.md" else "contributing.md"
    folder, name = posixpath.split(path)
    if folder == "docs":
        return name
    if name == "README.md":
        return f"code/{folder.replace('/', '.')}.md"
    if folder == "notebooks":
        return f"notebooks/{posixpath.splitext(name)[0]}.md"
    return f"sources/{path}.md"


class Gatherer:
    """Writes pages, and remembers the source files that they link to."""

    def __init__(self) -> None:
        self.linked: set[str] = set()

    def rewrite_links(self, text: str, source: str, page: str) -> str:
        """Links between files of the repository become links between pages of the site."""

        def rewritten(match: re.Match[str]) -> str:
            path, mark, fragment = match[2].partition("#")
            if "://" in match[2] or not path:
                return match[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
            if not (ROOT / target).exists():
                return match[0]  # a picture that was written beside the page
            if (ROOT / target).is_dir():
                target = f"{target}/README.md"
            if page_of(target).startswith("sources/"):
                self.linked.add(target)
            way = posixpath.relpath(page_of(target), posixpath.dirname(page) or ".")
            return f"{match[1]}({way}{mark}{fragment})"

        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts += [LINK.sub(rewritten, text[end : fence.start()]), fence[0]]
            end = fence.end()
        return "".join([*parts, LINK.sub(rewritten, text[end:])])

    def add(self, source: str, text: str) -> None:
        """Writes the page of a Markdown file."""
        page = page_of(source)
        text = FENCE.sub(
            lambda fence: (
                flow_chart.draw(fence[0].partition("\n")[2].rpartition("```")[0]) + "\n"
                if fence[2] == "mermaid"
                else fence[0]
            ),
            self.rewrite_links(text, source, page),
        )
        write(page, separate_blocks(text))


def separate_blocks(text: str) -> str:
    """Python-Markdown wants an empty line before a list, a table and a fence; GitHub does not."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        kind = line[:2] if line[:2] in ("- ", "| ", "``") or line[:1] == "|" else ""
        previous = lines[-1] if lines else ""
        continues = kind != "``" and previous[:1] in ("-", "|", " ")
        if kind and not fence and previous.strip() and not continues:
            lines.append("")
        if opening := re.match(r"`{3,}", line):
            fence = "" if fence == opening[0] else fence or opening[0]
        lines.append(line)
    return "\n".join(lines) + "\n"


def write(page: str, text: str) -> None:
    target = PAGES / page
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def upstream_paths() -> str:
    """The page of upstream's import paths, of the table that resolves them."""
    from executorch_py._upstream_paths import UPSTREAM_PATHS

    lines = [
        "# Upstream's import paths\n",
        "Paths below `executorch_py` that have no module here, and the modules that define their",
        "names. [Compatibility](compatibility.md) tells how they are resolved.\n",
        "| path | defined in |",
        "| --- | --- |",
    ]
    for path, homes in sorted(UPSTREAM_PATHS.items()):
        modules = sorted({home.partition(":")[0] for home in homes})
        lines.append(f"| `{path}` | {', '.join(f'`{name}`' for name in modules) or 'package'} |")
    return "\n".join(lines) + "\n"


def refused_paths() -> str:
    """The page of upstream's names that are refused, of the table that refuses them."""
    from executorch_py._refused_paths import REFUSALS

    lines = [
        "# Upstream's names that are not here\n",
        "Importing one raises an error with this reason. `path:name` is a name of a module that is",
        "here. [Compatibility](compatibility.md#names-that-will-not-come) has an example.\n",
        "| path or name | reason | use |",
        "| --- | --- | --- |",
    ]
    for refusal in REFUSALS:
        names = " ".join(f"`{name}`" for name in refusal.names.split())
        lines.append(f"| {names} | {refusal.reason} | {refusal.instead} |")
    return "\n".join(lines) + "\n"


def module_page(module: str, title: str) -> str:
    """The page of a public module, of its docstrings; exceptions have none of their own."""
    name = module if module == "executorch_py" else f"executorch_py.{module}"
    options = "    options:\n      show_if_no_docstring: true\n" if module == "errors" else ""
    return f"# {title}\n\n::: {name}\n{options}"


def source_page(path: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / path).read_text()
    language = LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"# {posixpath.basename(path)}\n\n`{path}`\n\n`````{language}\n{text.rstrip()}\n`````\n"


def readmes() -> list[str]:
    """The READMEs of folders that hold code."""
    found = [
        path.relative_to(ROOT).as_posix()
        for top in ("csrc", "executorch_py", "tests")
        for path in sorted((ROOT / top).rglob("README.md"))
    ]
    return [path for path in found if "/." not in path and "build/" not in path]


def folders_page() -> str:
    """The list of all folders with a README."""
    lines = ["# Folders\n", "Each README has its folder's map, rules and recipes.\n"]
    for path in readmes():
        lines.append(f"- [`{posixpath.dirname(path)}`]({posixpath.basename(page_of(path))})")
    return "\n".join(lines) + "\n"


def gather() -> None:
    """Writes all pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    gatherer = Gatherer()
    pages = ["README.md", "CONTRIBUTING.md", *readmes()]
    pages += [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]
    for path in pages:
        gatherer.add(path, (ROOT / path).read_text())
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        path = f"notebooks/{notebook.name}"
        page = PAGES / page_of(path)
        notebook_pages.write_page(notebook, page)
        gatherer.add(path, page.read_text())
    write("operators.md", separate_blocks(OPERATORS.read_text()))
    write("upstream-paths.md", upstream_paths())
    write("refused-paths.md", refused_paths())
    write("code/index.md", folders_page())
    for module, title in MODULES.items():
        write(f"api/{module}.md", module_page(module, title))
    write(
        "api/c.md", "# C API: runtime/et.h\n" + source_page("csrc/runtime/et.h").partition("\n")[2]
    )
    for path in sorted(gatherer.linked):
        write(page_of(path), source_page(path))
    shutil.copy(HERE / "extra.css", PAGES / "extra.css")


def main() -> int:
    sys.path.insert(0, str(ROOT))  # the package of this checkout, installed or not
    script = ROOT / "tests" / "kernels" / "operator_coverage.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script, OPERATORS], check=True, cwd=ROOT, env=environment)
    gather()
    settings = str(HERE / "mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", settings]
    done = subprocess.run(command, cwd=ROOT, env={**environment, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode == 0:
        print(f"{(SITE / 'index.html').relative_to(ROOT)}: open it, or serve its folder")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
