"""What V0's asynchronous engine gave to be awaited or iterated, and V1's gives as it is.

`await engine.get_tokenizer()`: the tokenizer of V1 is no awaitable; a call that is awaited where it stands gets one.
`async for output in await engine.add_request(...)`: V1's collector of outputs is made to be iterated, in V1's own way.
"""

from __future__ import annotations

import dis
import inspect
import sys
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from .kinds import Arguments, Finish
    from .serve import Server

RULE = "V1M102"  # the plan's, of members; it does not see what is awaited
CLASS, COLLECTOR = "AsyncLLM", "RequestOutputCollector"
MODULE = "vllm.v1.engine.output_processor"
_REQUEST, _STREAM = "_v1_compat_request", "_v1_compat_stream"  # of a collector
_PLACE = "vllm.engine.async_llm_engine.AsyncLLMEngine"


def finish(cls: type, name: str, function: Callable[..., Any], server: Server) -> Finish | None:
    """What is made of a method's result; None for most."""
    if cls.__name__ != CLASS:
        return None
    if name == "get_tokenizer" and not inspect.iscoroutinefunction(function):
        return lambda found, _, frame: _for_await(found, server) if awaits(frame) else found
    return _remembered if name == "add_request" else None


def _remembered(collector: Any, arguments: Arguments, _: FrameType) -> Any:
    """The same collector, which knows whom to tell that nobody wants its outputs any more."""
    (engine, *args), kwargs = arguments
    with suppress(AttributeError, TypeError):  # something else than vLLM's
        setattr(collector, _REQUEST, (ref(engine), args[0] if args else kwargs["request_id"]))
    return collector


def _for_await(found: Any, server: Server) -> Coroutine[Any, Any, Any]:
    text = f"`{CLASS}.get_tokenizer` is no coroutine in this vLLM. Write it without `await`."
    server.say(RULE, f"{_PLACE}.get_tokenizer", text, "", "await get_tokenizer()")

    async def later() -> Any:
        return found

    return later()


def awaits(frame: FrameType) -> bool:
    """The frame awaits, as it stands, what the call that it is making gives."""
    return any(first <= frame.f_lasti < end for first, end in _awaited(frame.f_code))


@lru_cache(maxsize=256)
def _awaited(code: CodeType) -> tuple[tuple[int, int], ...]:
    """The instructions whose value is awaited next: where they begin, and end with what the interpreter keeps there."""
    found, before = [], 0
    for instruction in dis.get_instructions(code):
        if instruction.opname == "GET_AWAITABLE":
            found.append((before, instruction.offset))
        before = instruction.offset
    return tuple(found)


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let the module's collectors be iterated; returns the way back."""
    cls: Any = module.__dict__.get(COLLECTOR)
    if module.__name__ != MODULE or cls is None or hasattr(cls, "__aiter__"):
        return None

    def stream(collector: Any) -> AsyncGenerator[Any, None]:
        """The one of a collector: it may be left and gone on with, as V0's."""
        found: AsyncGenerator[Any, None] | None = vars(collector).get(_STREAM)
        if found is None:
            text = "`add_request` gives no stream in this vLLM. Write `async for output in engine.generate(...)`."
            server.say(RULE, f"{_PLACE}.add_request", text, "", "iterated")
            found = vars(collector)[_STREAM] = _outputs(collector)
        return found

    given: dict[str, Callable[..., Any]] = {
        "__aiter__": lambda self: stream(self),
        "__anext__": lambda self: stream(self).__anext__(),
        "aclose": lambda self: stream(self).aclose(),
    }
    for name, function in given.items():
        setattr(cls, name, function)

    def undo() -> None:
        for name in given:
            delattr(cls, name)

    return undo


async def _outputs(collector: Any) -> AsyncGenerator[Any, None]:
    """As V1's `generate` takes them; a request that is left is aborted."""
    last = getattr(sys.modules.get("vllm.outputs"), "STREAM_FINISHED", None)
    finished = False
    try:
        while not finished:
            output = collector.get_nowait() or await collector.get()
            finished = output.finished
            if output is not last:
                yield output
    except (CancelledError, GeneratorExit):
        engine, request = vars(collector).get(_REQUEST, (lambda: None, ""))
        if (running := engine()) is not None:
            await running.abort(request)
        raise
    finally:
        getattr(collector, "close", lambda: None)()
