"""A user's kernel in one C file: built by the documented command, found by the exporter, run.

Every library is loaded in a separate process, since it stays loaded. Processes that only run files
need no torch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.tolerance import F32, F32_ROUNDING

import executorch_py
from executorch_py.cli.main import main
from executorch_py.exir.ir.runtime_kernels import kernel_advice
from executorch_py.toolchain.compiler import BuildError
from executorch_py.toolchain.op_library import build_ops, example_source

HERE = Path(__file__).resolve().parent
RECIPE = r"executorch_py build-ops my_op\.c -o my_op\.so"


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_script(text: str, *arguments: str) -> str:
    return python("-c", textwrap.dedent(text), *arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with softcap.so and more.so, built on the command line."""
    folder = tmp_path_factory.mktemp("ops")
    (folder / "softcap.c").write_text(example_source())
    said = python("-m", "executorch_py", "build-ops", str(folder / "softcap.c"))
    assert said.endswith("softcap.so: mylib::softcap.out\n")
    build_ops([str(HERE / "more_ops.c")], str(folder / "more.so"), flags=["-Werror", "-Wextra"])
    return folder


@pytest.fixture(scope="module")
def exported(built: Path) -> str:
    """Output of the export; the files are in the same folder."""
    libraries = [str(built / "softcap.so"), str(built / "more.so")]
    return python(str(HERE / "export_custom.py"), *libraries, str(built))


def test_export_without_the_kernel_names_a_remedy(exported: str) -> None:
    assert "mylib::softcap (node mylib_softcap_default)" in exported
    assert "a kernel of your own for mylib::softcap.out" in exported
    assert re.search(RECIPE, exported)
    assert 'executorch_py.load_ops("my_op.so")' in exported
    assert ".n_args = 4" in exported


def test_the_recipe_names_the_outputs_of_an_operator_that_has_several() -> None:
    assert ".n_args = 6, .writes = 3u << 3)" in kernel_advice("mylib::top2.out", 6, 2)
    assert ".n_args = 4)" in kernel_advice("mylib::softcap.out", 4)


def test_loading_returns_the_operators(exported: str) -> None:
    assert "['mylib::softcap.out']" in exported
    assert "['mylib::count', 'mylib::split_sign.out', 'mylib::weigh.out']" in exported


def test_a_functional_operator_alone_is_exported_and_runs(built: Path, exported: str) -> None:
    run_script(
        """
        import sys
        import numpy as np
        import executorch_py
        from executorch_py.runtime import Runtime, loaded_ops
        folder, bounds = sys.argv[1], [float(bound) for bound in sys.argv[2:]]
        eager = np.load(folder + "/eager.npz")
        program = Runtime.get().load_program(folder + "/softcap.pte", n_threads=3)
        try:
            program.load_method("forward")
            raise SystemExit("loaded without its kernel")
        except NotImplementedError as error:
            assert "no kernel for: mylib::softcap.out(f32, f32)" in str(error), error
            assert "executorch_py build-ops my_op.c -o my_op.so" in str(error), error
            assert "--ops my_op.so" in str(error), error
        executorch_py.load_ops(folder + "/softcap.so")
        assert executorch_py.load_ops(folder + "/softcap.so") == ["mylib::softcap.out"]
        assert loaded_ops() == {folder + "/softcap.so": ["mylib::softcap.out"]}
        assert "mylib::softcap.out" in Runtime.get().operator_registry.operator_names
        for x, y in (("x", "capped"), ("long", "long_capped")):
            out, = program.load_method("forward").execute([eager[x]])
            np.testing.assert_allclose(out, eager[y], *bounds)
        assert "torch" not in sys.modules
        """,
        str(built),
        *map(str, F32),
    )


def test_results_state_lists_and_prepared_memory_cross_the_border(
    built: Path, exported: str
) -> None:
    run_script(
        """
        import sys
        import numpy as np
        import executorch_py
        from executorch_py.runtime import Runtime
        folder, bounds = sys.argv[1], [float(bound) for bound in sys.argv[2:]]
        executorch_py.load_ops(folder + "/more.so")
        eager = np.load(folder + "/eager.npz")
        method = Runtime.get().load_program(folder + "/several.pte").load_method("forward")
        for run in (1, 2, 3):
            first, second, seen = method.execute([eager["x"]])
            np.testing.assert_allclose(first, eager["several_0"], *bounds)
            np.testing.assert_allclose(second, eager["several_1"], *bounds)
            assert seen.tolist() == [2 * run]
        """,
        str(built),
        *map(str, F32_ROUNDING),
    )


def test_a_failing_kernel_has_a_message_and_the_method_stays_usable(
    built: Path, exported: str
) -> None:
    run_script(
        """
        import sys
        import numpy as np
        import executorch_py
        from executorch_py.runtime import Runtime
        folder = sys.argv[1]
        executorch_py.load_ops(folder + "/softcap.so")
        method = Runtime.get().load_program(folder + "/wrong_cap.pte").load_method("forward")
        for _ in range(2):
            try:
                method.execute([np.zeros((2, 12), np.float32)])
                raise SystemExit("ran")
            except ValueError as error:
                assert "mylib::softcap.out" in str(error), error
                assert "cap: expected more than 0, got -1" in str(error), error
        """,
        str(built),
    )


def test_the_command_line_runs_and_lists_operators_of_a_library(built: Path, exported: str) -> None:
    model, library = str(built / "softcap.pte"), str(built / "softcap.so")
    said = python("-m", "executorch_py", "run", model, "--ones", "--ops", library)
    assert "1.92423" in said  # 2 tanh(1 / 2) + 1
    assert f"mylib::softcap.out   (from {library})" in python(
        "-m", "executorch_py", "inspect", model, "--ops", library
    )
    assert "mylib::softcap.out   (no kernel in this build)" in python(
        "-m", "executorch_py", "inspect", model
    )
    assert f"custom        mylib::softcap.out from {library}" in python(
        "-m", "executorch_py", "doctor", "--ops", library
    )


# ---- errors

_ROW = '{.name = "%s", .run = run, .n_args = 2}'
_FILE = """
#include "kernels/custom.h"
static et_status run(et_kernel_ctx *ctx, et_value *const *args) {
  (void)ctx, (void)args;
  return ET_OK;
}
static const et_op ops[] = {%s};
%s
"""
LIBRARY = "ET_OP_LIBRARY(ops);"
REFUSED = {
    "abi": (
        [_ROW % "a::b"],
        f"#undef ET_OPS_ABI\n#define ET_OPS_ABI 99u\n{LIBRARY}",
        "NotSupported",
        "was built against operator interface 99, this runtime has 3: build it again",
    ),
    "sizes": (
        [_ROW % "a::b"],
        f"typedef struct {{ char c[3]; }} small;\n#define et_error small\n{LIBRARY}",
        "NotSupported",
        "interface 3 with structures of other sizes, this runtime has 3",
    ),
    "no_library": (
        [_ROW % "a::b"],
        "const void *unused(void) { return ops; }",
        "InvalidArgument",
        "its C file needs ET_OP_LIBRARY",
    ),
    "no_namespace": (
        [_ROW % "relu"],
        LIBRARY,
        "InvalidArgument",
        "operator name: expected one with a namespace, as in mylib::softcap.out, got relu",
    ),
    "no_run": (
        ['{.name = "a::b", .n_args = 1 + 0 * sizeof run}'],
        LIBRARY,
        "InvalidArgument",
        "operator a::b: it has no run function",
    ),
    "no_args": (
        ['{.name = "a::b", .run = run}'],
        LIBRARY,
        "InvalidArgument",
        "n_args is 0; it counts",
    ),
    "twice": ([_ROW % "a::b"] * 2, LIBRARY, "InvalidArgument", "has operator a::b twice"),
    "built_in": (
        [_ROW % "aten::add.out"],
        LIBRARY,
        "AlreadyLoaded",
        "has operator aten::add.out, which is built in; replace=True",
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Errors raised by loading each of REFUSED, as `class: message`."""
    folder = tmp_path_factory.mktemp("refused")
    for name, (rows, ending, _, _) in REFUSED.items():
        source = folder / f"{name}.c"
        source.write_text(_FILE % (", ".join(rows), ending))
        build_ops([str(source)], str(folder / f"{name}.so"), flags=["-w", "-O0"])
    said = run_script(
        """
        import sys
        import executorch_py
        for path in sys.argv[1:]:
            try:
                executorch_py.load_ops(path)
                print("loaded")
            except executorch_py.runtime.runtime._C.ExecutorchError as error:
                print(f"{type(error).__name__}: {error}")
        """.replace("import executorch_py\n", "import executorch_py, executorch_py.runtime\n", 1),
        *(str(folder / f"{name}.so") for name in REFUSED),
    )
    return dict(zip(REFUSED, said.splitlines(), strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_library_is_refused_with_a_reason(refused: dict[str, str], name: str) -> None:
    _, _, kind, words = REFUSED[name]
    assert refused[name].startswith(kind + ": "), refused[name]
    assert words in refused[name]


def test_replacing_a_built_in_operator_needs_consent_and_works(tmp_path: Path) -> None:
    source = tmp_path / "add.c"
    source.write_text(_FILE % (_ROW % "aten::add.out", LIBRARY))
    build_ops([str(source)], str(tmp_path / "add.so"), flags=["-w", "-O0"])
    run_script(
        """
        import sys
        import executorch_py
        from executorch_py import _C
        assert _C.kernel_manifest()["aten::add.out"]["n_args"] == 5
        n = len(_C.kernel_manifest())
        executorch_py.load_ops(sys.argv[1], replace=True)
        assert _C.kernel_manifest()["aten::add.out"]["n_args"] == 2
        assert len(_C.kernel_manifest()) == n
        """,
        str(tmp_path / "add.so"),
    )


def test_a_library_rebuilt_while_loaded_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "op.c"
    source.write_text(_FILE % (_ROW % "a::b", LIBRARY))
    run_script(
        """
        import sys
        import executorch_py
        from executorch_py.errors import AlreadyLoaded
        from executorch_py.toolchain.op_library import build_ops
        source, library = sys.argv[1:]
        build_ops([source], library, flags=["-O0"])
        assert executorch_py.load_ops(library) == ["a::b"]
        text = open(source).read().replace("a::b", "a::c")
        open(source, "w").write(text)
        build_ops([source], library, flags=["-O0"])
        try:
            names = executorch_py.load_ops(library)
            raise SystemExit(f"loaded {names}")
        except AlreadyLoaded as error:
            assert "start Python again" in str(error)
        """,
        str(source),
        str(tmp_path / "op.so"),
    )


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(OSError, match=r"text\.so cannot be loaded"):
        executorch_py.load_ops(tmp_path / "text.so")
    with pytest.raises(OSError, match=r"absent\.so cannot be read"):
        executorch_py.load_ops(tmp_path / "absent.so")


def test_the_compilers_output_is_in_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "broken.c"
    source.write_text('#include "kernels/custom.h"\nint x = undeclared_name;\n')
    with pytest.raises(BuildError, match="undeclared_name"):
        build_ops([str(source)], str(tmp_path / "broken.so"))
    assert not list(tmp_path.glob("*.so*"))
    with pytest.raises(FileNotFoundError, match=r"build-ops --example > my_op\.c"):
        build_ops([str(tmp_path / "absent.c")], str(tmp_path / "absent.so"))
    assert main(["build-ops", str(source), "--cc", "no-such-compiler"]) == 1
    assert "the C compiler 'no-such-compiler' is not on PATH" in capsys.readouterr().err


def test_the_headers_are_where_include_dir_says() -> None:
    folder = Path(executorch_py.include_dir())
    assert (folder / "kernels" / "custom.h").is_file()
    assert (folder / "runtime" / "et.h").is_file()
