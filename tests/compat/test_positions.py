"""Arguments by position, where V1 takes names or reads another one there; and what V0 gave to be awaited or iterated."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_compat import awaited, positions

Run = Callable[..., Any]
LLM = "from vllm import LLM; llm = LLM('m')"


@pytest.mark.parametrize(
    ("call", "expected", "says"),
    [
        pytest.param(
            "(llm.generate(['a'], 1, None, False), llm.last)",
            (["a"], {"use_tqdm": False, "lora_request": None}),
            "write `use_tqdm=False`, leave `prompt_token_ids` out",
            id="after one that went",
        ),
        pytest.param(
            "(llm.generate(None, 1, [[1], [2]], False), llm.last['use_tqdm'])",
            ([{"prompt_token_ids": [1]}, {"prompt_token_ids": [2]}], False),
            "write `use_tqdm=False`.",
            id="one that went and is translated",
        ),
        pytest.param(
            "(llm.generate(['a'], 1, None, False, 'lora'.split()), llm.last['lora_request'])[1]",
            ["lora"],
            "write `use_tqdm=False`, `lora_request=...`, leave",
            id="several",
        ),
        pytest.param("LLM('m', 'tok').tokenizer", "tok", "write `tokenizer='tok'`", id="a constructor of 0.8"),
        pytest.param("llm.get_tokenizer(None)", "tokenizer", "leave `lora_request` out", id="nothing asked for"),
        pytest.param(
            "llm.get_tokenizer([])", "tokenizer", "`LLM.get_tokenizer` lost `lora_request`", id="all adapters"
        ),
        pytest.param("llm.chat([], 1, True, None, 'T')[:2]", (None, "T"), "`chat_template='T'`", id="read otherwise"),
        pytest.param(
            "llm.chat([], 1, True, None, None, 'string', False)",
            (None, None, "string", False),
            "`chat_template_content_format='string'`, `add_generation_prompt=False`, leave `chat_template` out",
            id="read otherwise, and nothing where it differs first",
        ),
    ],
)
def test_v0s_calls_get_their_names(vllm: Path, run: Run, call: str, expected: Any, says: str) -> None:
    said = run(f"{LLM}\nfound = {call}\n")
    assert run.globals["found"] == expected  # type: ignore[attr-defined]
    assert {(s.line, s.rule) for s in said} == {(2, "V1M112")}
    assert says in said[0].text and len(said[0].text) < 240


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("llm.generate(['a'], 1, False)", id="no release took that there"),
        pytest.param("llm.generate(['a'], 1, None, False, lora_request=1, use_tqdm=True)", id="given twice"),
        pytest.param("llm.generate(*range(12))", id="more than anybody took"),
        pytest.param("llm.get_tokenizer(1)", id="of another kind"),
    ],
)
def test_other_calls_are_vllms_to_refuse(vllm: Path, run: Run, call: str) -> None:
    with pytest.raises(TypeError, match=r"(generate|get_tokenizer)\(\) takes"):
        run(f"{LLM}\n{call}\n")


@pytest.mark.parametrize(
    "call",
    [
        "llm.chat([], 1, True, None, [3], 'T', 'auto')",
        "llm.chat([], 1, True, None, None, '{{ messages }}')",
        "llm.chat([], 1, True)",
    ],
)
def test_what_makes_sense_to_v1_is_left_alone(vllm: Path, run: Run, call: str) -> None:
    assert run(f"{LLM}\nfound = {call}\n") == []


def test_a_line_that_is_ready_for_a_refusal_gets_it(vllm: Path, run: Run) -> None:
    lines = "try:\n    found = llm.generate(['a'], 1, None, False)\nexcept TypeError:\n    found = 'refused'\n"
    assert run(f"{LLM}\n{lines}") == []
    assert run.globals["found"] == "refused"  # type: ignore[attr-defined]


def test_what_v1_takes_does_not_read_the_index(vllm: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(positions, "named", named)
    assert run(f"{LLM}\nllm.generate(['a'], 1)\nllm.chat([], 1, True, None, [1])\n") == []


ASYNC = """
import asyncio
from vllm.engine.async_llm_engine import AsyncLLMEngine
e = AsyncLLMEngine()
""".lstrip()


@pytest.mark.parametrize(
    ("lines", "expected", "rules"),
    [
        pytest.param("    return await e.get_tokenizer()", "tokenizer", ["V1M102"], id="awaited"),
        pytest.param(
            "    return await e.get_tokenizer(None)", "tokenizer", ["V1M112", "V1M102"], id="with an argument"
        ),
        pytest.param("    return e.get_tokenizer()", "tokenizer", [], id="as V1 has it"),
        pytest.param(
            "    return [each.left async for each in await e.add_request('r', 4)]",
            [3, 2, 1, 0],
            ["V1M102"],
            id="a stream",
        ),
        pytest.param("    return (await (await e.add_request('r', 3)).get()).left", 2, [], id="V1's own way"),
        pytest.param("    return (await anext(await e.add_request('r', 3))).left", 2, ["V1M102"], id="by anext"),
    ],
)
def test_what_v0_gave_is_awaited_and_iterated(
    vllm: Path, run: Run, lines: str, expected: Any, rules: list[str]
) -> None:
    said = run(f"{ASYNC}async def ask():\n{lines}\nfound = asyncio.run(ask())\n")
    assert run.globals["found"] == expected  # type: ignore[attr-defined]
    assert [s.rule for s in said if "AsyncLLMEngine" not in s.text] == rules
    assert {s.line for s in said if "AsyncLLMEngine" not in s.text} <= {5}


LEAVE = """
async def leave():
    stream = await e.add_request("r", 5)
    async for each in stream:
        break
    before = list(e.aborted)
    left = [each.left async for each in stream][:1]  # gone on with
    other = await e.add_request("other", 5)
    async for each in other:
        break
    await other.aclose()
    return before, left, e.aborted
found = asyncio.run(leave())
"""


def test_a_stream_that_is_left_aborts_its_request(vllm: Path, run: Run) -> None:
    run(f"{ASYNC}{LEAVE}")
    assert run.globals["found"] == ([], [3], ["other"])  # type: ignore[attr-defined]


def test_uninstall_takes_the_stream_away(vllm: Path) -> None:
    cls = importlib.import_module("vllm.v1.engine.output_processor").RequestOutputCollector
    v1_compat.install()
    assert hasattr(cls, "__aiter__")
    v1_compat.uninstall()
    assert not hasattr(cls, "__aiter__") and not hasattr(cls, "aclose")


def test_only_a_call_that_is_awaited_where_it_stands_counts() -> None:
    import sys

    def seen() -> Any:
        answers.append(awaited.awaits(sys._getframe(1)))
        return asyncio.sleep(0)

    async def use() -> None:
        await seen()
        found = seen()
        await found
        await asyncio.gather(seen())
        assert [await seen() for _ in range(2)]

    answers: list[bool] = []
    asyncio.run(use())
    assert answers == [True, False, False, True, True]
