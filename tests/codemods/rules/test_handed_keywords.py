"""V1M112: lost keywords that reach a call by another way than a written keyword."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite

HEAD = (
    "import functools\nfrom dataclasses import dataclass\nfrom functools import partial\n\n"
    "from vllm import EngineArgs, LLM, SamplingParams\n\n"
)
LINES = HEAD.count("\n")

FOUND = [
    pytest.param(
        'def f(more):\n    kw = {"swap_space": 4}\n    kw.update(more)\n    LLM("m", **kw)\n',
        [2],
        id="updated with what nobody knows",
    ),
    pytest.param('kw = {k: v for k, v in {"swap_space": 4}.items() if v}\nLLM("m", **kw)\n', [1], id="a comprehension"),
    pytest.param('LLM("m", **{k: cfg[k] for k in ("swap_space",)})\n', [1], id="keys written for a comprehension"),
    pytest.param('KEYS = ["swap_space"]\nLLM("m", **{k: c[k] for k in KEYS})\n', [1], id="keys in a name"),
    pytest.param('LLM("m", **dict([("swap_space", 4)]))\n', [1], id="pairs"),
    pytest.param('LLM("m", **dict.fromkeys(["swap_space"], 4))\n', [1], id="fromkeys"),
    pytest.param('base = {"swap_space": 4}\nLLM("m", **base.copy())\n', [1], id="a copy"),
    pytest.param('base = {"swap_space": 4}\nkw = copy.deepcopy(base)\nLLM("m", **kw)\n', [1], id="a deep copy"),
    pytest.param('LLM("m", **({"swap_space": 4} if big else {}))\n', [1], id="an arm"),
    pytest.param('LLM("m", **(given or {"swap_space": 4}))\n', [1], id="a default"),
    pytest.param('C = {"llm": {"swap_space": 4}}\nLLM("m", **C["llm"])\n', [1], id="one inside another by its key"),
    pytest.param('kw = {"swap_space": 4}\nEngineArgs(**kw)\n', [1], id="a name of a dictionary"),
    pytest.param('EngineArgs(**{"swap_space": 4})\n', [1], id="a dictionary in the call"),
    pytest.param("EngineArgs(**dict(swap_space=4))\n", [1], id="dict()"),
    pytest.param('EngineArgs(**{"model": "m", **dict(swap_space=8)})\n', [1], id="one in another"),
    pytest.param('EngineArgs(**(dict(model="m") | {"swap_space": 8}))\n', [1], id="two joined"),
    pytest.param('KW = {"swap_space": 8}\n\n\ndef f():\n    return LLM("m", **KW)\n', [1], id="a constant"),
    pytest.param('kw = {}\nkw["swap_space"] = 8\nLLM("m", **kw)\n', [2], id="an item set"),
    pytest.param('kw = {}\nkw.update(swap_space=8)\nLLM("m", **kw)\n', [2], id="update"),
    pytest.param('kw = {}\nkw |= {"swap_space": 8}\nLLM("m", **kw)\n', [2], id="an update by an operator"),
    pytest.param('kw = {"swap_space": 8}\nprint(kw)\nLLM("m", **kw)\n', [1], id="one that is printed"),
    pytest.param('base = {"swap_space": 8}\nkw = {**base}\nLLM("m", **kw)\n', [1], id="through two names"),
    pytest.param(
        'def f(kw=None):\n    if kw is None:\n        kw = {}\n    kw["swap_space"] = 8\n    LLM("m", **kw)\n',
        [4],
        id="an item of a parameter",
    ),
    pytest.param(
        'def f(**kw):\n    kw.setdefault("swap_space", 8)\n    LLM("m", **kw)\n', [2], id="a default for a parameter"
    ),
    pytest.param(
        'kw = load()\nkw.update({"swap_space": 8})\nLLM("m", **kw)\n', [2], id="added to what a function made"
    ),
    pytest.param(
        'kw = {}\nfor k in ["n", "best_of"]:\n    kw[k] = get(k)\nSamplingParams(**kw)\n', [2], id="keys of a loop"
    ),
    pytest.param(
        'class C:\n    def __init__(self):\n        self.kw = {"swap_space": 8}\n    def f(self):\n        LLM("m", **self.kw)\n',
        [3],
        id="an attribute of self",
    ),
    pytest.param(
        'class C:\n    def __init__(self):\n        self.kw = {}\n    def f(self):\n        self.kw["swap_space"] = 8\n        LLM("m", **self.kw)\n',
        [5],
        id="added to an attribute of self",
    ),
    pytest.param(
        'class C:\n    KW = {"swap_space": 8}\n    def f(self):\n        LLM("m", **self.KW)\n',
        [2],
        id="an attribute of the class",
    ),
    pytest.param('def made():\n    return {"swap_space": 8}\nLLM("m", **made())\n', [2], id="what a function returns"),
    pytest.param(
        'def made(a):\n    if a:\n        return {"swap_space": 8}\n    kw = {"swap_space": 1}\n    return kw\nLLM("m", **made(1))\n',
        [3],
        id="what it returns every time",
    ),
    pytest.param(
        "import dataclasses\ndef f(a: EngineArgs):\n    return dataclasses.replace(a, swap_space=8)\n",
        [3],
        id="replace",
    ),
    pytest.param("p = functools.partial(SamplingParams, best_of=2)\n", [1], id="partial"),
    pytest.param("p = partial(SamplingParams, n=2, best_of=2)\n", [1], id="partial, imported by name"),
    pytest.param(
        "class D(EngineArgs):\n    def __init__(self):\n        super().__init__(swap_space=8)\n",
        [3],
        id="super() of a dataclass",
    ),
    pytest.param("class D(EngineArgs): ...\n\nD(swap_space=8)\n", [3], id="a subclass"),
    pytest.param(
        "@dataclass\nclass D(EngineArgs):\n    mine: int = 0\n\nclass E(D): ...\n\nE(mine=1, swap_space=8)\n",
        [7],
        id="a subclass of a subclass, with a field of its own",
    ),
]
SILENT = [
    pytest.param('LLM("m", **({"swap_space": 4} if vllm_version < "0.10" else {}))\n', id="an arm for old releases"),
    pytest.param(
        'import inspect\nok = inspect.signature(LLM).parameters\nLLM("m", **({"swap_space": 4} if "swap_space" in ok else {}))\n',
        id="an arm that is asked for first",
    ),
    pytest.param('kw = {k.upper(): v for k, v in {"swap_space": 8}.items()}\nLLM("m", **kw)\n', id="other keys"),
    pytest.param('kw = {v: k for k, v in {"swap_space": 8}.items()}\nLLM("m", **kw)\n', id="values for keys"),
    pytest.param('C = {"llm": {"swap_space": 4}}\nLLM("m", **C["other"])\n', id="another key of the outer one"),
    pytest.param('kw = {"swap_space": 4}.copy()\nkw.pop("swap_space")\nLLM("m", **kw)\n', id="taken out of a copy"),
    pytest.param("def f(kw):\n    EngineArgs(**kw)\n", id="a parameter"),
    pytest.param('kw = {"swap_space": 8}\nkw.pop("swap_space")\nEngineArgs(**kw)\n', id="what is taken out"),
    pytest.param('kw = {"swap_space": 8}\ndel kw["swap_space"]\nEngineArgs(**kw)\n', id="what is deleted"),
    pytest.param('kw = {"swap_space": 8}\nkw.pop(name)\nEngineArgs(**kw)\n', id="something is taken out"),
    pytest.param('kw = {"swap_space": 8}\nclean(kw)\nEngineArgs(**kw)\n', id="what a function may change"),
    pytest.param('kw = {"swap_space": 8}\nkw = other()\nEngineArgs(**kw)\n', id="a name of two things"),
    pytest.param('kw = {}\nEngineArgs(**kw)\nkw["swap_space"] = 8\n', id="an item set behind the call"),
    pytest.param(
        'import inspect\nkw = {}\nif "swap_space" in inspect.signature(LLM).parameters:\n    kw["swap_space"] = 8\n'
        'LLM("m", **kw)\n',
        id="an item that is asked for first",
    ),
    pytest.param(
        'kw = {}\nif vllm_version < "0.10":\n    kw["swap_space"] = 8\nLLM("m", **kw)\n', id="an item for old releases"
    ),
    pytest.param(
        'kw = {k: v for k, v in {"swap_space": 8}.items() if k in known}\nLLM("m", **kw)\n', id="a comprehension"
    ),
    pytest.param(
        "class D(EngineArgs):\n    def __init__(self, swap_space): ...\n\nD(swap_space=8)\n",
        id="a subclass with its own constructor",
    ),
    pytest.param(
        "class D(EngineArgs):\n    def __init__(self, swap_space): ...\n\nclass E(D):\n    def __init__(self):\n"
        "        super().__init__(swap_space=8)\n",
        id="super() of such a subclass",
    ),
    pytest.param("@made\nclass D(EngineArgs): ...\n\nD(swap_space=8)\n", id="a decorated subclass"),
    pytest.param("@dataclass\nclass D(EngineArgs):\n    swap_space: int = 4\n\nD(swap_space=8)\n", id="its own field"),
    pytest.param(
        'def f(kw):\n    kw["swap_space"] = 8\n    kw = clean(kw)\n    EngineArgs(**kw)\n',
        id="added before the name was bound again",
    ),
    pytest.param(
        'def f(kw):\n    kw["swap_space"] = 8\n    clean(kw)\n    EngineArgs(**kw)\n',
        id="a parameter that a function changes",
    ),
    pytest.param(
        'def f(kw):\n    def g():\n        kw["swap_space"] = 8\n    EngineArgs(**kw)\n', id="added in another function"
    ),
    pytest.param(
        'kw = {}\nfor k in ["n", "best_of"]:\n    if k in known:\n        kw[k] = 1\nSamplingParams(**kw)\n',
        id="keys that are asked for",
    ),
    pytest.param(
        'class C:\n    def __init__(self, kw):\n        self.kw = {"swap_space": 8}\n        self.kw = kw\n    def f(self):\n        LLM("m", **self.kw)\n',
        id="an attribute that is two things",
    ),
    pytest.param(
        'class C:\n    def __init__(self):\n        self.kw = {}\n    def g(self):\n        self.kw["swap_space"] = 8\n    def f(self):\n        LLM("m", **self.kw)\n',
        id="added to an attribute elsewhere",
    ),
    pytest.param(
        'def made(a):\n    return {"swap_space": 8} if a else {}\nLLM("m", **made(1))\n',
        id="what a function may return",
    ),
    pytest.param(
        'def made(a):\n    if a:\n        return {"swap_space": 8}\n    return {}\nLLM("m", **made(1))\n',
        id="what one return has",
    ),
    pytest.param(
        "from other import replace\ndef f(a: EngineArgs):\n    return replace(a, swap_space=8)\n", id="another replace"
    ),
    pytest.param(
        "from dataclasses import replace\ndef f(a: EngineArgs):\n    return replace(a, mine=8)\n",
        id="a field of a subclass",
    ),
    pytest.param('EngineArgs(**{"model": "m"})\npartial(SamplingParams, n=1)\n', id="what the target takes"),
]


@pytest.mark.parametrize(("text", "lines"), FOUND)
def test_a_lost_keyword_is_found_where_it_is_written(text: str, lines: list[int]) -> None:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert [line - LINES for line in outcome.lines("V1M112")] == lines
    assert outcome.text == HEAD + text
    assert rewrite(HEAD + text, "0.10.0").said("V1M112") == []


@pytest.mark.parametrize("text", SILENT)
def test_what_cannot_be_followed_stays_silent(text: str) -> None:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert outcome.said("V1M112") == outcome.said("V1M113") == []


def test_what_asks_for_nothing_is_dropped_where_it_is_written_and_said_elsewhere() -> None:
    text = dedent(
        """
        from functools import partial
        from vllm import EngineArgs, SamplingParams

        p = partial(SamplingParams, best_of=1, n=2)
        e = EngineArgs(**{"swap_space": 4})
        """
    )
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text.replace("best_of=1, ", "")
    (left,) = outcome.open
    assert "carries a value" not in left.message
    assert "asks for nothing" in left.advice


def test_what_only_has_another_name_is_named() -> None:
    (found,) = rewrite('from vllm.config import CompilationConfig\nCompilationConfig(**{"level": 3})\n').said("V1M112")
    assert "`mode`" in found.advice
