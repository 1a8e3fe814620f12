"""Who binds which name: what a read reaches, by Python's own scoping rules."""

from __future__ import annotations

import ast
import textwrap

import pytest
from v1_migrate.engine.parse import Unparsable, parse
from v1_migrate.engine.references import References
from v1_migrate.engine.walk import walk


def used(text: str, package: str = "") -> list[tuple[int, str, str]]:
    """(line, dotted, role) of every use that leads to vllm."""
    parsed = parse(textwrap.dedent(text).lstrip("\n"))
    references = References(walk(parsed.tree, parsed.extra), package)
    return [(use.node.lineno, use.dotted, use.role) for use in references.uses]


CASES = [
    pytest.param("import vllm.a.b\nvllm.a.b.C()\n", [(2, "vllm.a.b.C", "call")], id="a dotted import binds its top"),
    pytest.param("import vllm.a.b as m\nm.C = 1\n", [(2, "vllm.a.b.C", "patch")], id="an alias, written through"),
    pytest.param("from vllm.a import C\nclass D(C): ...\n", [(2, "vllm.a.C", "base")], id="a base class"),
    pytest.param("from vllm.a import C\nclass D(C[int]): ...\n", [(2, "vllm.a.C", "base")], id="a generic base class"),
    pytest.param(
        "from vllm.a import C\ndef f(x: list[C] | None): ...\n", [(2, "vllm.a.C", "annotation")], id="in a union"
    ),
    pytest.param(
        'from vllm.a import C\ndef f(x: "C"): ...\n', [(2, "vllm.a.C", "annotation")], id="a quoted annotation"
    ),
    pytest.param(
        "from vllm.a import C\nisinstance(x, (int, C))\n", [(2, "vllm.a.C", "isinstance")], id="an isinstance tuple"
    ),
    pytest.param("from vllm.a import C\ndef f(C):\n    return C\n", [], id="an argument hides it"),
    pytest.param("from vllm.a import C\n[C for C in x]\n", [], id="a comprehension variable hides it"),
    pytest.param(
        "from vllm.a import C\nclass D:\n    C = 1\n    def f(self):\n        return C\n",
        [(5, "vllm.a.C", "value")],
        id="a class body's names are not seen by its methods",
    ),
    pytest.param(
        "def f():\n    from vllm.a import C\n    return C\nC\n", [(3, "vllm.a.C", "value")], id="a lazy import"
    ),
    pytest.param(
        "def f():\n    global C\n    from vllm.a import C\nC()\n",
        [(4, "vllm.a.C", "call")],
        id="a global import reaches the module",
    ),
    pytest.param(
        "from vllm.a import C\nW = C\nW.m()\n", [(2, "vllm.a.C", "rebind"), (3, "vllm.a.C.m", "call")], id="a renaming"
    ),
    pytest.param("C = C\n", [], id="a name assigned from itself does not loop"),
    pytest.param("A = B\nB = A\nA.x\n", [], id="nor do two from each other"),
    pytest.param("from vllm.a import C\ndel C.x\n", [(2, "vllm.a.C.x", "delete")], id="a deletion"),
    pytest.param(
        "from vllm.a import C\nmatch x:\n    case C(): ...\n", [(3, "vllm.a.C", "isinstance")], id="a class pattern"
    ),
    pytest.param("from vllm.a import C\n(C := 1)\n", [], id="a walrus rebinds"),
    pytest.param("from vllm.a import C\nC.__name__\n", [(2, "vllm.a.C", "value")], id="special attributes end a chain"),
    pytest.param(
        'import importlib\nm = importlib.import_module("vllm.a")\nm.C\n',
        [(3, "vllm.a.C", "value")],
        id="import_module is an import",
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_uses(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert used(text) == expected


def test_relative_imports_count_inside_the_package_only() -> None:
    text = "from .worker import Worker\nWorker()\n"
    assert used(text, "vllm.worker") == [(2, "vllm.worker.worker.Worker", "call")]
    assert used(text, "plugin.worker") == []
    assert used("from ....x import Y\nY()\n", "vllm.a") == []


def test_a_name_with_two_meanings_is_not_certain() -> None:
    parsed = parse("try:\n    from vllm.a import C\nexcept ImportError:\n    C = None\nC()\n")
    references = References(walk(parsed.tree, parsed.extra), "")
    assert [use.certain for use in references.uses] == [False]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('x = f"{a["b"]}"\n', id="quotes reused in an f-string"),
        pytest.param("def f[T](x: T) -> T: ...\n", id="type parameters"),
        pytest.param("type A = list[int]\n", id="a type alias"),
        pytest.param('x = f"""{\na[\n"b"]}"""\n', id="an expression over several lines"),
        pytest.param("try:\n    pass\nexcept A, B:\n    pass\n", id="an exception list without brackets"),
    ],
)
def test_newer_syntax_keeps_its_positions(text: str) -> None:
    marker = text + "import vllm.a\nvllm.a.C\n"
    assert used(marker) == [(marker.count("\n"), "vllm.a.C", "value")]


def test_names_inside_newer_f_strings_are_seen() -> None:
    assert used('from vllm.a import C\nx = f"{C["b"]}"\n') == [(2, "vllm.a.C", "value")]


@pytest.mark.parametrize("text", ['print "x"\n', "x = (\n", "a\0b\n", "class\n"])
def test_what_is_not_python_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(Unparsable, match=r"not valid Python|null bytes"):
        parse(text)


def test_every_node_of_a_kept_type_is_collected() -> None:
    text = "f(g(h()))\nclass A:\n    def m(self, x=f(1)): return [f(y) for y in f(2)]\n"
    parsed = parse(text)
    model = walk(parsed.tree, parsed.extra)
    calls = [node for node in ast.walk(parsed.tree) if isinstance(node, ast.Call)]
    assert {id(found.node) for found in model.every(ast.Call)} == {id(call) for call in calls}
