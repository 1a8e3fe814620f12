"""Generated programs with the switch in every position mean the same before and after the fold.

Before: `VLLM_USE_V1=1` and a `vllm.envs` that says so. After: neither exists. Each program writes a log; the logs and
the exception that ended it, if any, must be equal.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .harness import rewrite

PRELUDE = "import os\nimport vllm\nfrom vllm import envs\nfrom vllm.envs import VLLM_USE_V1 as FLAG\nn = 1\n"

SWITCH = st.sampled_from(
    [
        "envs.VLLM_USE_V1",
        "vllm.envs.VLLM_USE_V1",
        "FLAG",
        'envs.is_set("VLLM_USE_V1")',
        'os.environ["VLLM_USE_V1"] == "1"',
        'os.environ.get("VLLM_USE_V1", "0") == "1"',
        "os.getenv('VLLM_USE_V1') != '1'",
        'os.getenv("VLLM_USE_V1") in ("1", "true")',
        '"VLLM_USE_V1" in os.environ',
        '"VLLM_USE_V1" not in os.environ',
        'os.getenv("VLLM_USE_V1")',
        'bool(int(os.getenv("VLLM_USE_V1", "0")))',
        'int(os.environ["VLLM_USE_V1"])',
        "(not envs.VLLM_USE_V1)",
    ]
)
ASKED = st.integers(0, 9).map(lambda k: f"p({k})")
CONDITION = st.recursive(
    st.one_of(SWITCH, SWITCH, ASKED, st.sampled_from(["n", "True", "not n"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: "(" + " ".join(t) + ")"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} or\n      {t[1]}  # V1\n      and {t[2]})"),
        inner.map(lambda c: f"not ({c})"),
        inner.map(lambda c: f"({c})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=5,
)
VALUE = st.one_of(
    CONDITION,
    st.tuples(CONDITION, ASKED).map(lambda t: f"'v1' if {t[0]} else {t[1]}"),
    st.tuples(ASKED, CONDITION).map(lambda t: f"{t[0]} if {t[1]} else (3,\n  4)"),
    CONDITION.map(lambda c: f"[i for i in (1, 2) if i if {c}]"),
    CONDITION.map(lambda c: f"{{i: 0 for i in (1, 2) if {c} if i > 1}}"),
    CONDITION.map(lambda c: f"(lambda a={c}: a)()"),
    SWITCH.map(lambda s: "f'{" + s.replace("'", '"') + "}'" if '"' not in s and "'" not in s else "0"),
    SWITCH.filter(lambda s: '"' not in s and "'" not in s).map(lambda s: f"f'a{{1 if {s} else 2}}'"),
    st.tuples(CONDITION, ASKED).map(lambda t: f"dict(VLLM_USE_V1='1', A={t[0]}, B={t[1]}).get('A')"),
    CONDITION.map(lambda c: f"sorted({{'VLLM_USE_V1': '1', 'A': bool({c})}}.items())[:1]"),
)
LINES = list[str]


def _indented(block: LINES) -> LINES:
    return ["    " + line for line in block]


def _chain(parts: list[tuple[str, LINES]], tail: LINES) -> LINES:
    lines: LINES = []
    for position, (condition, block) in enumerate(parts):
        lines += [f"{'elif' if position else 'if'} {condition}:  # arm", *_indented(block)]
    return lines + (["# otherwise", "else:", *_indented(tail)] if tail else [])


def _function(name: int, block: LINES, condition: str) -> LINES:
    body = [
        "flag = envs.VLLM_USE_V1",
        "n = 0",
        *block,
        f"if flag and {condition}:",
        "    return log('early')",
        "log('late')",
    ]
    return [f"def f{name}():", *_indented(body), f"f{name}()"]


def _statement(inner: st.SearchStrategy[LINES]) -> st.SearchStrategy[LINES]:
    return st.one_of(
        st.tuples(st.lists(st.tuples(CONDITION, inner), min_size=1, max_size=3), st.one_of(st.just([]), inner)).map(
            lambda t: _chain(*t)
        ),
        st.tuples(CONDITION, inner).map(lambda t: [f"while {t[0]}:", *_indented(t[1]), "    break"]),
        st.tuples(inner, inner).map(
            lambda t: ["try:", *_indented(t[0]), "finally:", "    # cleanup", *_indented(t[1]), "    log('end')"]
        ),
        inner.map(lambda b: ["for i in (1, 2):", *_indented(b), "", "# behind"]),
        inner.map(lambda b: ["with box() as m:", "    m.setenv('VLLM_USE_V1', '1')", "", *_indented(b)]),
        inner.map(
            lambda b: ["with box() as m, box() as k:", "    m.setenv('VLLM_USE_V1', '1')", *_indented(b), "    k.use()"]
        ),
        st.tuples(st.integers(0, 99), inner, CONDITION).map(lambda t: _function(*t)),
    )


SIMPLE = st.one_of(
    VALUE.map(lambda v: [f"log({v})"]),
    VALUE.map(lambda v: [f"n = {v}", "log(n)"]),
    st.tuples(st.integers(0, 999), VALUE, CONDITION).map(
        lambda t: [f"q{t[0]} = {t[1]}", f"log([q{t[0]}, 0 if q{t[0]} and {t[2]} else 1])"]
    ),
    CONDITION.map(lambda c: [f"if {c}: log('one'); log('two')"]),
    CONDITION.map(lambda c: [f"assert ({c}) or True, log('message')"]),
    st.just(["os.environ['VLLM_USE_V1'] = '1'"]),
    st.just(["os.environ['VLLM_USE_V1'] = '1'; log('beside')"]),
    st.just(["os.environ.setdefault('VLLM_USE_V1', '1')"]),
    st.just(['log("""a', "  # no comment", '    b""")']),
    st.just(["envs.VLLM_USE_V1"]),
    st.just(["assert FLAG, 'V1 only'"]),
)
BLOCK = st.recursive(
    st.lists(SIMPLE, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part]),
    lambda inner: st.lists(st.one_of(SIMPLE, _statement(inner)), min_size=1, max_size=3).map(
        lambda parts: [line for part in parts for line in part]
    ),
    max_leaves=6,
)


class _Box:
    def setenv(self, name: str, value: str) -> None:
        pass

    def use(self) -> None:
        pass


class _Monkeypatch:
    @contextmanager
    def context(self) -> Iterator[_Box]:
        yield _Box()


def run(program: str, v1: bool) -> list[object]:
    """The log of a program, with the name of the exception that ended it."""
    written: list[object] = []
    envs = types.ModuleType("vllm.envs")
    vllm = types.ModuleType("vllm")
    vllm.envs = envs  # type: ignore[attr-defined]
    if v1:
        envs.VLLM_USE_V1 = True  # type: ignore[attr-defined]
        envs.is_set = lambda name: name == "VLLM_USE_V1"  # type: ignore[attr-defined]

    def ask(number: int) -> bool:
        written.append(("asked", number))
        return number % 3 == 0

    monkeypatch = _Monkeypatch()
    names = {"log": written.append, "p": ask, "box": monkeypatch.context, "monkeypatch": monkeypatch}
    environment = {**os.environ, "VLLM_USE_V1": "1"}
    if not v1:
        del environment["VLLM_USE_V1"]
    modules = {**sys.modules, "vllm": vllm, "vllm.envs": envs}
    with mock.patch.dict(os.environ, environment, clear=True), mock.patch.dict(sys.modules, modules):
        try:
            exec(compile(program, "program", "exec"), names)
        except Exception as error:
            written.append(type(error).__name__)
    return written


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(BLOCK, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["    ", "  ", "\t"]))
def test_a_folded_program_means_the_same(block: list[str], newline: str, step: str) -> None:
    program = PRELUDE + "\n".join(_reindented(line, step) for line in block) + "\n"
    program = program.replace("box()", "monkeypatch.context()")
    outcome = rewrite(program.replace("\n", newline), "0.11.2", folds=True)
    before, after = run(program, v1=True), run(outcome.text, v1=False)
    assert _normal(after) == _normal(before), outcome.text
    assert not [f for f in outcome.open if f.rule.startswith("V1M2") and "reached" not in f.advice], outcome.text


def _reindented(line: str, step: str) -> str:
    stripped = line.lstrip(" ")
    return step * ((len(line) - len(stripped)) // 4) + stripped if not line.startswith("  #") else line


def _normal(written: list[object]) -> list[object]:
    """`x and envs.VLLM_USE_V1` and `x and True` may differ in type, never in what they mean."""
    return [entry if not isinstance(entry, str) else entry.replace("\r\n", "\n") for entry in written]


STANDARD = ("contextlib", "fnmatch", "functools", "shlex", "shutil", "textwrap", "tokenize", "warnings")
INSERTED = (
    '{at}switch_os.environ["VLLM_USE_V1"] = "1"\n',
    "{at}if not switch_envs.VLLM_USE_V1: raise ValueError\n",
    "{at}if not switch_envs.VLLM_USE_V1:\n{at}    # gone\n{at}    raise ValueError\n",
    "{at}assert switch_envs.VLLM_USE_V1, 'V1 only'\n",
    "{at}while switch_os.getenv('VLLM_USE_V1') == '0':\n{at}    pass\n",
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.sampled_from(STANDARD), st.integers(0, 10**9), st.integers(1, 6))
def test_what_was_put_into_a_real_file_goes_and_leaves_no_trace(name: str, seed: int, count: int) -> None:
    random = Random(seed)
    text = Path(importlib.import_module(name).__file__ or "").read_text()
    lines = text.splitlines(keepends=True)
    first, *others = _places(text, lines)
    for statement in sorted(random.sample(others, min(count, len(others))), key=lambda s: -s.lineno):
        at = " " * statement.col_offset
        start, end = statement.lineno - 1, statement.end_lineno or statement.lineno
        if random.random() < 0.5 or isinstance(statement, ast.For | ast.If):
            lines[start:start] = [random.choice(INSERTED).format(at=at)]
        else:
            body = ["    " + line if line.strip() else line for line in lines[start:end]]
            lines[start:end] = [f"{at}if switch_envs.VLLM_USE_V1:\n", *body, f"{at}else:\n{at}    raise ValueError\n"]
    imports = ["import os as switch_os\n", "from vllm import envs as switch_envs\n"]
    lines[first.lineno - 1 : first.lineno - 1] = imports
    outcome = rewrite("".join(lines), "0.11.2", folds=True, rel="test_file.py")
    left = "".join(line for line in outcome.text.splitlines(keepends=True) if line not in imports)  # not all are used
    assert left == text


def _places(text: str, lines: list[str]) -> list[ast.stmt]:
    """Statements that something can be put before: the first one is where imports may stand."""
    tree = ast.parse(text)
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            for statement in getattr(node, name, None) or () if isinstance(node, ast.stmt | ast.Module) else ():
                if _usable(statement, lines):
                    found.append(statement)
    return sorted(found, key=lambda statement: (statement not in tree.body, statement.lineno))


def _usable(statement: ast.stmt, lines: list[str]) -> bool:
    """It has its lines to itself, moves without harm, and no comment above it would be taken for ours."""
    above = lines[statement.lineno - 2].strip() if statement.lineno > 1 else ""
    simple = isinstance(statement, ast.Assign | ast.Return | ast.Raise | ast.For | ast.If | ast.Import)
    alone = lines[statement.lineno - 1][: statement.col_offset].isspace() or statement.col_offset == 0
    texts = [node for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    single = all(node.lineno == node.end_lineno for node in texts)
    ends = lines[(statement.end_lineno or 1) - 1].rstrip()
    is_elif = lines[statement.lineno - 1].lstrip().startswith("elif")
    return simple and alone and single and not is_elif and not above.startswith("#") and ";" not in ends
