"""`plan --usage`: what a program used at run time, laid beside what was found by reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from v1_migrate.cli import main

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
RARE = "from vllm.sequence import SequenceData\n\nSequenceData()\n"
OFTEN = "import vllm.utils\n\n\ndef f(x):\n    return vllm.utils.cdiv(x, 2)\n"
HIDDEN = "def g(module, x):\n    return module.split(x)\n"


def use(tmp_path: Path, file: str, line: int, name: str, count: int, process: str = "1-a", rule: str = "V1M001") -> str:
    entry = {"name": name, "rule": rule, "file": str(tmp_path / file), "line": line, "count": count, "process": process}
    return json.dumps(entry) + "\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {"a_rare.py": RARE, "b_often.py": OFTEN, "c_hidden.py": HIDDEN}.items():
        (tmp_path / "code" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "code" / name).write_text(text)
    lines = [
        use(tmp_path, "code/a_rare.py", 1, "vllm.sequence.SequenceData", 1, rule="V1M004"),
        *(use(tmp_path, "code/b_often.py", 5, "vllm.utils.cdiv", count) for count in (1, 10, 40)),
        use(tmp_path, "code/b_often.py", 5, "vllm.utils.cdiv", 2, process="2-b"),
        use(tmp_path, "code/c_hidden.py", 2, "vllm.utils.split_zmq_path", 7),
        use(tmp_path, "site/other.py", 3, "vllm.utils.cdiv", 5),
    ]
    (tmp_path / "usage.jsonl").write_text("".join(lines) + '{"name": "cut sh')
    return tmp_path


def plan(tree: Path, *arguments: str) -> Result:
    command = ["plan", str(tree / "code"), "--target", "0.32.0", "--jobs", "1", *arguments]
    return CliRunner().invoke(main, command, standalone_mode=False)


def test_files_are_ranked_by_real_use(tree: Path) -> None:
    without = [line.split()[-1] for line in plan(tree).output.splitlines() if line.endswith(".py")]
    assert [Path(name).name for name in without] == ["a_rare.py", "b_often.py"]
    output = plan(tree, "--usage", str(tree / "usage.jsonl")).output
    table = [line.split() for line in output.splitlines()[1:3]]
    assert [(row[0], Path(row[-1]).name) for row in table] == [("42", "b_often.py"), ("1", "a_rare.py")]


def test_what_reading_did_not_see_is_marked(tree: Path) -> None:
    output = plan(tree, "--usage", str(tree / "usage.jsonl")).output
    unseen = output.partition("not found by reading")[2].partition("Used in files")[0]
    assert "7  " in unseen and "c_hidden.py:2: V1M001 vllm.utils.split_zmq_path" in unseen
    assert "a_rare" not in unseen and "b_often" not in unseen
    assert "other.py:3" in output.partition("Used in files that are not below")[2]


def test_the_json_report_has_it_and_keeps_its_schema(tree: Path) -> None:
    plain = json.loads(plan(tree, "--format", "json").output)
    jsonschema.validate(plain, SCHEMA)
    assert "usage" not in plain and all("uses" not in f for f in plain["findings"])
    report: dict[str, Any] = json.loads(plan(tree, "--usage", str(tree / "usage.jsonl"), "--format", "json").output)
    jsonschema.validate(report, SCHEMA)
    uses = {(f["path"], f["line"]): f["uses"] for f in report["findings"] if f["uses"]}
    assert uses == {("a_rare.py", 1): 1, ("b_often.py", 5): 42}
    assert report["usage"]["total"] == 55
    assert [u["file"] for u in report["usage"]["unseen"]] == ["c_hidden.py"]


def test_a_line_that_moved_is_met_by_its_name(tree: Path) -> None:
    (tree / "code" / "b_often.py").write_text("# a comment that came later\n" * 3 + OFTEN)
    report = json.loads(plan(tree, "--usage", str(tree / "usage.jsonl"), "--format", "json").output)
    assert {f["path"]: f["uses"] for f in report["findings"] if f["uses"]}["b_often.py"] == 42


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "V1_COMPAT=report"),
        ("no json\n{}\n", ":1: no line of a usage report"),
        ('{"name": 1}\n', ":1: no line of a usage report"),
        ("[]\n", ":1: no line of a usage report"),
    ],
    ids=["no such file", "no JSON", "other fields", "no object"],
)
def test_what_is_no_report_is_refused(tree: Path, content: str | None, says: str) -> None:
    path = tree / "other.jsonl"
    if content is not None:
        path.write_text(content)
    result = plan(tree, "--usage", str(path))
    assert says in str(result.exception)
    assert "Failure" in type(result.exception).__name__


def test_an_empty_report_is_a_run_that_used_nothing(tree: Path) -> None:
    (tree / "usage.jsonl").write_text("")
    assert "did not come up in that run" in plan(tree, "--usage", str(tree / "usage.jsonl")).output


# Text, then (line of the use, name, rule) and the line of the finding that it is; 0 for none.
MET = [
    pytest.param(
        "from vllm import EngineArgs\n\nEngineArgs(\n    model='m',\n    swap_space=1,\n)\n",
        [((3, "vllm.engine.arg_utils.EngineArgs", "V1M112"), 5)],
        id="the keyword of a call, whose class has two paths",
    ),
    pytest.param(
        "from vllm import EngineArgs\n\nboth = [\n    EngineArgs(\n        model='m',\n        swap_space=1,\n    ),\n"
        "    EngineArgs(\n        swap_space=2,\n    ),\n]\n",
        [
            ((4, "vllm.engine.arg_utils.EngineArgs", "V1M112"), 6),
            ((8, "vllm.engine.arg_utils.EngineArgs", "V1M112"), 9),
        ],
        id="two calls of one statement",
    ),
    pytest.param(
        "from vllm.sequence import (\n    SequenceData,\n    SequenceGroup,\n)\n",
        [((1, "vllm.sequence.SequenceGroup", "V1M003"), 3), ((1, "vllm.sequence.SequenceData", "V1M003"), 2)],
        id="the names of an import",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch.dict('os.environ', {})\n@mock.patch(\n    'vllm.core.scheduler.Scheduler.schedule',\n)\n"
        "def f(m): ...\n",
        [((5, "vllm.core.scheduler", "V1M003"), 6), ((4, "vllm.core.scheduler.Scheduler", "V1M003"), 6)],
        id="a decorator among others",
    ),
    pytest.param(
        "import vllm.utils\n\n\ndef f():\n    a = 1\n    return vllm.utils.cdiv\n",
        [((5, "vllm.utils.split", "V1M001"), 0), ((4, "vllm.sequence.SequenceData", "V1M001"), 0)],
        id="another statement of the same function says nothing",
    ),
    pytest.param(
        "from vllm.sequence import (\n    SequenceGroup,\n)\n",
        [((1, "vllm.sequence.SequenceData", "V1M003"), 0)],
        id="another name of the same statement and rule",
    ),
]


@pytest.mark.parametrize(("text", "uses"), MET)
def test_a_use_is_met_within_its_statement(
    tmp_path: Path, text: str, uses: list[tuple[tuple[int, str, str], int]]
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text(text)
    for (line, name, rule), wanted in uses:
        (tmp_path / "usage.jsonl").write_text(use(tmp_path, "code/a.py", line, name, 1, rule=rule))
        output = plan(
            tmp_path, "--usage", str(tmp_path / "usage.jsonl"), "--format", "json", "--attention", "vllm"
        ).output
        report = json.loads(output)
        assert [f["line"] for f in report["findings"] if f["uses"]] == ([wanted] if wanted else [])
        assert len(report["usage"]["unseen"]) == (not wanted)
