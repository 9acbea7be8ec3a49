"""Comparison of two checkouts: bytes of exports, public names, tests, bits of kernels, code size.

    python compare_checkouts.py record CHECKOUT OUT.json [--python P] [--asked OLD.json] [--twice]
    python compare_checkouts.py compare OLD.json NEW.json [--public] [--explained FILE]
    python compare_checkouts.py times OLD_CHECKOUT NEW_CHECKOUT [--rounds N]

`record` runs the package of a checkout in separate processes: PYTHONPATH is the checkout, whose
extension must be built. It needs torch. `--asked` is the record whose public names are looked up in
the new checkout, so that old module paths that are aliases count as present. `--twice` makes every
export again, in reverse order, and fails for those that differ. `--only SECTION` renews one section
of an existing record.

`compare` prints one line for each difference; its exit code is 1 if there is any. `--public` leaves
out module paths and names that are neither upstream's nor documented. `--explained` names a file of
lines `difference  # reason`; these are printed with their reasons and are not counted.

Quantized exports depend on the processor, whose instructions calibration uses to add floats. So do
the results of delegates. Records contain the class of the processor, and are equal on one class
only. The graphs that torchao traces depend on it, too, but exports are made as on a processor with
AMX.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CATALOGUE = ("models", "functions", "portable", "delegated", "exports")
LIMIT = 20 * 1024  # bytes of the core runtime, codes only
Record = dict[str, Any]


# ---- recording


class Checkout:
    """One checkout and the Python that runs its package."""

    def __init__(self, root: Path, python: str, options: argparse.Namespace) -> None:
        self.root, self.python, self.options = root.resolve(), python, options

    def run(self, *command: str | Path, check: bool = True) -> str:
        """The standard output of a command in this checkout; its messages are passed on."""
        environment = dict(os.environ, PYTHONPATH=str(self.root), OMP_NUM_THREADS="1")
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        if check and done.returncode != 0:
            raise SystemExit(f"{command} failed in {self.root}:\n{done.stdout}")
        return done.stdout

    def answer(self, program: str, *arguments: str | Path) -> Any:
        """The JSON that a program of this folder writes."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            print(self.run(self.python, HERE / program, out, *arguments), end="")
            return json.loads(out.read_text())


def catalogue_hash() -> str:
    digest = hashlib.sha256()
    for name in CATALOGUE:
        digest.update((HERE / f"recorded_{name}.py").read_bytes())
    return digest.hexdigest()


_ABOUT = """
import json, torch, torchao, executorch_py
from executorch_py import _C
info = _C.system_info()
print(json.dumps({
    "package": executorch_py.__file__, "torch": torch.__version__, "torchao": torchao.__version__,
    "instructions": info["cpu_features"], "xnnpack": info["xnnpack"],
    "torch_instructions": torch.backends.cpu.get_cpu_capability(),
    "int8_products": torch.cpu._is_vnni_supported(), "amx": torch.cpu._is_amx_tile_supported(),
}))
"""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((s.partition(":")[2].strip() for s in lines if s.startswith("model name")), "")


def about(checkout: Checkout) -> Record:
    """Versions and the class of the processor."""
    versions = json.loads(checkout.run(checkout.python, "-c", _ABOUT).splitlines()[-1])
    package = Path(versions.pop("package")).resolve()
    if not package.is_relative_to(checkout.root):
        raise SystemExit(f"expected the package in {checkout.root}, got {package}")
    return {
        "commit": checkout.run("git", "rev-parse", "HEAD").strip(),
        "python": platform.python_version(),
        "processor": _processor(),
        "machine": platform.machine(),
        "catalogue": catalogue_hash(),
        "asked": checkout.options.asked is not None,
        **versions,
    }


def exports(checkout: Checkout) -> Record:
    found: Record = checkout.answer("recorded_exports.py")
    if checkout.options.twice:
        again = checkout.answer("recorded_exports.py", "--reverse")
        unstable = [name for name in found if found[name] != again[name]]
        if unstable:
            raise SystemExit(f"exports differ between two processes: {unstable}")
        print(f"{len(found)} exports are the same in two processes")
    return found


def names(checkout: Checkout) -> Record:
    asked, upstream = checkout.options.asked, checkout.options.upstream
    arguments: list[str | Path] = [] if asked is None else ["--asked", asked.resolve()]
    if asked is None:
        usual = Path(sys.prefix).parent.glob(".venv-upstream/lib/python*/site-packages/executorch")
        folder = upstream or next(usual, None)
        if folder is None:
            print("upstream's package was not found: no name is marked as upstream's")
        else:
            arguments += ["--upstream", folder]
    found: Record = checkout.answer("public_names.py", *arguments)
    return found


def names_of_tests(listing: str) -> dict[str, list[str]]:
    """Test function with its parameters → the files that have it, from what pytest lists."""
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        file, separator, test = line.partition("::")
        if separator and re.fullmatch(r"\S+\.py", file):
            found.setdefault(test, []).append(file)
    return found


def tests(checkout: Checkout) -> Record:
    """Names of all tests. Those in C are read from their sources, which are not built."""
    listing = checkout.run(
        checkout.python,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "--ignore-glob=*.c",
        "tests",
    )
    if "error" in listing.splitlines()[-1]:
        raise SystemExit(f"tests cannot be collected:\n{listing[-4000:]}")
    found = names_of_tests(listing)
    for path in sorted(checkout.root.glob("tests/**/test_*.c")):
        for test in re.findall(r"\bET_CASE\((\w+)\)", path.read_text()):
            found.setdefault(test, []).append(str(path.relative_to(checkout.root)))
    return {"count": sum(map(len, found.values())), "files": found}


def bits(checkout: Checkout) -> Record:
    (table,) = checkout.root.glob("tests/**/hashes.txt")
    content = table.read_bytes()
    return {"hash": hashlib.sha256(content).hexdigest(), "lines": content.count(b"\n")}


def size(checkout: Checkout) -> Record:
    """Bytes of the core runtime for each build that .ci/size.sh measures."""
    text = checkout.run("sh", ".ci/size.sh", check=False)
    found = re.findall(r"^== (.*)$|^text \+ rodata \+ data: (\d+) bytes$", text, flags=re.M)
    headings = [heading for heading, _ in found if heading]
    totals = [int(total) for _, total in found if total]
    if not totals:
        raise SystemExit(f"expected totals from .ci/size.sh, got:\n{text}")
    return dict(zip(headings, totals, strict=True))


SECTIONS: dict[str, Callable[[Checkout], Record]] = {
    "about": about,
    "exports": exports,
    "names": names,
    "tests": tests,
    "bits": bits,
    "size": size,
}


def record(options: argparse.Namespace) -> None:
    checkout = Checkout(options.checkout, options.python, options)
    found: Record = json.loads(options.out.read_text()) if options.only else {}
    for name, section in SECTIONS.items():
        if not options.only or name in options.only or name == "about":
            print(f"{name} …", flush=True)
            found[name] = section(checkout)
            options.out.write_text(json.dumps(found, indent=1, sort_keys=True))


# ---- comparing


def changed_exports(old: Record, new: Record) -> Iterator[str]:
    for name, before in sorted(old.items()):
        after = new.get(name)
        if after is None:
            yield f"export {name}: gone"
        elif "error" in after and "error" not in before:
            yield f"export {name}: refused now: {after['error']}"
        else:
            for part in sorted(before.keys() | after.keys()):
                if before.get(part) != after.get(part):
                    yield f"export {name}: {part} changed"


def lost_names(old: Record, new: Record, public: bool = False) -> Iterator[str]:
    """Modules and names that the new checkout lacks; with `public`, upstream's and documented."""
    for module, facts in sorted(old.items()):
        upstream, in_docs = set(facts["upstream"]), set(facts["documented"])
        kind = "upstream" if facts["is_upstream"] else "documented" if in_docs else "internal"
        if module not in new:
            if not (public and kind == "internal"):
                yield f"module {module} ({kind}): gone, with {len(facts['names'])} names"
            continue
        for name in sorted(set(facts["names"]) - set(new[module]["names"])):
            kind = (
                "upstream" if name in upstream else "documented" if name in in_docs else "internal"
            )
            if not (public and kind == "internal"):
                yield f"name {module}.{name} ({kind}): gone"


def lost_tests(old: Record, new: Record) -> Iterator[str]:
    """Tests that are lost, by function and parameters; the file is ignored, the count is not.

    A test without parameters is still there when it was given some.
    """
    before = Counter({test: len(files) for test, files in old["files"].items()})
    after = Counter({test: len(files) for test, files in new["files"].items()})
    with_parameters = {test.partition("[")[0] for test in after if "[" in test}
    for test, n in sorted((before - after).items()):
        if test in with_parameters:
            continue
        files = ", ".join(old["files"][test])
        yield f"test {test}: {n} lost of {before[test]} ({files})"


def changed_bits(old: Record, new: Record) -> Iterator[str]:
    if old != new:
        yield f"bits: the table changed ({old['lines']} lines, {new['lines']} now)"


def changed_sizes(old: Record, new: Record) -> Iterator[str]:
    """Builds of the core that grew, and those beyond the limit."""
    for build, before in sorted(old.items()):
        after = new.get(build)
        if after is None:
            yield f"size {build}: not measured"
        elif after > before:
            yield f"size {build}: {before} -> {after} bytes"
        elif "codes only" in build and after > LIMIT:
            yield f"size {build}: {after} bytes, expected at most {LIMIT}"


def differences(old: Record, new: Record, public: bool = False) -> list[str]:
    """All differences of two records, one line each; sections that only one has are named."""
    found: list[str] = []
    parts: dict[str, Callable[[Record, Record], Iterator[str]]] = {
        "exports": changed_exports,
        "names": lambda a, b: lost_names(a, b, public),
        "tests": lost_tests,
        "bits": changed_bits,
        "size": changed_sizes,
    }
    for section, part in parts.items():
        if (section in old) != (section in new):
            found.append(f"section {section}: in one record only")
        elif section in old:
            found += part(old[section], new[section])
    return found


def notes(old: Record, new: Record) -> Iterator[str]:
    """Circumstances that differ and that records depend on."""
    if not new["about"]["asked"] and old["about"]["commit"] != new["about"]["commit"]:
        yield "the new record was made without --asked OLD.json: aliases of names count as gone"
    for fact in ("catalogue", "machine", "torch", "torchao", "xnnpack"):
        if old["about"][fact] != new["about"][fact]:
            yield f"{fact} differs: {old['about'][fact]} and {new['about'][fact]}"
    for fact in ("instructions", "torch_instructions", "int8_products", "amx"):
        if old["about"][fact] != new["about"][fact]:
            yield (
                f"{fact} differs: {old['about'][fact]} and {new['about'][fact]}; quantized exports "
                "and results are the same on one class of processors only"
            )


def compare(options: argparse.Namespace) -> int:
    old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    for note in notes(old, new):
        print(f"note: {note}")
    reasons: dict[str, str] = {}
    if options.explained is not None:
        for line in options.explained.read_text().splitlines():
            difference, _, reason = line.partition("  # ")
            reasons[difference.strip()] = reason.strip()
    found = differences(old, new, options.public)
    for line in found:
        print(f"{line}  # {reasons[line]}" if reasons.get(line) else line)
    counted = [line for line in found if not reasons.get(line)]
    n = {section: len(old.get(section, ())) for section in ("exports", "names")}
    print(
        f"{n['exports']} exports, {n['names']} modules, {old.get('tests', {}).get('count', 0)} -> "
        f"{new.get('tests', {}).get('count', 0)} tests: {len(counted)} differences"
        + (f", {len(found) - len(counted)} more explained" if len(found) > len(counted) else "")
    )
    return 1 if counted else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_record = commands.add_parser("record")
    of_record.add_argument("checkout", type=Path)
    of_record.add_argument("out", type=Path)
    of_record.add_argument("--python", default=sys.executable)
    of_record.add_argument("--asked", type=Path, help="the old record, whose names are looked up")
    of_record.add_argument("--upstream", type=Path, help="the folder of upstream's package")
    of_record.add_argument("--twice", action="store_true", help="prove that exports are stable")
    of_record.add_argument("--only", action="append", choices=sorted(SECTIONS), default=[])
    of_compare = commands.add_parser("compare")
    of_compare.add_argument("old", type=Path)
    of_compare.add_argument("new", type=Path)
    of_compare.add_argument("--public", action="store_true")
    of_compare.add_argument("--explained", type=Path)
    of_times = commands.add_parser("times", add_help=False)
    of_times.add_argument("rest", nargs=argparse.REMAINDER)
    options, more = parser.parse_known_args()
    if options.command == "times":
        arguments = [*options.rest, *more]
        return subprocess.run([sys.executable, HERE / "checkout_times.py", *arguments]).returncode
    if more:
        parser.error(f"unknown arguments: {more}")
    if options.command == "record":
        record(options)
        return 0
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
