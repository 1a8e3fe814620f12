"""Does the judge notice each way in which a rewrite can harm a tree?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guarantees.nothing_breaks import GUARANTEES, Damage, compare, lowest_grammar

GOOD = b"import os\nfrom a import Old\n\nx = Old()\n"


def judged(tmp_path: Path, before: bytes, after: bytes, *fixed: int, others: dict[str, str] | None = None) -> Damage:
    for name, source in (("before", before), ("after", after)):
        tree = tmp_path / name
        tree.mkdir()
        (tree / "m.py").write_bytes(source)
        for file, text in (others or {}).items():
            (tree / file).write_text(text)
    report: dict[str, Any] = {
        "findings": [
            {"path": "m.py", "line": line, "end_line": line, "fixed": True, "edited": [[line, line]], "message": ""}
            for line in fixed
        ]
    }
    return compare(tmp_path / "before", tmp_path / "after", report)


def broken(damage: Damage) -> list[str]:
    return [name for name in GUARANTEES if damage.offences[name]]


@pytest.mark.parametrize(
    ("before", "after", "fixed", "expected"),
    [
        pytest.param(GOOD, GOOD.replace(b"from a ", b"from b "), [2], [], id="an honest rewrite"),
        pytest.param(b"from a import X\nX\n", b"from b import Y as X\nX\n", [1], ["same-thing"],
                     id="a name that leads to something else"),
        pytest.param(b"from a import X\ny = 1\nX\n", b"from b import X\ny = 2\nX\n", [1], ["only-findings"],
                     id="a line beside an edit"),
        pytest.param(GOOD, GOOD, [2], ["only-findings"], id="says fixed, and did nothing"),
        pytest.param(GOOD, GOOD.replace(b"from a ", b"from b "), [], ["only-findings"], id="changed in silence"),
        pytest.param(GOOD, GOOD.replace(b"from a ", b"from b "), [4], ["only-findings"], id="the finding is elsewhere"),
        pytest.param(GOOD, GOOD.replace(b"from a import Old", b"pass"), [2], ["bound"], id="a name in use is lost"),
        pytest.param(GOOD, GOOD.replace(b"from a import Old", b"from b import New").replace(b"Old()", b"New()"),
                     [2, 4], [], id="a renamed name that nothing reads any more"),
        pytest.param(GOOD, b"import os\n" + GOOD[GOOD.index(b"\nx") :], [1], ["bound"], id="a line lost, its name in use"),
        pytest.param(GOOD, GOOD.replace(b"import os\n", b"", 1), [1], [], id="an import lost that nothing reads"),
        pytest.param(b"a = 1\n__all__ = ['a']\n", b"pass\n__all__ = ['a']\n", [1], ["bound"], id="named in __all__"),
        pytest.param(b"from a import X\ndef f(y: 'list[X]'): ...\n", b"pass\ndef f(y: 'list[X]'): ...\n", [1], ["bound"],
                     id="named in a string annotation"),
        pytest.param(b"from a import X\ny = 1  # type: X\n", b"pass\ny = 1  # type: X\n", [1], ["bound"],
                     id="named in a type comment"),
        pytest.param(b"try:\n    from a import X\nexcept ImportError:\n    X = None\nX\n",
                     b"try:\n    pass\nexcept ImportError:\n    X = None\nX\n", [2], ["bound"], id="lost in one arm of a try"),
        pytest.param(b"if a:\n    from b import X\nelse:\n    from c import X\nX\n",
                     b"if a:\n    from b import X\nelse:\n    pass\nX\n", [4], ["bound"], id="lost in one arm of an if"),
        pytest.param(b"def f():\n    from a import X\n    return X\n", b"from a import X\ndef f():\n    return X\n", [1, 2],
                     ["bound"], id="an import that moved out of its function"),
        pytest.param(b"if v1:\n    from b import X\nelse:\n    from c import X\nX\n", b"from b import X\nX\n", [1], [],
                     id="an if folded to one of its arms"),
        pytest.param(b"if v1:\n    from b import X\nelse:\n    from c import X\nX\n", b"pass\nX\n", [1], ["bound"],
                     id="an if that went with its names"),
        pytest.param(b"class A:\n    def f(self): ...\n    def g(self): ...\n", b"class A:\n    def g(self): ...\n", [2], [],
                     id="a method that nothing reads"),
        pytest.param(b"for X in a:\n    pass\nprint(X)\n", b"for Y in a:\n    pass\nprint(X)\n", [1], ["bound"],
                     id="a loop variable"),
        pytest.param(b"match a:\n    case [X]:\n        b = X\n", b"match a:\n    case [Y]:\n        b = X\n", [2],
                     ["bound"], id="a name bound by a pattern"),
        pytest.param(b"import a\n", b"import (a\n", [1], ["compiles"], id="a syntax error"),
        pytest.param(b"x = a\n", b"x = (y := a)\n", [1], ["compiles"], id="newer grammar than the file had"),
        pytest.param(b"import a\r\nimport b\r\n", b"import a\r\nimport c as b\n", [2], ["faithful-bytes"], id="line ends"),
        pytest.param(b"import a\r\nimport b\n", b"import a\r\nimport c as b\n", [2], [], id="mixed line ends kept"),
        pytest.param(b"\xef\xbb\xbfimport a\n", b"import b as a\n", [1], ["faithful-bytes"], id="a BOM lost"),
        pytest.param(b"# coding: latin-1\nimport a\n", b"# coding: utf-8\nimport a\n", [1], ["faithful-bytes"],
                     id="another encoding"),
        pytest.param(b"from a import (\n    X,\n)\nX\n", b"from b import (\n    X,\n)\nX\n", [2],
                     ["only-findings"], id="the module changed, and only the name's line is accounted for"),
        pytest.param(b"print 'a'\n", b"print 'b'\n", [1], [], id="a file that never compiled owes nothing"),
    ],
)  # fmt: skip
def test_offences(tmp_path: Path, before: bytes, after: bytes, fixed: list[int], expected: list[str]) -> None:
    assert broken(judged(tmp_path, before, after, *fixed)) == expected


def test_a_name_that_another_file_imports_is_in_use(tmp_path: Path) -> None:
    others = {"user.py": "from .m import os\n"}
    damage = judged(tmp_path, GOOD, GOOD.replace(b"import os\n", b"", 1), 1, others=others)
    assert damage.offences["bound"] == ["m.py:1: os in m.py: not bound here any more; imported by user.py:1"]


def test_a_file_that_comes_to_import_from_itself_is_broken(tmp_path: Path) -> None:
    for name, module in (("before", "vllm.worker.base"), ("after", "vllm.v1.worker.base")):
        file = tmp_path / name / "vllm" / "v1" / "worker" / "base.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"from {module} import Base as BaseV0\nclass Base(BaseV0): ...\n")
    findings = [
        {"path": "vllm/v1/worker/base.py", "line": 1, "end_line": 1, "fixed": True, "edited": [[1, 1]], "message": ""}
    ]
    damage = compare(tmp_path / "before", tmp_path / "after", {"findings": findings})
    assert broken(damage) == ["no-self-import"]


def test_names_let_go_are_counted(tmp_path: Path) -> None:
    assert judged(tmp_path, GOOD, GOOD.replace(b"import os\n", b"", 1), 1).excused == {"unread import": 1}


def test_files_must_stay_as_they_are_in_name_and_mode(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    (tmp_path / "before" / "gone.py").write_text("")
    (tmp_path / "after" / "new.py").write_text("")
    for name, mode in (("before", 0o755), ("after", 0o644)):
        (tmp_path / name / "run.sh").write_text("true\n")
        (tmp_path / name / "run.sh").chmod(mode)
    damage = compare(tmp_path / "before", tmp_path / "after", {"findings": []})
    assert damage.offences["files"] == ["gone.py: gone", "new.py: created"]
    assert damage.offences["faithful-bytes"] == ["run.sh: another mode"]


@pytest.mark.parametrize(
    ("source", "grammar"),
    [
        pytest.param(b"x = 1\n", (3, 7), id="plain"),
        pytest.param(b"(x := 1)\n", (3, 8), id="walrus"),
        pytest.param(b"match x:\n    case 1: pass\n", (3, 10), id="match"),
        pytest.param(b"return\n", None, id="parses, does not compile"),
    ],
)
def test_lowest_grammar(source: bytes, grammar: tuple[int, int] | None) -> None:
    assert lowest_grammar(source) == grammar
