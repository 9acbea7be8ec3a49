"""The client of the package openai against the server."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from support.llm_server import TEMPLATE, SlowRunner, runners, wait_for

from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.serve import LlmServer

PROMPT = "a prompt of words"
MESSAGES = [{"role": "user", "content": "hi"}]
KEY = "a key"


@pytest.fixture
def server(files: tuple[Path, Path]) -> Iterator[LlmServer]:
    made = runners(files, 2, SlowRunner)
    facts = {"model": "tiny", "api_key": KEY, "template": TEMPLATE}
    with LlmServer(made, port=0, log=lambda _: None, **facts) as server:
        yield server


@pytest.fixture
def client(server: LlmServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client
    gc.collect()  # of sockets, whose warnings belong to the test that opened them


def test_a_chat_and_its_stream_have_one_text(client: openai.OpenAI, runner: TextRunner) -> None:
    text = runner.generate("user: hi\n", max_new_tokens=9).text
    options = {"model": "tiny", "messages": MESSAGES, "max_tokens": 9, "temperature": 0}
    whole = client.chat.completions.create(**options)
    assert whole.choices[0].message.content == text
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None and whole.usage.completion_tokens == 9
    stream = client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.usage is not None and last.usage.total_tokens == whole.usage.total_tokens
    assert last.usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1


def test_a_completion_and_its_stream_have_one_text(
    client: openai.OpenAI, runner: TextRunner
) -> None:
    text = runner.generate(PROMPT, max_new_tokens=9).text
    options = {"model": "tiny", "prompt": PROMPT, "max_tokens": 9, "temperature": 0}
    assert client.completions.create(**options).choices[0].text == text
    stream = client.completions.create(**options, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == text


def test_log_probabilities_are_those_of_the_client_s_types(client: openai.OpenAI) -> None:
    options = {"model": "tiny", "messages": MESSAGES, "max_tokens": 3}
    chat = client.chat.completions.create(**options, logprobs=True, top_logprobs=2)
    shown = chat.choices[0].logprobs.content
    assert len(shown) == 3 and all(len(one.top_logprobs) == 2 for one in shown)
    text = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=3, logprobs=2)
    assert len(text.choices[0].logprobs.token_logprobs) == 3


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "executorch_py"


def test_errors_are_those_of_the_client_s_types(client: openai.OpenAI, server: LlmServer) -> None:
    with pytest.raises(openai.BadRequestError, match="tools: expected ") as found:
        client.chat.completions.create(
            model="tiny", messages=MESSAGES, tools=[{"type": "function", "function": {"name": "f"}}]
        )
    assert found.value.param == "tools" and found.value.code == "unsupported_value"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="tiny", input="a", encoding_format="float")
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="another", max_retries=0) as other,
        pytest.raises(openai.AuthenticationError),
    ):
        other.models.list()


def test_a_stream_that_is_closed_frees_its_session(
    client: openai.OpenAI, server: LlmServer
) -> None:
    pool = server._site.endpoints._pool
    stream = client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
    next(iter(stream))
    assert pool.n_idle == 1
    stream.close()
    wait_for(lambda: pool.n_idle == 2)
