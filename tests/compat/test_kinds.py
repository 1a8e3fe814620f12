"""Callables that the shim stands before stay of the kind that they are."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import v1_compat
from v1_compat.kinds import in_front

Run = Callable[..., Any]
FLAGS = (
    inspect.isfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
    asyncio.iscoroutinefunction,
)


def plain(a: int, *, b: int = 0) -> int:
    """Plain."""
    return a + b


def generator(a: int, *, b: int = 0) -> Iterator[int]:
    """Generates."""
    b = yield a
    return b


async def coroutine(a: int, *, b: int = 0) -> int:
    """Waits."""
    return a + b


async def asynchronous(a: int, *, b: int = 0) -> AsyncIterator[int]:
    """Both."""
    yield a + b


@pytest.mark.parametrize("function", [plain, generator, coroutine, asynchronous])
def test_all_that_can_be_asked_of_a_function_is_answered_alike(function: Callable[..., Any]) -> None:
    call = in_front(function, lambda args, kwargs: (args, kwargs))
    assert [flag(call) for flag in FLAGS] == [flag(function) for flag in FLAGS]
    assert inspect.signature(call) == inspect.signature(function)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(call, attribute) == getattr(function, attribute)
    assert inspect.unwrap(call) is function
    assert inspect.getsource(call) == inspect.getsource(function)
    assert type(mock.create_autospec(call)).__name__ == type(mock.create_autospec(function)).__name__


def test_what_is_sent_to_a_generator_and_what_it_returns_goes_through() -> None:
    made = in_front(generator, lambda args, _: (args, {}))(3, c=4)
    assert next(made) == 3
    with pytest.raises(StopIteration) as stop:
        made.send(5)
    assert stop.value.value == 5


def test_what_is_sent_to_an_asynchronous_generator_goes_through() -> None:
    async def echo() -> AsyncIterator[Any]:
        sent: Any = "first"
        while sent is not None:
            sent = yield sent  # type: ignore[misc]

    async def use() -> list[Any]:
        made = in_front(echo, lambda args, kwargs: (args, kwargs))()
        return [await anext(made), await made.asend("second"), await anext(made, "ended")]

    assert asyncio.run(use()) == ["first", "second", "ended"]


USE = """
from vllm.v1.engine.async_llm import AsyncLLM
e = AsyncLLM()
async def ask():
    await e.add_request("r", "p", prompt_adapter_request=None)
    found = []
    async for answer in e.generate(
        [1, 2], None, "r", prompt_adapter_request=None
    ):
        found.append(answer)
    return found
""".lstrip()


def test_the_place_is_the_line_that_awaits_or_iterates(vllm: Path, run: Run) -> None:
    said = run(f"import asyncio\n{USE}found = asyncio.run(ask())\n")
    assert run.globals["found"] == [1, 2]  # type: ignore[attr-defined]
    assert [(s.rule, s.line) for s in said] == [("V1M112", 5), ("V1M112", 7)]


@pytest.mark.parametrize(
    "call", ["await e.add_request('r', 'p', prompt_adapter_request='x')", "await e.add_request('r', nonsense=1)"]
)
def test_errors_are_raised_where_it_is_awaited(vllm: Path, run: Run, call: str) -> None:
    script = f"import asyncio\n{USE}async def fail():\n    {call}\nasyncio.run(fail())\n"
    with pytest.raises((v1_compat.LegacyUseError, TypeError)) as caught:
        run(script)
    assert caught.traceback[-1].lineno and any(
        Path(str(entry.path)).name == "script.py" and str(entry.statement).strip() == call for entry in caught.traceback
    )


def test_a_generator_that_is_closed_aborts_its_request(vllm: Path) -> None:
    v1_compat.install()
    engine = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM()

    async def leave() -> list[Any]:
        stream = engine.generate([None, 1, 2, 3], None, "r")
        found = [await anext(stream), await stream.asend("sent"), await stream.athrow(ValueError("thrown"))]
        await stream.aclose()
        return found

    assert asyncio.run(leave()) == [[None, 1, 2, 3], 1, "thrown"]
    assert engine.aborted == ["r"]


METHODS = ["add_request", "get_tokenizer", "generate"]


@pytest.mark.parametrize("name", METHODS)
def test_mocks_of_the_engine_are_as_without_the_shim(vllm: Path, name: str) -> None:
    cls = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM

    def look() -> tuple[Any, ...]:
        function = getattr(cls, name)
        with mock.patch.object(cls, name) as patched:
            kind = type(patched)
        spec = getattr(mock.create_autospec(cls), name)
        return kind.__name__, type(spec).__name__, inspect.signature(function), [flag(function) for flag in FLAGS]

    before = look()
    v1_compat.install()
    assert "kinds.py" in getattr(cls, name).__code__.co_filename, "nothing stands before it"
    assert look() == before
