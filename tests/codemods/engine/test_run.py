"""Many files: order, the pool, and files that hang or end their process."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from v1_migrate.discover import discover
from v1_migrate.engine.analyse import Analyser, Result
from v1_migrate.engine.run import Options, run

STALE = "from vllm.worker.worker_base import WorkerWrapperBase\n"


def tree(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"m{number:03}.py").write_text(STALE + f"x = {number}\n")
    return folder


def results(folder: Path, jobs: int, timeout: float = 30) -> list[Result]:
    found = discover(folder)
    return list(run(found.files, Options(found.root, "0.32.0", jobs=jobs, timeout=timeout)))


def test_a_pool_gives_the_same_results_in_the_same_order(tmp_path: Path) -> None:
    tree(tmp_path, 60)
    alone, together = results(tmp_path, 1), results(tmp_path, 2)
    assert [result.rel for result in together] == sorted(result.rel for result in together)
    assert [(r.rel, r.new_text, r.findings) for r in alone] == [(r.rel, r.new_text, r.findings) for r in together]
    assert all(result.new_text for result in alone)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_takes_too_long_is_reported_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    tree(tmp_path, 50)
    real = Analyser.source

    def slow(self: Analyser, source, *rest):  # type: ignore[no-untyped-def]
        if source.rel == "m007.py":
            time.sleep(60)
        return real(self, source, *rest)

    monkeypatch.setattr(Analyser, "source", slow)
    found = results(tmp_path, jobs, timeout=4)
    assert [result.rel for result in found if result.findings[0].rule == "V1M901"] == ["m007.py"]
    assert "4 s" in found[7].findings[0].message
    assert len(found) == 50


def test_a_file_that_ends_its_process_is_reported_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, 50)
    real = Analyser.source
    parent = os.getpid()

    def deadly(self: Analyser, source, *rest):  # type: ignore[no-untyped-def]
        if source.rel == "m007.py" and os.getpid() != parent:
            os._exit(1)
        return real(self, source, *rest)

    monkeypatch.setattr(Analyser, "source", deadly)
    found = results(tmp_path, 2)
    assert [result.rel for result in found if result.findings[0].rule == "V1M901"] == ["m007.py"]
    assert sum(result.new_text is not None for result in found) == 49


def test_files_without_the_word_are_not_even_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("this is not python at all\n")
    monkeypatch.setattr(Analyser, "source", lambda *_: pytest.fail("a file without vllm was looked at"))
    assert results(tmp_path, 1)[0].findings == []


def test_workers_can_be_spawned_where_threads_run(tmp_path: Path) -> None:
    tree(tmp_path, 45)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        found = results(tmp_path, 2)
    finally:
        stop.set()
        thread.join()
    assert sum(result.new_text is not None for result in found) == 45


def test_a_fault_in_a_rule_costs_one_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, 3)
    real = Analyser.source

    def faulty(self: Analyser, source, *rest):  # type: ignore[no-untyped-def]
        if source.rel == "m001.py":
            raise KeyError("oops")
        return real(self, source, *rest)

    monkeypatch.setattr(Analyser, "source", faulty)
    found = results(tmp_path, 1)
    assert "KeyError" in found[1].findings[0].message
    assert found[0].new_text
    assert found[2].new_text


def test_findings_are_given_at_their_places_before_and_after(tmp_path: Path) -> None:
    text = "from vllm.sequence import IntermediateTensors, Logprob\n\n\nfrom vllm.worker import nothing\n"
    (tmp_path / "a.py").write_text(text)
    result = results(tmp_path, 1)[0]
    assert result.before is not None
    assert [(f.name, f.line) for f in result.before] == [("vllm.sequence.Logprob", 1), ("vllm.worker", 4)]
    assert [(f.name, f.end_line) for f in result.findings] == [("vllm.sequence.Logprob", 2), ("vllm.worker", 5)]


def test_a_baseline_or_report_in_the_tree_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"findings": [{"rule": "V1M004", "name": "vllm.sequence.SequenceGroup"}]}\n')
    (tmp_path / "c.json").write_text('{"worker_cls": "vllm.worker.worker.Worker"}\n')
    assert [(result.rel, bool(result.findings)) for result in results(tmp_path, 1)] == [
        ("b.json", False),
        ("c.json", True),
    ]


def test_findings_of_a_file_that_was_given_up_say_what_to_write() -> None:
    from v1_migrate.engine.analyse import _given_up
    from v1_migrate.findings import Edit, Finding, Severity

    edits = (Edit(0, 3, "old", "new"),)
    finding = Finding("a.py", 1, 1, 1, 4, "V1M001", "m", Severity.ERROR, advice="Look.", edits=edits)
    said, kept = _given_up("a.py", [finding], "a.py:7:2: 'x' is edited twice, differently")
    assert (said.rule, said.line) == ("V1M902", 7)
    assert (kept.edits, kept.advice) == ((), "Look. By hand: write `new` for `old`.")
