"""Fields that parameters, outputs and statistics lost: served where V1 has them, else an AttributeError with advice."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_compat.values import FIELDS
from v1_migrate.names.index import Index

Run = Callable[..., Any]
PARAMS = "from vllm import SamplingParams; p = SamplingParams(n=2, structured_outputs='json')"
STATS = (
    "from vllm.v1.metrics.stats import RequestStateStats; s = RequestStateStats("
    "arrival_time=1000.0, queued_ts=5.0, scheduled_ts=5.5, first_token_ts=6.0, last_token_ts=8.0, "
    "first_token_latency=1.5)"
)
YOUNG = "from vllm.v1.metrics.stats import RequestStateStats; s = RequestStateStats(arrival_time=1000.0, queued_ts=5.0)"
OUTPUT = "from vllm.outputs import RequestOutput; o = RequestOutput()"


@pytest.mark.parametrize(
    ("start", "expression", "value"),
    [
        pytest.param(PARAMS, "p.guided_decoding", "json", id="another name"),
        pytest.param(PARAMS, "p.best_of", None, id="one value on V1"),
        pytest.param(PARAMS, "getattr(p, 'logits_processors')", None, id="by name"),
        pytest.param(STATS, "s.time_in_queue", 0.5, id="a difference"),
        pytest.param(STATS, "s.first_token_time", 1001.5, id="the first token by the wall clock"),
        pytest.param(STATS, "s.first_token_time - s.arrival_time", 1.5, id="what V0's code makes of it"),
        pytest.param(STATS, "s.first_scheduled_time", 1001.0, id="another stamp by the wall clock"),
        pytest.param(STATS, "s.finished_time", 1003.5, id="the end by the wall clock"),
        pytest.param(STATS, "s.model_forward_time", None, id="what V0 did not measure by default"),
        pytest.param(YOUNG, "s.time_in_queue", None, id="not scheduled yet"),
        pytest.param(YOUNG, "s.last_token_time", None, id="no token yet"),
    ],
)
def test_what_v1_has_is_served(vllm: Path, run: Run, start: str, expression: str, value: Any) -> None:
    said = run(f"{start}\nfound = {expression}\n")
    assert run.globals["found"] == value  # type: ignore[attr-defined]
    assert {(s.line, s.rule) for s in said} == {(2, "V1M102")}
    assert all(len(s.text) < 240 for s in said)


@pytest.mark.parametrize("place", ["o", "RequestOutput"])
def test_what_v1_has_not_says_what_to_do(vllm: Path, run: Run, place: str) -> None:
    with pytest.raises(v1_compat.LegacyMemberError, match=r"mm_position.*V1M102.*RequestOutput.multi_modal_place") as e:
        run(f"{OUTPUT}\n{place}.multi_modal_placeholders\n")
    assert isinstance(e.value, AttributeError) and e.value.name == "multi_modal_placeholders"


def test_what_is_refused_is_reported(vllm: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("V1_COMPAT_REPORT", str(tmp_path / "used.jsonl"))
    with pytest.raises(v1_compat.LegacyMemberError):
        run(f"{OUTPUT}\no.multi_modal_placeholders\n", "report")
    (line,) = map(json.loads, (tmp_path / "used.jsonl").read_text().splitlines())
    assert (line["name"], line["line"]) == ("vllm.outputs.RequestOutput.multi_modal_placeholders", 2)


@pytest.mark.parametrize(
    "line",
    [
        "hasattr(p, 'best_of')",
        "getattr(p, 'best_of', False)",
        "'best_of' in dir(p)",
        "[n for n in dir(p) if getattr(p, n) is p]",
        "[n for n, _ in inspect.getmembers(p) if n == 'best_of']",
        "hasattr(p, 'guided_decoding')",
    ],
)
def test_who_is_ready_for_it_or_goes_through_names_finds_it_lost(vllm: Path, run: Run, line: str) -> None:
    said = run(f"import inspect\n{PARAMS}\nfound = {line}\n")
    assert not said and not run.globals["found"]  # type: ignore[attr-defined]


def test_a_handler_of_an_attribute_error_gets_it(vllm: Path, run: Run) -> None:
    said = run(f"{PARAMS}\ntry:\n    found = p.best_of\nexcept AttributeError:\n    found = 'none'\n")
    assert not said and run.globals["found"] == "none"  # type: ignore[attr-defined]


def test_what_is_set_goes_to_the_new_name_or_is_kept_and_said(vllm: Path, run: Run) -> None:
    said = run(f"{PARAMS}\np.guided_decoding = 'regex'\np.best_of = 3\nfound = p.structured_outputs, p.best_of\n")
    assert run.globals["found"] == ("regex", 3)  # type: ignore[attr-defined]
    assert [s.line for s in said] == [2, 3] and "does not read what is set" in said[1].text


def test_fields_of_a_subclass_are_its_own(vllm: Path, run: Run) -> None:
    text = (
        "from dataclasses import dataclass\nfrom vllm.v1.metrics.stats import RequestStateStats\n"
        "@dataclass(kw_only=True)\nclass Mine(RequestStateStats):\n    time_in_queue: float\n"
        "    def __post_init__(self):\n        self.finished_time = 9.0\n"
        "m = Mine(time_in_queue=7.0)\nfound = m.time_in_queue, m.finished_time\n"
    )
    assert not run(text) and run.globals["found"] == (7.0, 9.0)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("error")
def test_values_stay_what_they_are(vllm: Path) -> None:
    v1_compat.install()
    stats = importlib.import_module("vllm.v1.metrics.stats")
    made = stats.RequestStateStats(arrival_time=2.0)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == dataclasses.replace(made) == made
    assert "time_in_queue" not in dataclasses.asdict(made) and "time_in_queue" not in repr(made)
    assert "__getattr__" not in vars(stats.RequestStateStats), "every look-up would be slower"
    assert inspect.signature(stats.RequestStateStats).parameters.keys() == dataclasses.asdict(made).keys()
    v1_compat.uninstall()
    with pytest.raises(AttributeError):
        made.time_in_queue  # noqa: B018
    assert "__dir__" not in vars(stats.RequestStateStats)


def test_every_field_that_a_release_lost_has_an_answer() -> None:
    index = Index.load(user=False)
    before = {"RequestStateStats": "vllm.sequence.RequestMetrics", "StructuredOutputsParams": "vllm.sampling_params.GuidedDecodingParams"}  # fmt: skip
    methods = {
        "add_option",
        "from_optional",
        "no_fallback",
        "backend_options",
    }  # guided.py's, and 0.8's own way to choose
    missing = {}
    for module, classes in FIELDS.items():
        for name, fields in classes.items():
            here = f"{module}.{name}"
            places = [here, *([before[name]] if name in before else [])]
            had = {member for release in index.releases for place in places for member in index.members(place, release)}
            lost = {m for m in had - set(index.members(here, index.releases[-1])) - methods if not m.startswith("_")}
            assert lost, here
            missing[here] = sorted(lost - fields.keys())
    assert {here: names for here, names in missing.items() if names} == {}
