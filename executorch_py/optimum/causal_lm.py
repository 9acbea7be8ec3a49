"""ExecuTorchModelForCausalLM, with the methods of optimum-executorch."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_py.atomic_file import replacing
from executorch_py.errors import InvalidArgument, NotFound
from executorch_py.extension.llm.session import Session
from executorch_py.optimum.options import ExportOptions
from executorch_py.runtime import Program, Runtime

if TYPE_CHECKING:
    import torch

FILE = "model.pte"
_BESIDE = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


class ExecuTorchModelForCausalLM:
    """A decoder's program. `model` of optimum-executorch is `program` here."""

    def __init__(self, program: Program, folder: Path | None = None) -> None:
        self.program = program
        self._folder = folder
        self._session = Session(program)
        self._method: Any = None

    @classmethod
    def from_pretrained(
        cls,
        model_id: str | os.PathLike[str],
        export: bool | None = None,
        *,
        file_name: str = FILE,
        **options: Any,
    ) -> ExecuTorchModelForCausalLM:
        """The model of a folder: of its `file_name`, or exported from its weights.

        With `export` None, it is exported if the folder has no such file. `options` are the fields
        of ExportOptions: recipe, target, qlinear and others. NotFound if there is no such folder:
        models are not downloaded.
        """
        folder = Path(model_id)
        if not folder.is_dir():
            raise NotFound(
                f"model_id: expected a folder with a model of transformers or a {file_name}, got "
                f"{str(model_id)!r}; download it first (`hf download`) [NotFound, error: 0x20]"
            )
        checked = ExportOptions.of(options)
        file = folder / file_name
        if export or (export is None and not file.exists()):
            from executorch_py.optimum.export import export_program

            return cls(Runtime.get().load_program(export_program(folder, checked)), folder)
        if checked != ExportOptions():
            raise InvalidArgument(
                f"options of an export: expected none, as {str(file)!r} exists, got "
                f"{sorted(options)}; pass export=True [InvalidArgument, error: 0x12]"
            )
        return cls(Runtime.get().load_program(file), folder)

    @property
    def session(self) -> Session:
        """The conversation that generate() continues or begins anew."""
        return self._session

    def forward(
        self, input_ids: torch.Tensor, cache_position: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The program's logits, in its dtype: [1, S, vocabulary], or [1, vocabulary].

        The caches are not those of generate(). Without `cache_position`, positions begin at 0.
        """
        import torch

        if self._method is None:
            self._method = self.program.reopened().load_method("forward")
        first = 0 if cache_position is None else int(cache_position.reshape(-1)[0])
        inputs = self._session.interface.inputs(input_ids.reshape(-1).tolist(), first)
        logits: torch.Tensor = self._method.execute([torch.from_numpy(x) for x in inputs])[0]
        return logits

    __call__ = forward

    def generate(
        self,
        prompt_tokens: list[int],
        echo: bool = False,
        pos_base: int = 0,
        max_seq_len: int | None = None,
    ) -> list[int]:
        """The most probable tokens after a prompt, up to `max_seq_len` tokens with the prompt.

        It ends early with an end-of-sequence token. `pos_base` is the position of the prompt: what
        was read and generated before that position stays.
        """
        session = self._session
        length = session.capacity if max_seq_len is None else max_seq_len
        if length > session.capacity:
            warnings.warn(
                f"max_seq_len: expected at most {session.capacity}, the positions of the caches, "
                f"got {length}: generating up to that",
                stacklevel=2,
            )
            length = session.capacity
        prompt = [int(token) for token in prompt_tokens]
        limit = length - pos_base - len(prompt)
        if limit < 1:
            raise InvalidArgument(
                f"max_seq_len: expected more than the {pos_base + len(prompt)} tokens before the "
                f"first new one, got {length} [InvalidArgument, error: 0x12]"
            )
        session.rewind(pos_base)
        new = session.generate(prompt, limit)
        return prompt + new if echo else new

    def text_generation(
        self, tokenizer: Any, prompt: str, echo: bool = True, max_seq_len: int | None = None
    ) -> str:
        """The prompt, if `echo`, and the text after it, greedily."""
        tokens = self.generate(tokenizer.encode(prompt), echo=echo, max_seq_len=max_seq_len)
        text: str = tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> None:
        """Writes model.pte, and the configuration and tokenizer of the model's folder."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / FILE) as file:
            file.write(self.program._program.buffer().data)
        if self._folder is None or self._folder.resolve() == folder.resolve():
            return
        for name in _BESIDE:
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, folder / name)
