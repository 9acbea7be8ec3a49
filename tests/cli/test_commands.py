"""The command line: run, inspect, doctor, on files of this project and of upstream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.program_maker import adder, program_bytes

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.cli import doctor
from executorch_py.cli.delegate_nodes import KINDS, delegate_nodes
from executorch_py.cli.main import main
from executorch_py.exir import to_edge

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "add.pte"
    path.write_bytes(program_bytes(adder(), adder((4,), "int64", name="whole")))
    return str(path)


def test_run_takes_npy_files_and_saves_outputs(program: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "out.npz"
    x = str(tmp_path / "x.npy")
    assert main(["run", program, x, x, "--output", str(out), "--print", "--threads", "1"]) == 0
    np.testing.assert_array_equal(np.load(out)["output_0"], X + X)


def test_run_takes_one_npz_by_name_or_order(program: str, tmp_path: Path) -> None:
    path, out = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    for names in (("input_1", "input_0"), ("b", "a")):
        np.savez(path, **{names[0]: X, names[1]: X * 2})
        assert main(["run", program, path, "--output", out]) == 0
        np.testing.assert_array_equal(np.load(out)["output_0"], X * 3)


def test_run_generates_inputs_and_times_runs(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", program, "--ones", "--method", "whole", "--repeat", "5"]) == 0
    text = capsys.readouterr().out
    assert "ran 5 times" in text
    assert "[2 2 2 2]" in text
    assert main(["run", program, "--random", "--seed", "1"]) == 0
    assert "ran in" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["run", "PROGRAM", "--ones"], ["--help"]])
def test_a_reader_that_leaves_early_ends_a_command_quietly(
    program: str, arguments: list[str]
) -> None:
    words = [program if word == "PROGRAM" else word for word in arguments]
    process = subprocess.Popen(
        [sys.executable, "-m", "executorch_py", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "/absent.pte", "--ones"], "No such file"),
        (["run", "PROGRAM"], "expected 2 tensor inputs"),
        (["run", "PROGRAM", "--ones", "--method", "absent"], "no method 'absent'"),
        (["run", "PROGRAM", "--ones", "--repeat", "0"], "--repeat: expected 1 or more, got 0"),
        (
            ["run", "PROGRAM", "--ones", "--output", "a.txt"],
            "expected a name that ends in .npz, got 'a.txt'",
        ),
        (["run", "PROGRAM", "--ones", "--data", "/absent.ptd"], "No such file"),
        (["run", "PROGRAM", "/absent.npy", "/absent.npy"], "No such file"),
        (["inspect", "/absent.pte"], "No such file"),
    ],
)
def test_failures_are_one_line_and_exit_code_one(
    arguments: list[str], message: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([program if a == "PROGRAM" else a for a in arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.pte")), ids=lambda p: p.stem)
def test_inspect_accounts_for_every_byte_of_upstreams_files(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    layout = facts["layout"]
    assert layout["file_bytes"] == path.stat().st_size
    end = max(
        [layout["flatbuffer_bytes"]] + [s["offset"] + s["nbytes"] for s in layout["segments"]]
    )
    assert end == layout["file_bytes"]
    assert all(s["use"] for s in layout["segments"] if s["nbytes"])
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "layout of the file" in text
    for method in facts["methods"]:
        folded = method["name"] in facts["constant_methods"]
        assert (f"method {method['signature']}" in text) != folded


def test_inspect_names_delegates_and_what_this_build_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["inspect", str(GOLDEN / "xnnpack.pte"), "--json"])
    facts = json.loads(capsys.readouterr().out)
    delegate = facts["methods"][0]["delegates"][0]
    assert delegate["id"] == "XnnpackBackend"
    assert delegate["nbytes"] > 0
    assert sum(delegate["nodes"].values()) > 0 and delegate["nodes"].keys() <= set(KINDS)
    assert any("XnnpackBackend" in use for s in facts["layout"]["segments"] for use in s["use"])


def test_inspect_names_nodes_as_the_payload_does_and_none_of_a_damaged_one() -> None:
    assert [(i, name) for i, name in enumerate(KINDS, 1)] == [(k.value, k.name) for k in NodeKind]
    data = (GOLDEN / "xnnpack.pte").read_bytes()
    at = data.index(b"XH00")
    assert delegate_nodes(data[: at + 6] + bytes(8) + data[at + 14 :]) == {"forward": [None]}


def test_external_weights_are_given_with_data(capsys: pytest.CaptureFixture[str]) -> None:
    path, data = GOLDEN / "external.pte", GOLDEN / "external.ptd"
    assert main(["run", str(path), "--ones", "--data", str(data)]) == 0
    assert main(["run", str(path), "--ones"]) == 1
    assert main(["inspect", str(path)]) == 0
    assert "in a .ptd file" in capsys.readouterr().out


def test_doctor_shows_versions_threads_and_features() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "executorch_py", "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    facts = json.loads(done.stdout)
    assert facts["runtime"]["ok"]
    assert facts["runtime"]["cpu_count"] >= 1
    assert facts["numpy"] == np.__version__
    xnnpack, backends = facts["runtime"]["xnnpack"], facts["runtime"]["backends"]
    assert (xnnpack is None) == ("XnnpackBackend" not in backends)
    assert main(["doctor"]) == 0


def test_doctor_names_xnnpack_and_its_kernels_or_how_to_have_it() -> None:
    linked = {"version": "1.2", "instruction_sets": ["avx2", "avx512f"], "own_kernels": []}
    assert doctor.xnnpack_text(linked) == "1.2, kernels for avx2 avx512f"
    linked["own_kernels"] = ["f32_gemm_5x16__fma3"]
    assert doctor.xnnpack_text(linked).endswith("replaced by tuned kernels: f32_gemm_5x16__fma3")
    said = doctor.xnnpack_text(None)
    for part in ("not in this build", "XnnpackBackend", "C++", "XNNPACK_DIR", "get_xnnpack.py"):
        assert part in said


def test_usage_errors_exit_with_two() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run"])
    assert caught.value.code == 2


def test_inspect_folds_constant_methods_into_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    constants = {"max_len": 128, "use_cache": True, "name": "tiny", "table": torch.ones(2, 3)}
    path = tmp_path / "model.pte"
    to_edge(exported, constant_methods=constants).to_executorch().save(path)
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "constant methods\n" in text
    for line in ("max_len: 128", "use_cache: True", "name: 'tiny'", "table: float32[2, 3]"):
        assert f"\n  {line}\n" in text
    assert text.count("planned memory") == 1  # of the method that runs
    assert main(["inspect", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["constant_methods"]["max_len"] == 128
    assert len(facts["methods"]) == 5
