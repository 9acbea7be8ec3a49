"""Reasons for which tests of upstream's suites fail here; upstream_suites.py checks them."""

from __future__ import annotations

# Pattern of a failure's text (re) → reason. The first group, if there is one, is the reason.
MESSAGES: tuple[tuple[str, str], ...] = (
    (r"executorch_py has no [\w.]+: (.*? is not part of this package: .*)", "a refused name"),
    (r"executorch_py has no (?:[\w.]+\.)?_\w+:", "it uses a private name of upstream's"),
    (r"(?:has|have) no attribute '_\w+'", "it uses a private attribute of upstream's"),
    (
        r"""AssertionError: (?:".*" does not match "|(["']).*\1 not found in ["'])""",
        "the error is of upstream's class, its message is worded otherwise",
    ),
    (
        r"No module named '(torchvision|timm|torchaudio|transformers|omegaconf|parameterized)'",
        "a package that the suites need is not installed",
    ),
    (r"custom_ops_generated_lib|et_quant_test", "a test library in C++ is not in upstream's wheel"),
    (r"(?:a|'|an) Mock\b|unittest\.mock\.Mock", "it replaces parts of upstream's code by mocks"),
    (r"this version records no ETDump", "ETDump is not recorded by this version"),
    (r"no available backend for: ExecutorBackend", "its backend is not in upstream's wheel either"),
)

# Pattern of tests (fnmatch) → reason.
DIFFERENCES: tuple[tuple[str, str], ...] = ()
