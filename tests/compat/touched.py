"""What can be asked of every class and function of vLLM's that the shim touches, as JSON; `--shim` installs it first.

Nothing here is legacy: what it prints is to be the same with the shim and without.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import json
import pickle
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import v1_compat
from v1_compat.callables import METHODS
from v1_compat.makers import MAKERS
from v1_compat.members import CLASSES
from v1_compat.platform_calls import METHODS as LOST
from v1_compat.renamed import FIELDS
from v1_compat.structs import STRUCTS
from v1_compat.values import FIELDS as LOST_FIELDS

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FLAGS = [
    inspect.isclass,
    inspect.isfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
    asyncio.iscoroutinefunction,
]
ASKED: dict[str, Callable[[Any], Any]] = {
    "flags": lambda x: [flag(x) for flag in FLAGS],
    "signature": lambda x: ADDRESS.sub("", str(inspect.signature(x))),
    "names": lambda x: [getattr(x, name, "") for name in ("__module__", "__qualname__", "__doc__")],
    "source": lambda x: inspect.getsource(x),
    "repr": lambda x: repr(x).partition(" at 0x")[0],
    "pickle": lambda x: pickle.dumps(x).hex() if isinstance(x, type) else "",
    "autospec": lambda x: type(mock.create_autospec(x)).__name__,
    "metaclass": lambda x: type(x).__name__,
}
TOUCHED_FIELDS = [*FIELDS.values(), *(fields for classes in LOST_FIELDS.values() for fields in classes.values())]
OF_OBJECTS: dict[str, Callable[[Any], Any]] = {
    "repr": lambda x: repr(x).partition(" at 0x")[0],
    "pickle": lambda x: pickle.dumps(x).hex(),
    "dir": dir,
    "members": lambda x: [name for name, _ in inspect.getmembers(x)],
    "loop": lambda x: [name for name in dir(x) if not callable(getattr(x, name))],
    "missing": lambda x: x.nonsense,
    "hasattr": lambda x: [hasattr(x, name) for fields in TOUCHED_FIELDS for name in fields],
    "equal": lambda x: [type(x).__qualname__, pickle.loads(pickle.dumps(x)) == x],
}
UNMADE = ("LLM", "LLMEngine", "AsyncLLM", "EngineArgs", "AsyncEngineArgs", "ModelConfig", "VllmConfig")  # of a model


ADDED: dict[str, set[str]] = {
    **{name: {"__getattr__", *MAKERS.get(name, ())[:1]} for name in FIELDS},
    **{name: set(LOST) for name in ("Platform", "CpuPlatform")},
    **{name: set(fields) for classes in LOST_FIELDS.values() for name, fields in classes.items()},
    "StructuredOutputsParams": {
        "from_optional",
        *LOST_FIELDS["vllm.sampling_params"]["StructuredOutputsParams"],
    },
}
"""Class -> what stands in it with the shim. Nobody is warned who comes by."""
LISTS = ("dir", "members", "loop")


def classes() -> Iterator[tuple[str, type]]:
    places = {(module, name) for module, names in METHODS.items() for name in names}
    places |= {(module, name) for module, (name, _) in CLASSES.items()}
    places |= {(module, name) for name, (module, _) in STRUCTS.items()}
    places |= {(module, name) for module, classes in LOST_FIELDS.items() for name in classes}
    places |= {("vllm.platforms.interface", "Platform"), ("vllm.platforms.cpu", "CpuPlatform")}
    config = importlib.import_module("vllm.config")
    places |= {("vllm.config", name) for name in FIELDS if hasattr(config, name)}
    places |= {("vllm.config", n) for n, v in vars(config).items() if dataclasses.is_dataclass(v)}
    for module, name in sorted(places):
        found = getattr(importlib.import_module(module), name)
        yield f"{module}.{name}", found
        yield f"{found.__module__}.{name}", getattr(importlib.import_module(found.__module__), name)


def asked(questions: dict[str, Callable[[Any], Any]], x: Any) -> dict[str, Any]:
    found = {}
    for question, ask in questions.items():
        try:
            found[question] = ask(x)
        except Exception as error:
            found[question] = f"{type(error).__name__}: {error}"
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """(what, question) -> the two answers, without what is known to be added."""
    found = {}
    for what in before.keys() | after.keys():
        one, other = before.get(what), after.get(what)
        for question in one if isinstance(one, dict) and isinstance(other, dict) else ():
            first, second = one[question], other[question]
            if question in LISTS and isinstance(second, list):
                added = ADDED.get(what.removesuffix("()").rpartition(".")[2], set())
                second = [name for name in second if name not in added]
            if first != second:
                found[f"{what}: {question}"] = first, second
        if type(one) is not type(other) or (isinstance(one, str) and one != other):
            found[what] = one, other
    return found


def main() -> None:
    uuid.uuid4 = lambda: uuid.UUID(int=0)  # the identity of a configuration
    if "--shim" in sys.argv:
        v1_compat.install()
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen: dict[str, type] = {}
        for dotted, cls in classes():
            own = f"{cls.__module__}.{cls.__qualname__}"
            found[dotted] = asked(ASKED, cls) | {"dir": dir(cls), "same": seen.setdefault(own, cls) is cls}
            found[dotted] |= {"members": [name for name, _ in inspect.getmembers(cls)]}
            for name, member in inspect.getmembers(cls, inspect.isroutine):
                if name in METHODS.get(cls.__module__, {}).get(cls.__name__, ()) or name.startswith("get_attn"):
                    found[f"{dotted}.{name}"] = asked(ASKED, member)
            if cls.__name__ not in UNMADE:
                try:
                    made = cls()
                except Exception as error:
                    found[f"{dotted}()"] = type(error).__name__
                else:
                    found[f"{dotted}()"] = asked(OF_OBJECTS, made)
    said = [str(w.message) for w in caught if isinstance(w.message, v1_compat.LegacyWarning)]
    print(json.dumps({"found": found, "said": said}))


if __name__ == "__main__":
    main()
