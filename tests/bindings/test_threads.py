"""Threads, signals, re-entrancy and fork around running methods."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program_maker import adder, program_bytes, summing_loop

from executorch_py import _C, errors

ROOT = Path(__file__).resolve().parents[2]


def test_methods_of_one_program_run_from_many_threads_with_right_results() -> None:
    program = _C.open_program(
        program_bytes(adder((1000,)), adder((1000,), name="second"), summing_loop(20, 1000, "loop"))
    )
    methods = {name: program.load_method(name) for name in ("forward", "second", "loop")}

    def work(seed: int) -> None:
        for i in range(100):
            x = np.full(1000, seed * 1000 + i, np.float32)
            np.testing.assert_array_equal(methods["forward"].execute([x, x])[0], x + x)
            np.testing.assert_array_equal(methods["second"].execute([x, x])[0], x + x)
            np.testing.assert_array_equal(methods["loop"].execute([x])[0], x * 20)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, seed) for seed in range(4)]:
            done.result()


def test_the_gil_is_free_while_a_method_runs() -> None:
    method = _C.open_program(program_bytes(summing_loop(2000, 1 << 18))).load_method("forward")
    x = np.ones(1 << 18, np.float32)
    seen: list[float] = []
    thread = threading.Thread(target=lambda: method.execute([x]))
    thread.start()
    while thread.is_alive():
        seen.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(seen) > 10


def test_a_run_paused_for_signals_goes_on_with_the_right_result() -> None:
    method = _C.open_program(program_bytes(summing_loop(2000, 1 << 18))).load_method("forward")
    ticks: list[float] = []
    old = signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.perf_counter()))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        started = time.perf_counter()
        (result,) = method.execute([np.ones(1 << 18, np.float32)])
        seconds = time.perf_counter() - started
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    np.testing.assert_array_equal(result, 2000.0)
    if seconds > 0.3:  # long enough that a handler must have run in the middle
        assert any(started < tick < started + seconds - 0.05 for tick in ticks)


ENDLESS = """
import os, signal, sys, threading, time
import numpy as np
from executorch_py import _C
program = _C.open_program(sys.argv[1])
method = program.load_method("forward")
x = np.ones(1 << 18, np.float32)
if sys.argv[2:] == ["idle"]:  # so long that nothing watches for signals any more
    program.load_method("short").execute([x[:4]])
    time.sleep(1.6)
signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells ignore it
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
started = time.perf_counter()
try:
    method.execute([x])
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - started)
print(program.load_method("short").execute([x[:4]])[0].tolist())
print(method.closed)
"""


@pytest.mark.parametrize("before", [[], ["idle"]], ids=["at once", "after idleness"])
def test_ctrl_c_stops_a_long_run_and_leaves_the_program_usable(
    before: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "loop.pte"
    path.write_bytes(program_bytes(summing_loop(2_000_000, 1 << 18), summing_loop(3, 4, "short")))
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, str(path), *before],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first.startswith("interrupted")
    assert float(first.split()[1]) < 10
    assert second == "[3.0, 3.0, 3.0, 3.0]"
    assert third == "False"


def test_each_of_several_waiting_threads_gets_its_turn() -> None:
    program = _C.open_program(program_bytes(summing_loop(200, 1 << 12)))
    method = program.load_method("forward")
    x = np.ones(1 << 12, np.float32)
    runs = [0] * 6

    def work(i: int) -> None:
        for _ in range(50):
            np.testing.assert_array_equal(method.execute([x])[0], 200.0)
            runs[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert runs == [50] * len(runs)


def test_a_call_from_inside_a_conversion_is_refused_not_deadlocked() -> None:
    program = _C.open_program(program_bytes(adder()))
    method = program.load_method("forward")
    x = np.ones((2, 3), np.float32)
    caught: list[Any] = []

    class Reentrant:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            for call in (lambda: method.execute([x, x]), method.close, program.close):
                try:
                    call()
                except errors.InvalidState as error:
                    caught.append(error)
            return x

    np.testing.assert_array_equal(method.execute([Reentrant(), x])[0], x + x)
    assert len(caught) == 3
    assert "already running in this thread" in str(caught[0])


def test_close_waits_for_a_run_in_another_thread() -> None:
    program = _C.open_program(program_bytes(summing_loop(1000, 1 << 18)))
    method = program.load_method("forward")
    x = np.ones(1 << 18, np.float32)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(method.execute([x])[0]))
    thread.start()
    time.sleep(0.02)
    program.close()
    thread.join()
    assert program.closed
    assert len(results) == 1
    np.testing.assert_array_equal(results[0], 1000.0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_without_the_parents_threads() -> None:
    n = 1 << 20
    program = _C.open_program(program_bytes(adder((n,))), n_threads=2)
    method = program.load_method("forward")
    x = np.ones(n, np.float32)
    method.execute([x, x])
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        fresh = program.load_method("forward")
        good = bool(
            (method.execute([x, x])[0] == 2).all() and (fresh.execute([x, x])[0] == 2).all()
        )
        program.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(method.execute([x, x])[0], x + x)
