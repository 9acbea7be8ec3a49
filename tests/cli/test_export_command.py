"""`executorch_py export`: a model without a script, whose file `run` reads; failures leave none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.paths import ROOT

from executorch_py.cli.main import main
from executorch_py.export.command_line import load_model
from executorch_py.runtime import Runtime

SOURCE = """
import torch

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.classify = torch.nn.Linear(8 * 8 * 8, 10)

    def forward(self, images):
        return self.classify(torch.relu(self.features(images)).flatten(1))

class Masked(torch.nn.Module):
    def forward(self, ids, mask, scale=None):
        return (ids * mask).float()

class Branch(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

class Needs(torch.nn.Module):
    def __init__(self, size):
        super().__init__()

def make():
    torch.manual_seed(0)
    return Classifier()

seeded = make()
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of models, whose imports are undone."""
    (tmp_path / "net.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "net", raising=False)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix == ".pte"}


def test_a_model_with_a_dynamic_size_is_exported_verified_and_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--input", "1x1x8x8", "--dynamic", "images.0=1..64", "--verify"]
    assert main(["export", "net:Classifier", *arguments]) == 0
    text = capsys.readouterr().out
    assert "forward(images: float32[1…64, 1, 8, 8])" in text
    assert "every dynamic dim at its max" in text
    assert "executorch_py run classifier.pte --random" in text
    assert main(["run", "classifier.pte", "--shape", "images=5x1x8x8", "--output", "o.npz"]) == 0
    with np.load(folder / "o.npz") as saved:
        assert [saved[name].shape for name in saved.files] == [(5, 10)]


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("scheme", ["int8", "int8-dynamic"])
def test_a_quantized_model_is_near_the_float_one(folder: Path, backend: str, scheme: str) -> None:
    if backend == "xnnpack" and not Runtime.get().backend_registry.is_available("XnnpackBackend"):
        pytest.skip("this build has no XNNPACK")
    images = np.random.default_rng(0).standard_normal((8, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "images.npz", images=images)
    calibrate = ["--calibrate", "images.npz"] if scheme == "int8" else []
    options = ["--input", "2x1x8x8", "--quantize", scheme, *calibrate, "--backend", backend]
    assert main(["export", "net.py:make", *options, "-o", "q.pte", "--verify"]) == 0
    method = Runtime.get().load_program("q.pte").load_method("forward")
    (result,) = method.execute([images[:2]])
    torch.manual_seed(0)
    wanted = load_model("net.py:make")(torch.from_numpy(images[:2])).detach().numpy()
    assert np.corrcoef(result.ravel(), wanted.ravel())[0, 1] > 0.99


def test_inputs_are_named_typed_and_share_sizes(folder: Path) -> None:
    given = ["--input", "mask=2x5:bool", "--input", "ids=2x5:int64"]
    assert main(["export", "net:Masked", *given, "--dynamic", "ids.1,mask.1=2..9"]) == 0
    signature = Runtime.get().load_program("masked.pte").signature
    assert [(a.name, a.dtype, a.shape) for a in signature.inputs] == [
        ("ids", "int64", (2, (2, 9))),
        ("mask", "bool", (2, (2, 9))),
    ]


def test_objects_files_of_tensors_and_saved_exports_are_taken(folder: Path) -> None:
    np.save(folder / "x.npy", np.ones((2, 1, 8, 8), np.float32))
    torch.save(torch.ones(2, 1, 8, 8), folder / "x.pt")
    for file in ("x.npy", "images=x.pt"):
        assert main(["export", "net:seeded", "--input", file, "-o", "object.pte"]) == 0
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    torch.export.save(exported, folder / "relu.pt2")
    assert main(["export", "relu.pt2", "--verify"]) == 0
    assert files(folder) == {"object.pte", "relu.pte"}


ONE = ["--input", "2x1x8x8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["net"], "expected module:Model, file.py:Model"),
        (["net:Absent", *ONE], "no such name; it has Classifier, Masked"),
        (["no_net:Absent", *ONE], "that can be imported from here, got none: give its file"),
        (["no.py:Absent", *ONE], "there is no file 'no.py'"),
        (["no.pt2"], "there is no file 'no.pt2'"),
        (["net:Needs", *ONE], "name a function without arguments"),
        (["net:number", *ONE], "expected a torch.nn.Module"),
        (["net:Classifier"], "got none for ['images']: write --input images="),
        (["net:Masked", *ONE], "got none for ['mask']"),
        (["net:Classifier", *ONE, *ONE], "expected at most one for each of ['images'], got 2"),
        (["net:Classifier", "--input", "1,1,8,8"], "--input: expected a shape such as 1x3x224"),
        (["net:Classifier", "--input", "img=2x1x8x8"], "the model's arguments ['images'], got 'i"),
        (["net:Classifier", "--input", "2x1x8x8:f32"], "a dtype such as float32, int64 or bool"),
        (["net:Classifier", "--input", "no.npy"], "there is no file 'no.npy'"),
        (["net:Classifier", "--input", "2x3x8x8"], "RuntimeError: "),
        (["net:Classifier", *ONE, "--dynamic", "batch=1..4"], "such as images.0=1..64"),
        (["net:Classifier", *ONE, "--dynamic", "x.0=1..4"], "inputs of ['images'], got 'x'"),
        (["net:Classifier", *ONE, "--dynamic", "images.9=4"], "a dimension below 4, got 9"),
        (["net:Classifier", *ONE, "--dynamic", "images.0=4..4"], "smallest size below the largest"),
        (["net:Classifier", *ONE, "-o", "x.bin"], "a name that ends in .pte, got 'x.bin'"),
        (["net:Classifier", *ONE, "-o", "none/x.pte"], "expected an existing folder"),
        (["net:Classifier", *ONE, "--calibrate", "x.npy"], "expected --quantize int8 beside it"),
    ],
)
def test_a_wrong_option_is_one_line_and_leaves_no_file(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("executorch_py export: ") and error.count("\n") == 1
    assert not files(folder)


def test_a_failure_of_torch_is_short_and_its_page_is_shown_with_verbose(folder: Path) -> None:
    command = [sys.executable, "-m", "executorch_py", "export", "net:Branch", "--input", "2x3"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    for more, is_short in ((), True), (("--verbose",), False):
        done = subprocess.run(
            [*command, *more], capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 1
        assert "net.py, line 19, in forward" in done.stderr
        assert "torch.where(x.sum() > 0, " in done.stderr
        assert ("data-dependent expression" not in done.stderr) == is_short
        assert (len(done.stderr.splitlines()) <= 12) == is_short
    assert not files(folder)


def test_a_model_that_verification_refuses_is_not_saved(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "drawn.py").write_text(
        "import torch\n"
        "class Drawn(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x + torch.rand(3)\n"
    )
    assert main(["export", "drawn.py:Drawn", "--input", "3", "--verify"]) == 1
    assert "output 0" in capsys.readouterr().err
    assert not files(folder)
