"""Do mutants hold what they promise, and is one that gets by noticed?"""

from __future__ import annotations

import random
import shlex
import sys
from pathlib import Path

import pytest

from guarantees import mutants, oracle
from guarantees.judge import ToolFailed, judge
from guarantees.mutant_forms import FORMS, MARK, MEMBER
from guarantees.references import references
from guarantees.small_releases import write_tree
from guarantees.stale_names import Stale

# A stand-in for the tool. How it behaves is its first argument.
TOOL = """
import json, pathlib, sys
how, tree = sys.argv[1], pathlib.Path(sys.argv[3])
if how == "crash":
    sys.exit("nothing done")
findings = []
for path in tree.rglob("*.py"):
    source = path.read_bytes()
    if how in ("rewrite", "rewrite silently"):
        new = source.replace(b"vllm.worker.cpu import Worker", b"vllm.v1.cpu import Worker")
        path.write_bytes(new)
    else:
        new = source
    if how == "never settle":
        path.write_bytes(source + b"#")
    where = path.relative_to(tree).as_posix()
    for number, (one, two) in enumerate(zip(source.splitlines(), new.splitlines()), 1):
        if how in ("speak", "never settle") or (how == "rewrite" and one != two):
            findings.append({"path": where, "line": number, "end_line": number, "message": "", "fixed": one != two,
                             "edited": [[number, number]] if one != two else []})
print(json.dumps({"findings": findings, "summary": {}}))
"""


@pytest.fixture
def tool(tmp_path: Path) -> str:
    script = tmp_path / "tool.py"
    script.write_text(TOOL)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


@pytest.mark.parametrize("name", sorted(FORMS))
def test_every_form_compiles_and_is_stale_where_it_says(small_names: oracle.Names, name: str) -> None:
    member = "load" if FORMS[name][0] == MEMBER else ""
    code = FORMS[name][1](Stale("vllm.worker.cpu", "Worker", member, "Base", "module", True), "planted")
    source = "\n".join(line.rstrip(MARK) for line in code).encode()
    stale = {line for r in references(source) if small_names.stale(r) for line in range(r.line, r.end_line + 1)}
    assert {number for number, line in enumerate(code, 1) if line.endswith(MARK)} - stale == set()
    compile(source, name, "exec")


def test_a_seed_gives_the_same_mutants_and_another_seed_others(small_names: oracle.Names) -> None:
    one, two, three = (mutants.generate(small_names, seed, 30) for seed in (1, 1, 2))
    assert len(one) == 30
    assert one == two
    assert one != three


def test_mutants_are_planted_in_files_of_a_tree(tmp_path: Path, small_names: oracle.Names) -> None:
    write_tree(tmp_path, {"real.py": "REAL = 1\n\n\nclass Real:\n    pass\n"})
    made = mutants.generate(small_names, 3, 40, tmp_path)
    assert any(b"REAL = 1" in mutant.source for mutant in made)


@pytest.mark.parametrize(
    ("how", "by", "breaks"),
    [
        pytest.param("speak", 0, set(), id="a tool that speaks of every line lets none by"),
        pytest.param("nothing", 25, set(), id="a tool that says nothing lets all by"),
        pytest.param(
            "never settle", 0, {"second-run", "only-findings", "faithful-bytes"}, id="a tool that never settles"
        ),
    ],
)
def test_run(small_names: oracle.Names, tool: str, how: str, by: int, breaks: set[str]) -> None:
    made = mutants.generate(small_names, 5, 25)
    lines = mutants.run(made, small_names, "0.32.0", f"{tool} {shlex.quote(how)}")
    failed = {line.guarantee: line.offenders for line in lines if line.offenders}
    assert len(failed.pop("mutants-that-got-by", [])) == by
    assert failed.keys() <= breaks
    assert bool(failed) == bool(breaks)


@pytest.mark.parametrize(
    ("after", "lines", "caught"),
    [
        pytest.param(b"a = 1\nfrom vllm.v1.cpu import Worker\n", [], True, id="rewritten to what exists"),
        pytest.param(b"a = 1\nfrom vllm.v1.nowhere import Worker\n", [], False, id="rewritten to what does not exist"),
        pytest.param(
            b"a = 1\nb = 2\nfrom vllm.worker.cpu import Worker\n", [3], True, id="kept, and spoken of lower down"
        ),
        pytest.param(
            b"a = 1\nfrom vllm.worker.cpu import Worker\n", [1], False, id="kept, and the finding is elsewhere"
        ),
        pytest.param(b"a = 1\nfrom vllm.worker.cpu import Worker\n", [-2], False, id="kept, and said to be fixed"),
        pytest.param(b"a = 1\n", [], True, id="taken out"),
    ],
)
def test_escaped(small_names: oracle.Names, after: bytes, lines: list[int], caught: bool) -> None:
    stale = Stale("vllm.worker.cpu", "Worker")
    made = mutants.Mutant("m.py", "plain", stale, b"a = 1\nfrom vllm.worker.cpu import Worker\n", (2,))
    findings = [{"line": abs(line), "end_line": abs(line), "fixed": line < 0} for line in lines]
    assert (mutants.escaped(made, after, findings, small_names) == "") is caught


def test_planting_keeps_tabs_and_never_goes_before_a_future_import() -> None:
    source = b'"""Doc."""\nfrom __future__ import annotations\nif 1:\n\tx = 1\n'
    for seed in range(40):
        rng = random.Random(seed)
        made = mutants.mutant(seed, source, Stale("vllm.worker.cpu", "Worker"), "under if", rng)
        assert made is not None
        assert made.source.index(b"__future__") < made.source.index(b"vllm")


@pytest.mark.parametrize(
    ("how", "failing"),
    [
        pytest.param("speak", set(), id="all lines spoken of"),
        pytest.param("rewrite", set(), id="rewritten"),
        pytest.param("nothing", {"silent-misses"}, id="nothing said"),
        pytest.param("rewrite silently", {"only-findings"}, id="rewritten without a word"),
    ],
)
def test_judge_of_a_tree(tmp_path: Path, small_names: oracle.Names, tool: str, how: str, failing: set[str]) -> None:
    tree = write_tree(tmp_path / "tree", {"a.py": "from vllm.worker.cpu import Worker\n"})
    judgement = judge(tree, small_names, "0.32.0", f"{tool} {shlex.quote(how)}")
    assert {line.guarantee for line in judgement.lines if line.offenders and line.counts} == failing
    assert judgement.holds is not bool(failing)
    assert (tree / "a.py").read_text() == "from vllm.worker.cpu import Worker\n"


def test_judge_says_when_a_tree_should_have_stayed_untouched(
    tmp_path: Path, small_names: oracle.Names, tool: str
) -> None:
    tree = write_tree(tmp_path / "tree", {"a.py": "from vllm.worker.cpu import Worker\n"})
    judgement = judge(tree, small_names, "0.32.0", f"{tool} rewrite", untouched=True)
    assert [line.offenders for line in judgement.lines if line.guarantee == "untouched"] == [["a.py"]]


def test_a_tool_that_fails_is_not_judged(tmp_path: Path, small_names: oracle.Names, tool: str) -> None:
    tree = write_tree(tmp_path / "tree", {"a.py": ""})
    with pytest.raises(ToolFailed, match="nothing done"):
        judge(tree, small_names, "0.32.0", f"{tool} crash")
