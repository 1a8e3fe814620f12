"""Functions that stand before others of the same kind: plain, generator, coroutine or asynchronous generator.

What asks `inspect` (`mock`, frameworks that await what must be awaited) is so answered as by the function itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Prepare = Callable[[tuple[Any, ...], dict[str, Any]], Arguments]
Finish = Callable[[Any, Arguments, FrameType], Any]  # what was found, for which arguments, who called


def in_front(function: Callable[..., Any], prepare: Prepare, finish: Finish | None = None) -> Callable[..., Any]:
    """The function, called with what `prepare` makes of the arguments.

    A coroutine and a generator prepare when they first run, whose stack has the line that awaits or iterates. What a
    plain function or a coroutine gives goes through `finish`, with the frame that called the plain one.
    """
    if inspect.isasyncgenfunction(function):
        call = _asynchronous_generator(function, prepare)
    elif inspect.iscoroutinefunction(function):
        call = _coroutine(function, prepare, finish)
    elif inspect.isgeneratorfunction(function):
        call = _generator(function, prepare)
    else:
        call = _plain(function, prepare, finish)
    return functools.wraps(function)(call)


def _plain(function: Callable[..., Any], prepare: Prepare, finish: Finish | None) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = prepare(args, kwargs)
        found = function(*args, **kwargs)
        return found if finish is None else finish(found, (args, kwargs), sys._getframe(1))

    return call


def _generator(function: Callable[..., Any], prepare: Prepare) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = prepare(args, kwargs)
        return (yield from function(*args, **kwargs))

    return call


def _coroutine(function: Callable[..., Any], prepare: Prepare, finish: Finish | None) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = prepare(args, kwargs)
        found = await function(*args, **kwargs)
        return found if finish is None else finish(found, (args, kwargs), sys._getframe(0))

    return call


def _asynchronous_generator(function: Callable[..., Any], prepare: Prepare) -> Callable[..., Any]:
    """What is sent, thrown and closed reaches the generator inside: vLLM aborts the request of one that is closed."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = prepare(args, kwargs)
        inner = function(*args, **kwargs)
        step = inner.__anext__()
        try:
            while True:
                try:
                    value = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)
        finally:
            await inner.aclose()

    return call
