"""The forms in which a mutant names a stale vllm name: small pieces of code, each with the lines that are stale.

A line that ends with MARK holds a reference the target lacks; the mark is taken off before the code is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from guarantees.stale_names import Stale

MARK = "\0"
# What a form can show: an object of a module, a member of a class, anything.
OBJECT, MEMBER, ANY, MODULE = "object", "member", "any", "module"

Form = Callable[[Stale, str], Sequence[str]]
FORMS: dict[str, tuple[str, Form]] = {}


def form(name: str, shows: str = OBJECT) -> Callable[[Form], Form]:
    def register(make: Form) -> Form:
        FORMS[name] = (shows, make)
        return make

    return register


def fitting(stale: Stale) -> list[str]:
    """The forms that can show this name."""
    wanted = {ANY, MEMBER} if stale.member else {ANY, OBJECT}
    if stale.sort == "module":
        wanted.add(MODULE)
    return sorted(name for name, (shows, _) in FORMS.items() if shows in wanted)


def _split(stale: Stale) -> tuple[str, str]:
    package, _, leaf = stale.module.rpartition(".")
    return package or "vllm", leaf or "vllm"


def _import(stale: Stale, alias: str = "") -> str:
    return f"from {stale.module} import {stale.name}{' as ' + alias if alias else ''}{MARK}"


form("plain from-import")(lambda s, k: [_import(s)])
form("aliased from-import")(lambda s, k: [_import(s, k)])
form("from-import with a comment")(lambda s, k: [_import(s)[:-1] + "  # noqa: F401" + MARK])
form("in a function")(lambda s, k: [f"def {k}():", "    " + _import(s), f"    return {s.name}"])
form("in an async function")(lambda s, k: [f"async def {k}(x):", "    " + _import(s, "y"), "    return y(x)"])
form("in a class body")(lambda s, k: [f"class {k}:", "    " + _import(s)])
form("under if")(lambda s, k: ["if __name__ != 'x':", "    " + _import(s), "else:", f"    {s.name} = None"])
form("one-line if")(lambda s, k: [f"if True: {_import(s)}"])
form("under TYPE_CHECKING")(lambda s, k: ["import typing", "if typing.TYPE_CHECKING:", "    " + _import(s)])
form("try with a fallback")(lambda s, k: ["try:", "    " + _import(s), "except ImportError:", f"    {s.name} = None"])
form("in an except arm")(lambda s, k: ["try:", "    import json", "except ImportError:", "    " + _import(s)])
form("in finally")(lambda s, k: ["try:", "    import json", "finally:", "    " + _import(s)])
form("in a with block")(
    lambda s, k: ["import contextlib", "with contextlib.suppress(ImportError):", "    " + _import(s, k)]
)
form("in a loop")(lambda s, k: [f"for {k} in range(1):", "    " + _import(s), "    break"])
form("semicolons")(lambda s, k: [f"import os; {_import(s)[:-1]}; {k} = 1{MARK}"])
form("after an environment assignment")(
    lambda s, k: ["import os", 'os.environ["PLANTED"] = "1"', _import(s), f"{k} = {s.name}"]
)
form("imported and subclassed")(lambda s, k: [_import(s, f"{k}Base"), f"class {k}({k}Base):", "    pass"])


@form("parenthesised with comments")
def _parenthesised(stale: Stale, key: str) -> list[str]:
    return [f"from {stale.module} import (  # planted", f"    {stale.name},  # why it is needed{MARK}", ")"]


@form("parenthesised, mixed fates")
def _mixed(stale: Stale, key: str) -> list[str]:
    other = stale.sibling or stale.name
    return [f"from {stale.module} import (", f"    {other} as {key}a,", f"    {stale.name} as {key}b{MARK}", ")"]


@form("backslash continuation")
def _backslash(stale: Stale, key: str) -> list[str]:
    return [f"from {stale.module} \\", f"    import {stale.name} \\{MARK}", f"    as {key}"]


form("import module, dotted use")(lambda s, k: [f"import {s.module}", f"{k} = {s.module}.{s.name}{MARK}"])
form("import module as, use")(lambda s, k: [f"import {s.module} as {k}m", f"{k} = {k}m.{s.name}(1){MARK}"])
form("from package import module, use")(
    lambda s, k: (
        [f"from {_split(s)[0]} import {_split(s)[1]} as {k}m", f"{k} = [{k}m.{s.name}]{MARK}"]
        if s.module != "vllm"
        else [_import(s)]
    )
)
form("attribute written on a module")(lambda s, k: [f"import {s.module} as {k}m", f"{k}m.{s.name} = None{MARK}"])
form("setattr on a module")(lambda s, k: [f"import {s.module} as {k}m", f'setattr({k}m, "{s.name}", None){MARK}'])
form("patch.object on a module")(
    lambda s, k: ["from unittest import mock", f"import {s.module} as {k}m",
                  f'{k} = mock.patch.object({k}m, "{s.name}"){MARK}']
)  # fmt: skip
form("decorator from a module")(
    lambda s, k: [f"import {s.module} as {k}m", f"@{k}m.{s.name}{MARK}", f"def {k}():", "    pass"]
)
form("base class from a module")(
    lambda s, k: [f"import {s.module} as {k}m", f"class {k}({k}m.{s.name}):{MARK}", "    pass"]
)
form("default argument")(
    lambda s, k: [f"import {s.module} as {k}m", f"def {k}(x={k}m.{s.name}):{MARK}", "    return x"]
)
form("in a lambda")(lambda s, k: [f"import {s.module} as {k}m", f"{k} = lambda: {k}m.{s.name}{MARK}"])
form("in a comprehension")(lambda s, k: [f"import {s.module} as {k}m", f"{k} = [{k}m.{s.name} for _ in ()]{MARK}"])
form("in an f-string")(lambda s, k: [f"import {s.module} as {k}m", f'{k} = f"{{{k}m.{s.name}}}"{MARK}'])
form("annotation through a module")(
    lambda s, k: [f"import {s.module} as {k}m", f"def {k}(x: {k}m.{s.name}) -> None:{MARK}", "    return None"]
)
form("string annotation through a module")(
    lambda s, k: [f"import {s.module} as {k}m", f'def {k}(x: "list[{k}m.{s.name}]") -> None:{MARK}', "    return None"]
)
form("several modules in one import", MODULE)(lambda s, k: [f"import os, {s.module} as {k}m, sys{MARK}"])
form("module alone", MODULE)(lambda s, k: [f"import {s.module}{MARK}"])
form("module with an alias", MODULE)(lambda s, k: [f"import {s.module} as {k}{MARK}"])
form("star import", MODULE)(lambda s, k: [f"from {s.module} import *{MARK}"])
form("import_module", MODULE)(lambda s, k: ["import importlib", f'{k} = importlib.import_module("{s.module}"){MARK}'])
form("sys.modules", MODULE)(lambda s, k: ["import sys", f'{k} = sys.modules.get("{s.module}"){MARK}'])

form("dotted string", ANY)(lambda s, k: [f'{k} = "{s.dotted}"{MARK}'])
form("raw dotted string", ANY)(lambda s, k: [f"{k} = r'{s.dotted}'{MARK}"])
form("triple-quoted dotted string", ANY)(lambda s, k: [f'{k} = """{s.dotted}"""{MARK}'])
form("mock.patch as a context", ANY)(
    lambda s, k: ["import unittest.mock", f'with unittest.mock.patch("{s.dotted}") as {k}:{MARK}', "    pass"]
)
form("mock.patch as a decorator", ANY)(
    lambda s, k: ["from unittest.mock import patch", f'@patch("{s.dotted}", None){MARK}', f"def {k}():", "    pass"]
)
form("string in a dict", ANY)(
    lambda s, k: [f"{k} = {{", f'    "one": "{s.dotted}",{MARK}', '    "two": "json.dumps",', "}"]
)
form("worker_cls")(lambda s, k: [f'{k} = dict(worker_cls="{s.dotted}", model="m"){MARK}'])
form("entry point")(lambda s, k: [f'{k} = ["planted = {s.module}:{s.name}"]{MARK}'])
form("colon path")(lambda s, k: [f'{k} = "{s.module}:{s.name}"{MARK}'])
form("string annotation with a path")(lambda s, k: [f'def {k}(x: "{s.dotted}"):{MARK}', "    return x"])
form("returned string")(lambda s, k: [f"def {k}():", f'    return "{s.dotted}"{MARK}'])
form("type comment")(lambda s, k: [f"{k} = None  # type: {s.dotted}{MARK}"])
form("cast to a string")(lambda s, k: ["import typing", f'{k} = typing.cast("{s.dotted}", None){MARK}'])

form("class member written", MEMBER)(
    lambda s, k: [f"from {s.module} import {s.name} as {k}C", f"{k}C.{s.member} = None{MARK}"]
)
form("class member read", MEMBER)(
    lambda s, k: [f"from {s.module} import {s.name} as {k}C", f"{k} = {k}C.{s.member}{MARK}"]
)
form("class member by setattr", MEMBER)(
    lambda s, k: [f"from {s.module} import {s.name} as {k}C", f'setattr({k}C, "{s.member}", None){MARK}']
)
form("class member through its module", MEMBER)(
    lambda s, k: [f"import {s.module}", f"{k} = {s.module}.{s.name}.{s.member}{MARK}"]
)
