"""Every view of one report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from v1_migrate.discover import Skipped
from v1_migrate.findings import Effort, Finding, Safety, Severity
from v1_migrate.reports import baseline, github, html, plan, sarif, stats, text
from v1_migrate.reports import json as as_json
from v1_migrate.reports.report import Report, plural
from v1_migrate.reports.text import Style

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())


def finding(path: str = "a.py", line: int = 1, column: int = 1, width: int = 4, **more: Any) -> Finding:
    fields = {"rule": "V1M004", "message": "`X` is gone", "severity": Severity.ERROR, "name": "vllm.X", **more}
    return Finding(path, line, column, line, column + width, **fields)


def report(*findings: Finding, lines: dict[tuple[str, int], str] | None = None, **more: Any) -> Report:
    settled = {"command": "rewrite", "path": "src", "root": Path("/somewhere/src"), "target": "0.32.0"}
    settled |= {"target_origin": "--target", "attention": "vllm", "files": 7} | more
    return Report(findings=findings, lines=lines or {}, **settled)


FULL = report(
    finding(effort=Effort.HOURS, advice="Do something else."),
    finding("b.py", 2, 5, message="of <b>%,:\n", severity=Severity.WARNING, advice="100 %"),
    finding("b.py", 3, severity=Severity.INFO, name=""),
    finding("c.py", 1, rule="V1M001", fixed=True, safety=Safety.V1, effort=Effort.NONE),
    lines={("a.py", 1): "X = 1", ("b.py", 2): "y = 'é<script>'"},
    rewritten={"c.py": 2},
    written=True,
    skipped=(Skipped(".venv/", "installed packages", True), Skipped("locked/", "unreadable", True, True)),
    pins=("vllm==0.9.2 (pyproject.toml)",),
    suppressed=2,
    baselined=3,
    next_command="v1-migrate verify src",
)


@pytest.mark.parametrize(
    ("line", "column", "width", "shown", "carets"),
    [
        pytest.param("from vllm import X", 18, 1, "from vllm import X", " " * 17 + "^", id="plain"),
        pytest.param("\tX = 1", 2, 1, "    X = 1", "    ^", id="a tab counts four"),
        pytest.param("f('日本', X)", 9, 1, "f('日本', X)", " " * 10 + "^", id="wide characters count two"),
        pytest.param("a\x1b[2J = X", 9, 1, "a�[2J = X", " " * 8 + "^", id="a control character is made visible"),
        pytest.param("X" * 200, 1, 3, "X" * 90 + "…", "^^^", id="a long line is cut"),
        pytest.param("-" * 150 + "NAME", 151, 4, "…" + "-" * 86 + "NAME", " " * 87 + "^^^^", id="around the place"),
        pytest.param("X", 1, 0, "X", "^", id="an empty place has one caret"),
    ],
)
def test_carets_stand_under_the_place(line: str, column: int, width: int, shown: str, carets: str) -> None:
    one = report(finding(column=column, width=width), lines={("a.py", 1): line})
    lines = text.render(one, Style()).splitlines()
    assert lines[1] == f"    1 | {shown}"
    assert lines[2] == f"      | {carets}"


def test_a_place_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    one = report(replace(finding(column=3), end_line=4, end_column=2), lines={("a.py", 1): "x (abc"})
    assert "      |   ^^^^\n" in text.render(one, Style())


def test_further_uses_are_folded_into_the_first() -> None:
    uses = [finding(line=n, primary=False) for n in (40, 12, 77, 12)]
    shown = text.render(report(finding(line=3), *uses, finding("b.py", 9, primary=False)), Style())
    assert "also used on lines 12, 40, 77" in shown
    assert "src/a.py:12" not in shown
    assert "src/b.py:9:1: error" in shown  # its import is in no finding of this file
    assert "also used on line 2\n" in text.render(report(finding(), finding(line=2, primary=False)), Style())


def test_findings_without_a_name_are_folded_by_what_they_say() -> None:
    said = {"name": "", "rule": "V1M012", "severity": Severity.WARNING}
    pins = [finding(line=n, message="`vllm==1` is old", primary=n == 1, **said) for n in (1, 5, 9)]
    other = finding(line=7, message="`vllm==2` is old", **said)
    shown = text.render(report(*pins, other), Style())
    assert "also used on lines 5, 9" in shown
    assert "src/a.py:7:1: warning V1M012 `vllm==2` is old" in shown


def test_the_same_advice_is_given_once() -> None:
    shown = text.render(report(*(finding(line=n, advice="Turn it round.") for n in (1, 2, 3))), Style())
    assert shown.count("Turn it round.") == 1
    assert shown.count("what to do: as at src/a.py:1:1") == 2


def test_text_is_wrapped_and_coloured_on_request_only() -> None:
    one = report(finding(advice="word " * 60))
    assert max(map(len, text.render(one, Style(width=60)).splitlines())) <= 100
    assert all(len(line) <= 60 for line in text.render(one, Style(width=60)).splitlines() if "word" in line)
    assert "\x1b" not in text.render(FULL, Style())
    plain = re.sub(r"\x1b\[\d+m", "", text.render(FULL, Style(colour=True)))
    assert plain == text.render(FULL, Style())
    assert plain != text.render(FULL, Style(colour=True))


def test_the_summary_counts_everything() -> None:
    shown = text.render(FULL, Style())
    for piece in (
        "vLLM 0.32.0 (--target; the tree asks for vllm==0.9.2 (pyproject.toml))",
        "7 files looked at, 1 rewritten (2 edits)",
        "1 error, 1 warning, 1 note; to decide: 1 of minutes, 1 of hours",
        "2 suppressed, 3 in the baseline",
        "2 files and folders: installed packages 1, unreadable 1",
        "locked/: unreadable",
        "Next    v1-migrate verify src",
    ):
        assert piece in shown
    assert "For you nothing" in text.render(report(), Style())


@pytest.mark.parametrize(
    ("subject", "code"),
    [
        pytest.param(report(), 0, id="nothing"),
        pytest.param(report(finding(severity=Severity.INFO)), 0, id="advice"),
        pytest.param(report(finding(fixed=True), rewritten={"a.py": 1}, written=True), 0, id="settled"),
        pytest.param(report(finding(fixed=True), rewritten={"a.py": 1}), 1, id="would be settled"),
        pytest.param(report(finding(severity=Severity.WARNING)), 1, id="a warning"),
        pytest.param(report(skipped=(Skipped("x", "cache"),)), 0, id="left out on purpose"),
        pytest.param(report(skipped=(Skipped("x", "unreadable", failed=True),)), 1, id="could not be read"),
    ],
)
def test_exit_code(subject: Report, code: int) -> None:
    assert subject.exit_code == code


@pytest.mark.parametrize("subject", [FULL, report(), replace(FULL, command="plan")])
def test_json_fits_its_schema(subject: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(as_json.render(subject)), SCHEMA)


def test_the_schema_refuses_what_is_wrong() -> None:
    document = json.loads(as_json.render(FULL))
    for wrong in ({"line": 0}, {"rule": "X"}, {"severity": "fatal"}, {"more": 1}):
        broken = {**document, "findings": [{**document["findings"][0], **wrong}]}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_github_commands_escape_what_github_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", "/somewhere")
    lines = github.render(FULL).splitlines()
    assert lines[0] == (
        "::error file=src/a.py,line=1,endLine=1,title=V1M004,col=1,endColumn=5::`X` is gone%0ADo something else."
    )
    assert lines[1].startswith("::warning file=src/b.py,line=2,")
    assert lines[1].endswith("::of <b>%25,:%0A%0A100 %25")
    assert lines[2].startswith("::notice ")
    assert len(lines) == 3
    odd = report(replace(finding("a,b:c.py"), end_line=2))
    assert github.render(odd).startswith("::error file=src/a%2Cb%3Ac.py,line=1,endLine=2,title=V1M004::")


def test_sarif_holds_rules_places_and_lasting_fingerprints() -> None:
    rules = [SimpleNamespace(id="V1M004", slug="gone-name", summary="gone", doc="# doc")]
    run = json.loads(sarif.render(FULL, rules))["runs"][0]
    assert run["tool"]["driver"]["rules"][0]["id"] == "V1M004"
    assert [(r["ruleId"], r["level"], r.get("ruleIndex")) for r in run["results"]] == [
        ("V1M004", "error", 0),
        ("V1M004", "warning", 0),
        ("V1M004", "note", 0),
    ]
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "b.py", "uriBaseId": "PATH"}
    assert place["region"] == {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 9}
    assert run["originalUriBaseIds"]["PATH"]["uri"] == "file:///somewhere/src/"
    moved = report(finding(line=9), lines={("a.py", 9): "  X = 1"})
    prints = [r["partialFingerprints"]["v1migrate/v1"] for r in run["results"]]
    again = json.loads(sarif.render(moved, []))["runs"][0]["results"][0]
    assert again["partialFingerprints"]["v1migrate/v1"] == prints[0]
    assert len(set(prints)) == 3


class Page(HTMLParser):
    """Collects what the page holds and whether its tags match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    page = Page()
    page.feed(html.render(FULL))
    assert page.open == []
    files = [attrs["data-path"] for tag, attrs in page.tags if tag == "details"]
    assert files == ["a.py", "b.py", "c.py"]  # the most work first
    findings = [attrs for tag, attrs in page.tags if "data-rule" in attrs]
    assert [attrs["class"] for attrs in findings] == [
        "finding error",
        "finding warning",
        "finding info",
        "finding fixed",
    ]
    assert "é<script>" in page.words and "locked/" in page.words
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any("src" in attrs or "href" in attrs for _, attrs in page.tags)


def test_plan_ranks_by_work() -> None:
    rows = plan.rows(FULL)
    assert [(row.path, row.automatic, row.minutes, row.hours, row.notes) for row in rows] == [
        ("a.py", 0, 0, 1, 0),
        ("b.py", 0, 1, 0, 1),
        ("c.py", 1, 0, 0, 0),
    ]
    shown = plan.render(FULL, Style())
    assert "        ·        ·      1     ·      ·  src/a.py" in shown
    assert "        1        ·      ·     ·      ·  src/c.py" in shown
    assert "By hand: about 3 hours." in shown


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0, "nothing"), (0.02, "about 10 minutes"), (0.6, "about 40 minutes"), (1, "about 1 hour"), (40, "about 5 days")],
)
def test_duration(hours: float, words: str) -> None:
    assert plan.duration(hours) == words


def test_statistics_and_their_empty_case() -> None:
    assert stats.render(FULL).splitlines()[0] == "     3  V1M004  in 2 files, 0 settled by edits"
    assert stats.render(report()) == "no findings\n"


def test_a_baseline_accepts_as_many_as_it_names(tmp_path: Path) -> None:
    lines = {("a.py", 1): "X", ("a.py", 2): "X", ("a.py", 5): "  X", ("a.py", 6): "X + 1"}
    file = tmp_path / "baseline.json"
    file.write_text(baseline.render(report(finding(line=1), finding(line=2), finding(fixed=True), lines=lines)))
    now = [finding(line=5), finding(line=6), finding(line=2), finding(line=1)]
    kept, accepted = baseline.subtract(now, lines, baseline.read(file))
    assert ([f.line for f in kept], accepted) == ([6, 1], 2)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 9, "findings": []}', '{"version": 1, "findings": [1]}']
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(content)
    with pytest.raises(baseline.BaselineError, match=r"baseline\.json.*--write-baseline"):
        baseline.read(file)


def test_plural() -> None:
    assert [plural(n, noun) for n, noun in ((1, "file"), (2, "file"), (0, "entry"), (1000, "file"))] == [
        "1 file",
        "2 files",
        "0 entries",
        "1,000 files",
    ]


@pytest.mark.parametrize(
    ("path", "rel", "shown"),
    [
        ("src", "a/b.py", "src/a/b.py"),
        (".", "a.py", "a.py"),
        ("../x/", "a.py", "../x/a.py"),
        ("d/f.py", "f.py", "d/f.py"),
    ],
)
def test_places_can_be_opened_from_where_the_command_was_given(path: str, rel: str, shown: str) -> None:
    assert replace(report(), path=path).shown(rel) == shown


def test_a_name_costs_its_full_effort_once() -> None:
    two = [finding(path, effort=Effort.HOURS) for path in ("a.py", "b.py")]
    other = finding("c.py", effort=Effort.DAYS, name="vllm.Y")
    assert plan.work(two) == pytest.approx(3.2)
    assert plan.work([*two, other]) == pytest.approx(19.2)
    assert [round(row.total, 1) for row in plan.rows(report(*two, other))] == [16, 3, 3]
    assert "By hand: about 2 days." in plan.render(report(*two, other), Style())
