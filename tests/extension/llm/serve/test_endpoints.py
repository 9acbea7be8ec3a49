"""Answers of the server: those of the runner, in the shapes of OpenAI's API and llama-server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.llm_server import TEMPLATE, ScriptedRunner, post, runners, send

from executorch_py.extension.llm.runner import TextRunner
from executorch_py.extension.llm.sampler import SamplingOptions
from executorch_py.extension.llm.serve import LlmServer

PROMPT = "a prompt of words"
DRAWN = {"temperature": 1.5, "seed": 3}


@pytest.fixture
def server(files: tuple[Path, Path]) -> Iterator[LlmServer]:
    with LlmServer(runners(files, 2), model="tiny", port=0, log=lambda _: None) as server:
        yield server


def expected(runner: TextRunner, n: int, **options: float) -> str:
    sampling = SamplingOptions(temperature=1.5, seed=3, **options)  # type: ignore[arg-type]
    return runner.generate(PROMPT, max_new_tokens=n, sampling=sampling).text


def test_a_completion_is_the_text_of_the_runner(server: LlmServer, runner: TextRunner) -> None:
    found = post(server, "/v1/completions", model="any", prompt=PROMPT, max_tokens=9, **DRAWN).json
    n_prompt = len(runner.tokenizer.encode(PROMPT))
    assert found["object"] == "text_completion" and found["model"] == "tiny"
    assert found["choices"] == [
        {
            "index": 0,
            "text": expected(runner, 9),
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert found["usage"] == {
        "prompt_tokens": n_prompt,
        "completion_tokens": 9,
        "total_tokens": n_prompt + 9,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_pieces_of_a_stream_make_the_text(server: LlmServer, runner: TextRunner) -> None:
    options = {"stream_options": {"include_usage": True}}
    reply = post(
        server, "/v1/completions", prompt=PROMPT, max_tokens=9, stream=True, **DRAWN, **options
    )
    *chunks, usage, done = reply.events
    assert reply.headers["Content-Type"] == "text/event-stream" and done == "[DONE]"
    assert "".join(c["choices"][0]["text"] for c in chunks) == expected(runner, 9)
    reasons = [c["choices"][0]["finish_reason"] for c in chunks]
    assert len(chunks) > 3 and reasons == [None] * (len(chunks) - 1) + ["length"]
    assert len({c["id"] for c in [*chunks, usage]}) == 1
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 9


def test_several_prompts_have_a_choice_each(server: LlmServer, runner: TextRunner) -> None:
    ids = runner.tokenizer.encode(PROMPT)
    fields = {"prompt": [ids, "other"], "max_tokens": 4, "temperature": 0}
    found = post(server, "/v1/completions", **fields).json
    wanted = [runner.generate(p, max_new_tokens=4).text for p in (PROMPT, "other")]
    assert [choice["text"] for choice in found["choices"]] == wanted
    assert [choice["index"] for choice in found["choices"]] == [0, 1]
    assert found["usage"]["completion_tokens"] == 8
    chunks = post(server, "/v1/completions", **fields, stream=True).events[:-1]
    for i, text in enumerate(wanted):
        own = [c["choices"][0]["text"] for c in chunks if c["choices"][0]["index"] == i]
        assert "".join(own) == text
    assert post(server, "/v1/completions", prompt=ids, max_tokens=2).status == 200


def test_a_stop_string_ends_the_text(server: LlmServer, runner: TextRunner) -> None:
    whole = expected(runner, 30)
    stop = whole[7:11]
    for given in (stop, ["never there", stop]):
        found = post(server, "/v1/completions", prompt=PROMPT, max_tokens=30, stop=given, **DRAWN)
        choice = found.json["choices"][0]
        assert choice["text"] == whole[: whole.index(stop)] and choice["finish_reason"] == "stop"


def test_a_token_that_ends_texts_is_ignored_when_asked(
    files: tuple[Path, Path], runner: TextRunner
) -> None:
    third = runner.generate(PROMPT, max_new_tokens=3).tokens[2]
    ending = TextRunner(*files, eos_ids=(third,))
    fields = {"prompt": PROMPT, "max_tokens": 9, "temperature": 0}
    with LlmServer([ending], model="m", port=0, log=lambda line: None) as server:
        answers = [
            post(server, "/v1/completions", **fields, ignore_eos=value).json["choices"][0]
            for value in (False, True)
        ]
    assert [answer["finish_reason"] for answer in answers] == ["stop", "length"]
    assert answers[1]["text"] == runner.generate(PROMPT, max_new_tokens=9).text


def test_a_text_without_a_limit_fills_the_context(server: LlmServer, runner: TextRunner) -> None:
    found = post(server, "/v1/completions", prompt=PROMPT).json
    assert found["usage"]["total_tokens"] == runner.session.capacity
    assert post(server, "/v1/completions", prompt=PROMPT, max_tokens=0).json["choices"][0] == {
        "index": 0,
        "text": "",
        "logprobs": None,
        "finish_reason": "length",
    }


def test_options_of_sampling_reach_the_sampler(server: LlmServer, runner: TextRunner) -> None:
    options = {"repetition_penalty": 1.7, "frequency_penalty": 0.5, "presence_penalty": 0.25}
    options |= {"top_k": 40, "top_p": 0.95, "min_p": 0.01, "typical_p": 0.9}
    fields = {k.replace("repetition_", "repeat_"): v for k, v in options.items()}
    found = post(server, "/v1/completions", prompt=PROMPT, max_tokens=12, **DRAWN, **fields).json
    assert found["choices"][0]["text"] == expected(runner, 12, **options)
    greedy = post(server, "/v1/completions", prompt=PROMPT, max_tokens=5, top_p=0).json
    text = runner.generate(PROMPT, max_new_tokens=5).text
    assert greedy["choices"][0]["text"] == text


@pytest.mark.parametrize("bias", [{"70": 100}, [[70, 100]]])
def test_a_bias_makes_a_token_certain(server: LlmServer, runner: TextRunner, bias: object) -> None:
    found = post(server, "/v1/completions", prompt=PROMPT, max_tokens=3, logit_bias=bias).json
    assert found["choices"][0]["text"] == runner.tokenizer.decode([70] * 3)
    forbidden = post(server, "/v1/completions", prompt=PROMPT, logit_bias=[[5, False]])
    assert forbidden.status == 200


def test_a_prompt_that_goes_on_from_a_context_is_read_in_part(server: LlmServer) -> None:
    fields = {"max_tokens": 2, "temperature": 0}
    first = post(server, "/v1/completions", prompt=PROMPT, **fields).json
    longer = PROMPT + first["choices"][0]["text"]
    post(server, "/v1/completions", prompt="quite another one", **fields)  # the other session
    again = post(server, "/v1/completions", prompt=PROMPT, **fields).json
    n = first["usage"]["prompt_tokens"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == n - 1
    assert again["choices"][0]["text"] == first["choices"][0]["text"]
    anew = post(server, "/v1/completions", prompt=longer, cache_prompt=False, **fields).json
    assert anew["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_llama_server_s_own_completion(server: LlmServer, runner: TextRunner) -> None:
    text = expected(runner, 9)
    fields = {"prompt": PROMPT, "n_predict": 9, "return_tokens": True, **DRAWN}
    found = post(server, "/completion", **fields).json
    assert found["content"] == text == runner.tokenizer.decode(found["tokens"])
    assert (found["stop"], found["stop_type"]) == (True, "limit")
    assert found["tokens_predicted"] == found["timings"]["predicted_n"] == 9
    *pieces, last = post(server, "/completion", **fields, stream=True).events
    assert "".join(piece["content"] for piece in pieces) == text
    assert not any(piece["stop"] for piece in pieces)
    assert last["stop"] and last["content"] == "" and last["tokens_predicted"] == 9
    assert last["timings"]["cache_n"] == last["tokens_evaluated"] - 1


def test_tokens_of_a_text_and_back(server: LlmServer, runner: TextRunner) -> None:
    text = "é of words"
    ids = post(server, "/tokenize", content=text).json["tokens"]
    assert ids == runner.tokenizer.encode(text, add_special_tokens=False, parse_special=True)
    assert post(server, "/detokenize", tokens=ids).json == {"content": text}
    pieces = post(server, "/tokenize", content=text, with_pieces=True).json["tokens"]
    joined = b"".join(
        p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces
    )
    assert [piece["id"] for piece in pieces] == ids
    assert len(joined) > 0


def test_facts_of_the_server_and_its_model(server: LlmServer, runner: TextRunner) -> None:
    assert send(server, "GET", "/health").json == {"status": "ok"}
    models = send(server, "GET", "/v1/models?any=1").json
    assert models["object"] == "list" and models["data"][0]["id"] == "tiny"
    assert send(server, "GET", "/v1/models/tiny").json == models["data"][0]
    props = send(server, "GET", "/props").json
    assert props["total_slots"] == 2
    assert props["default_generation_settings"]["n_ctx"] == runner.session.capacity
    head = send(server, "HEAD", "/health")
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 0


def test_letters_of_several_bytes_are_whole_in_each_event(files: tuple[Path, Path]) -> None:
    pieces = ["é", "🙂", "a\u2028b\x85", '"\n\\', "日本"]
    ScriptedRunner.pieces = list(pieces)
    with LlmServer(runners(files, 1, ScriptedRunner), port=0, log=lambda _: None) as server:
        reply = post(server, "/v1/completions", prompt="a", stream=True)
        assert [e["choices"][0]["text"] for e in reply.events[:-2]] == pieces
        # Readers that split lines by Unicode's rules, rather than the standard's, see no more ends.
        text = reply.body.decode()
        assert text.splitlines() == text.split("\n")[:-1] and "日本" in text
        plain = post(server, "/v1/completions", prompt="a").json
        assert plain["choices"][0]["text"] == "".join(pieces)


def test_a_program_that_fails_is_an_error_and_the_server_goes_on(files: tuple[Path, Path]) -> None:
    lines: list[str] = []
    ScriptedRunner.pieces = ["a", KeyError("a defect")]
    with LlmServer(runners(files, 1, ScriptedRunner), port=0, log=lines.append) as server:
        assert post(server, "/v1/completions", prompt="a").status == 500
        *_, last = post(server, "/v1/completions", prompt="a", stream=True).events
        assert last["error"]["type"] == "server_error"
        ScriptedRunner.pieces = ["fine"]
        assert post(server, "/v1/completions", prompt="a").json["choices"][0]["text"] == "fine"
    assert sum("a defect" in line for line in lines) == 2


def test_log_probabilities_stand_beside_their_tokens(server: LlmServer, runner: TextRunner) -> None:
    options = SamplingOptions(temperature=1.5, seed=3, logprobs="model", n_best=2)
    drawn = runner.generate(PROMPT, max_new_tokens=9, sampling=options).drawn
    values = [one.logprob for one in drawn]
    fields = {"prompt": PROMPT, "max_tokens": 9, **DRAWN}
    found = post(server, "/v1/completions", **fields, logprobs=2).json["choices"][0]["logprobs"]
    assert found["token_logprobs"] == values and len(found["tokens"]) == 9
    assert found["text_offset"] == sorted(found["text_offset"]) and found["text_offset"][0] == 0
    assert [max(best.values()) for best in found["top_logprobs"]] == [d.best[0][1] for d in drawn]
    *chunks, _ = post(server, "/v1/completions", **fields, logprobs=0, stream=True).events
    parts = [c["choices"][0]["logprobs"] for c in chunks if c["choices"][0]["logprobs"]]
    assert [value for part in parts for value in part["token_logprobs"]] == values
    own = post(server, "/completion", **fields, n_probs=2).json["completion_probabilities"]
    assert [one["id"] for one in own] == [one.token for one in drawn]
    assert [best["logprob"] for best in own[0]["top_logprobs"]] == [v for _, v in drawn[0].best]


def test_a_chat_is_answered_by_the_template(files: tuple[Path, Path], runner: TextRunner) -> None:
    messages = [
        {"role": "developer", "content": "be"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "!"}],
        },
    ]
    text = runner.generate("system: be\nuser: hi!\n", max_new_tokens=6).text
    fields = {"messages": messages, "max_completion_tokens": 6, "temperature": 0}
    made = runners(files, 1)
    with LlmServer(made, port=0, template=TEMPLATE, log=lambda _: None) as server:
        found = post(server, "/v1/chat/completions", **fields).json
        *chunks, done = post(server, "/v1/chat/completions", **fields, stream=True).events
        shown = post(server, "/v1/chat/completions", **fields, logprobs=True, top_logprobs=3).json[
            "choices"
        ][0]["logprobs"]["content"]
        refused = post(
            server, "/v1/chat/completions", messages=[{"role": "user", "content": "refuse"}]
        )
        again = {"messages": [{"role": "user", "content": "hi!"}], "max_tokens": 0}
        lengths = [
            post(server, "/v1/chat/completions", **again, chat_template_kwargs=variables)
            for variables in ({}, {"mood": "word word"}, {"tools": []})
        ]
        assert send(server, "GET", "/props").json["chat_template"] == TEMPLATE.text
    assert found["object"] == "chat.completion"
    choice = found["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert choice["finish_reason"] == "length" and found["usage"]["completion_tokens"] == 6
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""} and done == "[DONE]"
    assert "".join(delta.get("content", "") for delta in deltas) == text
    assert chunks[-1]["choices"][0]["finish_reason"] == "length" and deltas[-1] == {}
    assert len(shown) == 6 and all(len(one["top_logprobs"]) == 3 for one in shown)
    assert refused.status == 400 and "no such message" in refused.json["error"]["message"]
    plain, longer, wrong = lengths
    assert longer.json["usage"]["prompt_tokens"] > plain.json["usage"]["prompt_tokens"]
    assert wrong.status == 400 and wrong.json["error"]["param"] == "chat_template_kwargs"


def test_a_model_without_a_template_has_no_chat(server: LlmServer) -> None:
    reply = post(server, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}])
    assert reply.status == 400 and "chat template" in reply.json["error"]["message"]
