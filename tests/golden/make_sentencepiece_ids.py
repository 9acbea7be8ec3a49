"""Records the ids and texts that sentencepiece gives for the models of support/piece_files.py.

pip install sentencepiece==0.2.3
PYTHONPATH=tests python tests/golden/make_sentencepiece_ids.py
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import sentencepiece
from support.piece_files import TEXTS, variants


def record() -> dict[str, object]:
    draw = random.Random(1)
    models = {}
    for name, file in variants().items():
        made = sentencepiece.SentencePieceProcessor(model_proto=file.sentencepiece())
        drawn = [[draw.randrange(made.vocab_size()) for _ in range(8)] for _ in range(4)]
        models[name] = {
            "encode": [made.encode(text) for text in TEXTS],
            "decode": [[ids, made.decode(ids)] for ids in drawn],
        }
    return {"sentencepiece": sentencepiece.__version__, "models": models}


if __name__ == "__main__":
    path = Path(__file__).with_name("sentencepiece_ids.json")
    recorded = record()
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.pop("models").items()]
    head = json.dumps(recorded)[1:-1]
    path.write_text("{" + head + ', "models": {\n' + ",\n".join(lines) + "\n}}\n")
