"""`# v1: ignore[...]`: what it covers, and what is said about comments that cover nothing."""

from __future__ import annotations

import pytest
from v1_migrate.findings import Edit, Finding, Safety, Severity
from v1_migrate.source import Source
from v1_migrate.suppress import UNUSED, apply, comments


def at(line: int, rule: str = "V1M001", name: str = "", *, primary: bool = True, edit: bool = False) -> Finding:
    edits = (Edit(0, 1, "x", "y"),) if edit else ()
    safety = Safety.V1 if edit else Safety.MANUAL
    return Finding("f.py", line, 1, line, 2, rule, "m", Severity.ERROR, safety, name=name, primary=primary, edits=edits)


def source(text: str) -> Source:
    return Source.from_bytes(text.encode(), "f.py")


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        pytest.param("import a  # v1: ignore[V1M001] why\nimport b\n", {1}, id="the statement on its line"),
        pytest.param("# v1: ignore[V1M001]\n\n# more\nimport a\nimport b\n", {4}, id="the next statement"),
        pytest.param("# v1: ignore[V1M001]\nfrom a import (\n  b,\n)\nx\n", {2, 3, 4}, id="all lines of the next one"),
        pytest.param("from a import (  # v1: ignore[V1M001]\n  b,\n)\nx\n", {1, 2, 3}, id="first line: the statement"),
        pytest.param("from a import (\n  b,\n)  # v1: ignore[V1M001]\nx\n", {1, 2, 3}, id="last line: the statement"),
        pytest.param("from a import (\n  b,  # v1: ignore[V1M001]\n  c,\n)\n", {2}, id="a line inside: that line"),
        pytest.param("f(\n  # v1: ignore[V1M001]\n  a,\n)\n", {2}, id="alone inside brackets: that line only"),
        pytest.param("if x:  # v1: ignore[V1M001]\n  import a\n", {1}, id="a block's header, not its body"),
        pytest.param("if x:\n  # v1: ignore[V1M001]\n  import a\nb\n", {3}, id="in a block"),
        pytest.param("import a  # noqa: F401  # v1: ignore[V1M001]\n", {1}, id="after another comment"),
        pytest.param("import a  # V1:ignore[ v1m002 ,v1m001 ]\n", {1}, id="several rules, any case"),
        pytest.param("import a\r\nimport b  # v1: ignore[V1M001]\r\n", {2}, id="CR LF"),
        pytest.param("import a\rimport b  # v1: ignore[V1M001]\rc", {2}, id="CR only"),
        pytest.param("x = '''\n# v1: ignore[V1M001]\n'''\nimport a\n", set(), id="not inside a string"),
        pytest.param("import a  # v1: ignore\n", set(), id="not without a rule"),
        pytest.param("import a  # v1: ignore[V1M002]\n", set(), id="not for another rule"),
        pytest.param("import a  # v1: ignored[V1M001]\n", set(), id="not a longer word"),
        pytest.param("import a  # v1: ignore[V1M001]\n  x = (\n", set(), id="not in a file that is no Python"),
    ],
)
def test_what_a_comment_covers(text: str, covered: set[int]) -> None:
    lines = range(1, len(source(text).line_starts) + 1)
    kept, suppressed = apply(source(text), [at(line) for line in lines])
    assert {finding.line for finding in kept if finding.rule != UNUSED} == set(lines) - covered
    assert suppressed == len(covered)


def test_in_other_files_it_covers_its_line_or_the_next() -> None:
    text = "a: 1  # v1: ignore[V1M001]\n# v1: ignore[V1M001]\nb: 2\n<!-- v1: ignore[V1M001] -->\nc\nd\n"
    kept, suppressed = apply(source(text), [at(line) for line in range(1, 7)], python=False)
    assert [finding.line for finding in kept] == [2, 4, 6]
    assert suppressed == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x  # v1: ignore\n", "without a rule", id="no rule"),
        pytest.param("x  # v1: ignore[]\n", "without a rule", id="empty brackets"),
        pytest.param("y  # v1: ignore[V1M001]\n", "suppresses nothing", id="nothing to suppress"),
        pytest.param("x  # v1: ignore[V1M777]\n", "does not exist", id="unknown rule"),
    ],
)
def test_a_useless_comment_is_a_finding(text: str, message: str) -> None:
    kept, suppressed = apply(source(text), [], known={"V1M001": "moved-name"}, active={"V1M001"})
    assert [(finding.rule, finding.severity, finding.column) for finding in kept] == [(UNUSED, Severity.WARNING, 4)]
    assert message in kept[0].message
    assert suppressed == 0


def test_of_a_rule_that_did_not_run_nothing_is_said() -> None:
    text = "x  # v1: ignore[V1M001]\n"
    assert apply(source(text), [], known={"V1M001": "moved-name", "V1M002": "x"}, active={"V1M002"}) == ([], 0)


def test_whoever_keeps_an_import_keeps_its_uses() -> None:
    findings = [at(1, name="vllm.a.B", edit=True), at(2, "V1M003", "vllm.a.B", primary=False, edit=True), at(3)]
    kept, suppressed = apply(source("from a import B  # v1: ignore[V1M001]\nB\nC\n"), findings)
    assert (kept, suppressed) == ([findings[2]], 2)


def test_whoever_keeps_a_use_gets_no_half_rename() -> None:
    findings = [at(1, name="vllm.a.B", edit=True), at(2, name="vllm.a.B", primary=False, edit=True)]
    kept, suppressed = apply(source("from a import B\nB  # v1: ignore[V1M001]\n"), findings)
    assert suppressed == 1
    assert [(finding.line, finding.edits, finding.safety) for finding in kept] == [(1, (), Safety.MANUAL)]


def test_files_without_the_mark_are_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenize.generate_tokens", None)
    assert comments(source("import a  # ignore\n")) == []


@pytest.mark.parametrize("written", ["moved-name", "Moved-Name", "V1M004, moved-name"])
def test_a_rule_can_be_named_by_its_slug(written: str) -> None:
    known = {"V1M001": "moved-name", "V1M004": "gone-name"}
    kept, suppressed = apply(source(f"import a  # v1: ignore[{written}]\n"), [at(1)], known=known, active={"V1M001"})
    assert (kept, suppressed) == ([], 1)


def test_a_slug_that_suppresses_nothing_is_told_by_its_id() -> None:
    kept, _ = apply(source("import a  # v1: ignore[moved-name]\n"), [], known={"V1M001": "moved-name"})
    assert [finding.message for finding in kept] == ["`v1: ignore[V1M001]` suppresses nothing here"]
