"""Names of upstream's `_serialize` and data files: the same script gives the same on both sides."""

from __future__ import annotations

import pytest
from support.same_script import SameScripts

PACKAGE = """
import json, os, tempfile, zipfile
import torch
from executorch.exir._serialize._ptn import ALIASES_ENTRY, PTG_ENTRY, SAFETENSORS_ENTRY
from executorch.exir._serialize._ptn import read_ptn, write_ptn

def refused(*args, **kwargs):
    try:
        write_ptn(*args, **kwargs)
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
"""
SCRIPTS = SameScripts(
    {
        "contents": PACKAGE
        + """
path = os.path.join(tempfile.mkdtemp(), "folder", "m.ptn")
w = torch.arange(6.0).reshape(2, 3)
tensors = {
    "b": w, "a": w.clone(), "t": w.t(), "state": w.clone(), "bits": torch.tensor([True, False]),
    "half": torch.tensor([1.5], dtype=torch.bfloat16), "none": torch.empty(0, 4),
    "scalar": torch.tensor(7, dtype=torch.int64), "c": torch.tensor([1 + 2j]),
}
write_ptn(path, b"graph", tensors, frozenset(["state"]))
graph, read = read_ptn(path)
with zipfile.ZipFile(path) as package:
    members = [(i.filename, i.compress_type) for i in package.infolist()]
    aliases = json.loads(package.read(ALIASES_ENTRY))
    tensor_bytes = package.read(SAFETENSORS_ENTRY).hex()
equal = {k: bool(torch.equal(read[k], v)) and read[k].dtype == v.dtype for k, v in tensors.items()}
result = [graph.decode(), members, aliases, tensor_bytes, equal, PTG_ENTRY]
""",
        "refusals": PACKAGE
        + """
w, path = torch.ones(4), os.path.join(tempfile.mkdtemp(), "m.ptn")
result = [
    refused(path, b"", {"a": w}, frozenset(["other"])),
    refused(path, b"", {1: w}),
    refused(path, b"", {"__metadata__": w}),
    refused(path, b"", {"a": [1.0]}),
    refused(path, b"", {"a": torch.zeros(2, dtype=torch.complex128)}),
    refused(path, b"", {"a": w[:2], "b": w[2:]}, frozenset(["b"])),
    refused(path, b"", {"a": w[:2], "b": w[2:]}),
]
""",
        "files": """
import hashlib, io, os, pathlib, tempfile
from executorch.exir._serialize._cord import Cord, FileBackedData

folder = tempfile.mkdtemp()
def file(name, data):
    path = os.path.join(folder, name)
    pathlib.Path(path).write_bytes(data)
    return path

first = file("a", b"abc" * 10)
kept = FileBackedData(first)
moved = FileBackedData.move_from(file("b", b"xyz"))
cord = Cord(b"<")
cord.append(kept)
cord.append(Cord(moved))
out = io.BytesIO()
cord.write_to_file(out)
facts = [len(cord), bytes(cord).decode(), out.getvalue().decode(), kept.prefix(4).decode()]
facts += [kept.sha256() == hashlib.sha256(b"abc" * 10).digest(), moved.to_bytes().decode()]
facts += [len(os.listdir(folder)), os.path.exists(os.path.join(folder, "b"))]
moved.close()
kept.close()
with FileBackedData(file("c", b"1"), cleanup=True) as one:
    facts.append(len(one))
facts.append(sorted(os.listdir(folder)))
try:
    Cord("text")
except TypeError as error:
    facts.append(type(error).__name__)
result = facts
""",
        "external": """
import os, pathlib, tempfile
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._cord import FileBackedData

store = NamedDataStore()
path = os.path.join(tempfile.mkdtemp(), "data")
pathlib.Path(path).write_bytes(b"x" * 40)
store.add_named_data("big", FileBackedData(path))
store.add_named_data("twin", b"x" * 40)
for name, size in (("c", 30), ("a", 50), ("b", 20), ("d", 64)):
    store.add_named_data(name, name.encode() * size, alignment=16)
store.add_named_data("there", b"out", external_tag="file")

def refused(*args):
    try:
        store.externalize_pte_data(*args)
    except ValueError:
        return [len(store.pte_data), sorted(store.external_data)]

def entries(places):
    return {k: [v.buffer_index, v.alignment] for k, v in places.items()}

bad = [refused(*args) for args in ((0, "t"), (True, "t"), (64.0, "t"), (64, ""), (63, "t"))]
store.externalize_pte_data(64, "part")
output = store.get_named_data_store_output()
result = [bad, len(output.buffers), entries(output.pte_data)]
result += [{tag: entries(keys) for tag, keys in output.external_data.items()}]
result += [[list(keys) for keys in output.external_data.values()]]
""",
        "data file": """
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig, FlatTensorSerializer)

serializer = FlatTensorSerializer(FlatTensorConfig())
file = serializer.serialize(DataPayload([b"one", b"two"], {"a": DataEntry(0, 1, None),
                            "b": DataEntry(1, 16, None), "c": DataEntry(0, 1, None)}))
output = serializer.deserialize_to_named_data_store_output(bytes(file), "f.ptd")
keys = output.external_data["f.ptd"]
result = [[bytes(b).decode() for b in output.buffers], output.pte_data]
result += [{k: [v.buffer_index, v.alignment] for k, v in sorted(keys.items())}]
""",
        "version": """
from executorch import version
result = [isinstance(version.__version__, str), hasattr(version, "git_version")]
""",
    }
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_it_gives_with_upstream(name: str) -> None:
    SCRIPTS.check(name)
