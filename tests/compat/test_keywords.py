"""Keywords that vLLM's constructors and methods lost: renamed, left out or refused, with the plan's rule."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pickle
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_compat import callables, structs
from v1_compat.keywords import Callee, settle
from v1_compat.table import Table

Run = Callable[..., Any]
TASK = {"runner": "pooling", "convert": "embed"}


def called(run: Run, imported: str, call: str, mode: str = "warn") -> tuple[Any, list[Any]]:
    """What a call gives that stands in line 2 of a script, and what is said of that line."""
    said = run(f"{imported}\nmade = {call}\n", mode)
    return run.globals["made"], [s for s in said if s.line == 2]  # type: ignore[attr-defined]


ARGS = "from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs"


@pytest.mark.parametrize(
    ("call", "fields", "rule", "says"),
    [
        pytest.param(
            "EngineArgs(swap_space=4)", {}, "V1M112", "`swap_space`, which asks for nothing here", id="default"
        ),
        pytest.param(
            "EngineArgs('x', swap_space=8)", {"model": "x"}, "V1M112", "V1 does not swap", id="an option to remove"
        ),
        pytest.param(
            "EngineArgs(num_scheduler_steps=8)", {}, "V1M204", "V1 overlaps scheduling by itself", id="what chose V0"
        ),
        pytest.param("EngineArgs(task='embed')", TASK, "V1M112", "runner='pooling', convert='embed'", id="translated"),
        pytest.param(
            "EngineArgs(override_pooler_config=7)", {"pooler_config": 7}, "V1M112", "`pooler_config=`", id="renamed"
        ),
        pytest.param(
            "AsyncEngineArgs(disable_log_requests=True, swap_space=4)",
            {"enable_log_requests": False},
            "V1M112",
            "`disable_log_requests=True`: write `enable_log_requests=False`; `swap_space`",
            id="two at once, said once",
        ),
        pytest.param(
            "EngineArgs(disable_mm_preprocessor_cache=True)", {"mm_processor_cache_gb": 0}, "V1M112", "", id="a number"
        ),
    ],
)
def test_engine_arguments(vllm: Path, run: Run, call: str, fields: dict[str, Any], rule: str, says: str) -> None:
    made, said = called(run, ARGS, call)
    assert {name: getattr(made, name) for name in fields} == fields
    assert type(made) is getattr(importlib.import_module("vllm.engine.arg_utils"), call.partition("(")[0])
    (warning,) = said
    assert (warning.file, warning.rule) == ("script.py", rule)
    assert says in warning.text


def test_a_configuration_is_made_where_a_dictionary_would_stay_one(vllm: Path, run: Run) -> None:
    made, said = called(run, ARGS, "AsyncEngineArgs(guided_decoding_backend='xgrammar')")
    assert made.structured_outputs_config == importlib.import_module("vllm.config").StructuredOutputsConfig("xgrammar")
    assert "write `structured_outputs_config=StructuredOutputsConfig(backend='xgrammar')`" in said[0].text


def test_each_keyword_of_a_line_is_said(vllm: Path, run: Run, tmp_path: Path) -> None:
    """Two calls in one line, and one line that calls with other keywords the next time."""
    line = "made = [EngineArgs(**{key: None}) for key in ('device', 'preemption_mode', 'device')]"
    _, said = called(run, ARGS, line.removeprefix("made = "))
    assert ["`device`" in s.text for s in said] == [True, False]
    v1_compat.uninstall()
    called(run, ARGS, line.removeprefix("made = "), "report")
    lines = [json.loads(line) for line in (tmp_path / "v1_compat_usage.jsonl").read_text().splitlines()]
    assert {x["use"] for x in lines} == {"EngineArgs(device=)", "EngineArgs(preemption_mode=)"}
    assert {x["name"] for x in lines} == {"vllm.engine.arg_utils.EngineArgs"}


@pytest.mark.parametrize(
    ("call", "rule", "advice"),
    [
        pytest.param("EngineArgs(rope_theta=1e6)", "V1M112", "hf_overrides", id="what changes results"),
        pytest.param("EngineArgs(device='cuda')", "V1M112", "install vLLM's build", id="another device"),
        pytest.param("EngineArgs(task='score')", "V1M112", "runner='pooling'", id="a value without translation"),
        pytest.param("EngineArgs(speculative_model='d')", "V1M204", "speculative_config", id="older than the index"),
        pytest.param(
            "EngineArgs(guided_decoding_disable_any_whitespace=True)",
            "V1M112",
            "structured_outputs_config=",
            id="a part of a configuration",
        ),
    ],
)
def test_what_is_gone_is_refused_with_advice(vllm: Path, run: Run, call: str, rule: str, advice: str) -> None:
    with pytest.raises(v1_compat.LegacyUseError) as caught:
        called(run, ARGS, call)
    assert advice in str(caught.value) and f"[{rule}: v1-migrate explain" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        "EngineArgs(nonsense=1)",
        "EngineArgs(nonsense=None)",
        "EngineArgs(nonsense=1, swap_space=4)",
        "EngineArgs(1, 2, 3, 4, 5, 6, 7)",
    ],
)
def test_what_no_release_took_is_vllms_to_refuse(vllm: Path, run: Run, call: str) -> None:
    with pytest.raises(TypeError, match=r"EngineArgs\.__init__\(\).*(?:'nonsense'|8 were given)"):
        called(run, ARGS, call)


def test_what_asks_for_nothing_is_said_together(vllm: Path, run: Run) -> None:
    idle = "num_lookahead_slots=0, preemption_mode=None, scheduler_delay_factor=0.0, enable_prompt_adapter=False"
    _, said = called(run, ARGS, f"EngineArgs({idle}, device='cpu', speculative_model=None, use_v2_block_manager=False)")
    assert [s.text.endswith("`use_v2_block_manager`, which ask for nothing here: delete them.") for s in said] == [True]


def test_a_line_that_is_ready_for_a_refusal_gets_it(vllm: Path, run: Run) -> None:
    said = run(f"{ARGS}\ntry:\n    made = EngineArgs(swap_space=4)\nexcept TypeError:\n    made = None\n")
    assert run.globals["made"] is None and not said  # type: ignore[attr-defined]


def test_modes(vllm: Path, run: Run, tmp_path: Path) -> None:
    with pytest.raises(v1_compat.LegacyWarning, match="V1M112"):
        called(run, ARGS, "EngineArgs(swap_space=4)", "error")
    v1_compat.uninstall()
    with pytest.raises(v1_compat.LegacyUseError):
        called(run, ARGS, "[EngineArgs(swap_space=4), EngineArgs(speculative_model='d')]", "report")
    lines = [json.loads(line) for line in (tmp_path / "v1_compat_usage.jsonl").read_text().splitlines()]
    assert [(x["rule"], x["name"], x["line"]) for x in lines] == [
        (rule, "vllm.engine.arg_utils.EngineArgs", 2) for rule in ("V1M112", "V1M204")
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("LLM('x', swap_space=4, use_v2_block_manager=True).args.model", "x", id="constructor"),
        pytest.param("LLM('x', task='embed').args.convert", "embed", id="what LLM itself takes, by another name"),
        pytest.param(
            "LLM('x', guided_decoding_backend='xgrammar').args.structured_outputs_config",
            {"backend": "xgrammar"},
            id="a dictionary",
        ),
        pytest.param("LLM('x').get_tokenizer(lora_request=None)", "tokenizer", id="a method"),
        pytest.param(
            "LLM('x').generate(prompt_token_ids=[[1, 2], [3]])",
            [{"prompt_token_ids": [1, 2]}, {"prompt_token_ids": [3]}],
            id="prompts as token ids",
        ),
        pytest.param(
            "LLM('x').generate(None, prompt_token_ids=[1, 2])", [{"prompt_token_ids": [1, 2]}], id="one prompt"
        ),
        pytest.param(
            "LLM('x').encode(prompt_token_ids=[[1]], prompt_adapter_request=None)",
            [{"prompt_token_ids": [1]}],
            id="of a base class",
        ),
    ],
)
def test_llm(vllm: Path, run: Run, call: str, expected: Any) -> None:
    made, said = called(run, "from vllm import LLM", call)
    assert made == expected
    assert said and {s.rule for s in said} == {"V1M112"}


def test_prompts_twice_are_refused(vllm: Path, run: Run) -> None:
    with pytest.raises(v1_compat.LegacyUseError, match="Pass the ids as prompts"):
        called(run, "from vllm import LLM", "LLM('x').generate(['a'], prompt_token_ids=[[1]])")


def test_configurations(vllm: Path, run: Run) -> None:
    made, said = called(run, "from vllm.config import SchedulerConfig", "SchedulerConfig(preemption_mode='swap')")
    assert made.enable_chunked_prefill is True
    assert [s.rule for s in said] == ["V1M112"]


class TestClassesStayWhatTheyAre:
    def test_nothing_is_said_or_changed_where_vllm_takes_the_call(self, vllm: Path, run: Run) -> None:
        before = inspect.signature(importlib.import_module("vllm.engine.arg_utils").EngineArgs)
        said = run(f"{ARGS}\nmade = EngineArgs('x', runner='pooling')\n")
        made = run.globals["made"]  # type: ignore[attr-defined]
        cls = importlib.import_module("vllm.engine.arg_utils").EngineArgs
        assert not said and type(made) is cls and inspect.signature(cls) == before
        assert pickle.loads(pickle.dumps(made)) == made
        assert dataclasses.replace(made, runner="generate").runner == "generate"
        assert cls.__init__.__qualname__ == "EngineArgs.__init__"

    def test_uninstall_gives_back(self, vllm: Path) -> None:
        modules = (
            "vllm.engine.arg_utils",
            "vllm.entrypoints.llm",
            "vllm.config",
            "vllm.sampling_params",
            "vllm.v1.engine.llm_engine",
        )
        found = [importlib.import_module(name) for name in modules]
        classes = [v for m in found for v in vars(m).values() if isinstance(v, type) and v.__module__ == m.__name__]
        before = [dict(vars(cls)) for cls in classes], [type(m) for m in found], [dict(vars(m)) for m in found]
        v1_compat.install()
        assert [dict(vars(cls)) for cls in classes] != before[0]
        v1_compat.uninstall()
        assert (
            [dict(vars(cls)) for cls in classes],
            [type(m) for m in found],
            [dict(vars(m)) for m in found],
        ) == before


class TestStructures:
    @pytest.mark.parametrize(
        ("imported", "call"),
        [
            ("from vllm import SamplingParams", "SamplingParams(n=2, best_of=2)"),
            ("from vllm.sampling_params import SamplingParams", "SamplingParams(n=2, best_of=1)"),
            ("import vllm", "vllm.SamplingParams(n=2, best_of=None)"),
            ("import vllm.sampling_params as s", "s.SamplingParams(n=2, use_beam_search=False)"),
            ("from vllm import SamplingParams; given = dict(n=2, best_of=2)", "SamplingParams(**given)"),
            ("from vllm import SamplingParams", "SamplingParams.from_optional(n=2, best_of=2)"),
        ],
    )
    def test_they_are_made_from_every_import(self, vllm: Path, run: Run, imported: str, call: str) -> None:
        made, said = called(run, imported, call)
        assert made.n == 2 and [s.rule for s in said] == ["V1M204" if "best_of=2" in imported + call else "V1M112"]
        assert type(made) is importlib.import_module("vllm.sampling_params").mine()

    def test_what_is_made_is_pickled_where_it_is_made(self, vllm: Path, run: Run) -> None:
        """Pickle looks the class up in its module, from C code that the user's line calls."""
        made, _ = called(
            run,
            "import pickle; from vllm import SamplingParams",
            "pickle.loads(pickle.dumps(SamplingParams(n=2, best_of=2)))",
        )
        assert made.n == 2

    def test_a_renamed_keyword(self, vllm: Path, run: Run) -> None:
        made, _ = called(run, "from vllm import SamplingParams", "SamplingParams(guided_decoding='g')")
        assert made.structured_outputs == "g"

    def test_best_of_more_than_are_returned_is_refused(self, vllm: Path, run: Run) -> None:
        with pytest.raises(v1_compat.LegacyUseError, match=r"cumulative_logprob.*V1M204"):
            called(run, "from vllm import SamplingParams", "SamplingParams(n=1, best_of=3)")

    def test_what_is_handed_out_answers_as_vllms_class(self, vllm: Path, run: Run) -> None:
        run(
            "from vllm import SamplingParams\n"
            "def old(): return SamplingParams(best_of=1)\n"
            "class Mine(SamplingParams): k: int = 0\n"
        )
        real = importlib.import_module("vllm.sampling_params").mine()
        given, mine = run.globals["SamplingParams"], run.globals["Mine"]  # type: ignore[attr-defined]
        assert given is not real and isinstance(real(n=1), given) and issubclass(real, given) and issubclass(mine, real)
        assert type(mine(k=3)) is mine and not isinstance(real(n=1), mine)
        assert pickle.loads(pickle.dumps(given)) is real and given.__name__ == "SamplingParams"
        assert type(mine) is type(real) and given not in mine.__mro__
        assert set(given.__annotations__) > set(real.__annotations__) and "best_of" in given.__annotations__
        decoded = importlib.import_module("vllm.sampling_params").decode({"n": 4}, given)
        assert type(decoded) is real and decoded.n == 4
        assert not [p for p in map(pickle.dumps, (given, given(n=1), decoded)) if b"v1_compat" in p]
        v1_compat.uninstall()
        with pytest.raises(TypeError, match="Unexpected keyword argument 'best_of'"):
            given(best_of=1)

    @pytest.mark.parametrize("call", ["SamplingParams(n=1)", "(lambda **given: SamplingParams(**given))(n=1)"])
    def test_other_code_gets_vllms_own(self, vllm: Path, run: Run, call: str) -> None:
        run(f"from vllm import SamplingParams\nmade = {call}\n")
        module = importlib.import_module("vllm.sampling_params")
        assert run.globals["SamplingParams"] is module.mine()  # type: ignore[attr-defined]
        assert module.__dict__["SamplingParams"] is module.mine()

    @pytest.mark.parametrize(
        "lines",
        [
            "def make(): return SamplingParams(n=2, best_of=2)",
            "make = lambda: SamplingParams(n=2, best_of=2)",
            "def make():\n    from vllm import SamplingParams\n    return SamplingParams(**given())\n"
            "def given(): return {'n': 2, 'best_of': 2}",
        ],
        ids=["a function", "a name", "the keyword elsewhere in the module"],
    )
    def test_who_took_it_before_the_shim_came(
        self, vllm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
    ) -> None:
        (tmp_path / "earlier_user.py").write_text(f"from vllm import SamplingParams\n{lines}\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "earlier_user", raising=False)
        module = importlib.import_module("earlier_user")
        real = module.SamplingParams
        v1_compat.install()
        with pytest.warns(v1_compat.LegacyWarning, match="V1M204 `SamplingParams` lost") as caught:
            made = module.make()
        assert made.n == 2 and type(made) is real and [Path(w.filename).name for w in caught] == ["earlier_user.py"]
        v1_compat.uninstall()
        assert module.SamplingParams is real
        del sys.modules["earlier_user"]

    @pytest.mark.usefixtures("vllm")
    def test_a_script_that_installs_the_shim_after_its_imports(self, tmp_path: Path) -> None:
        path = tmp_path / "late.py"
        path.write_text(
            "from vllm import SamplingParams\nimport v1_compat\nv1_compat.install()\n"
            "made = SamplingParams(n=2, best_of=2).n\n"
        )
        with pytest.warns(v1_compat.LegacyWarning, match="V1M204"):
            assert runpy.run_path(str(path))["made"] == 2


@pytest.mark.parametrize(
    ("call", "rule", "says"),
    [
        ("GuidedDecodingParams(json='{}', backend='xgrammar')", "V1M112", "structured_outputs_config="),
        ("GuidedDecodingParams.from_optional(json='{}', regex=None)", "V1M004", "StructuredOutputsParams(...)"),
        ("GuidedDecodingParams.from_optional('{}', whitespace_pattern='x')", "V1M004", "from_optional` is gone"),
    ],
)
def test_what_guided_decoding_took(vllm: Path, run: Run, call: str, rule: str, says: str) -> None:
    made, said = called(run, "from vllm.sampling_params import GuidedDecodingParams", call)
    assert made.json == "{}" and type(made).__name__ == "StructuredOutputsParams"
    assert [s.rule for s in said] == [rule] and says in said[0].text
    assert said[0].category is v1_compat.notices.removed_in("0.11.0")


def test_a_maker_that_asks_for_nothing_gives_nothing(vllm: Path, run: Run) -> None:
    made, said = called(run, "from vllm.sampling_params import GuidedDecodingParams as G", "G.from_optional()")
    assert made is None and len(said) == 1
    asks = "from vllm.sampling_params import StructuredOutputsParams as S\nmade = hasattr(S, 'from_optional')\n"
    assert run(asks, name="asks.py") == []
    assert run.globals["made"] is False  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", structs.STRUCTS)
def test_the_structures_keywords_are_those_that_the_index_knows(name: str) -> None:
    from v1_migrate.rules.dropped_values import OLDER_THAN_INDEX

    table, (module, listed) = Table("0.32.0"), structs.STRUCTS[name]
    now = {param.name for param in table.params(f"{module}.{name}", "0.32.0") or ()}
    before = {p.name for r in table.older for p in table.params(f"{module}.{name}", r) or ()}
    lost = {param for param in before - now if not param.startswith("_")} | OLDER_THAN_INDEX.get(name, frozenset())
    assert now and set(listed) == lost


@pytest.mark.parametrize(
    ("module", "cls"), [(module, cls) for module, classes in callables.METHODS.items() for cls in classes]
)
def test_every_method_that_lost_a_keyword_with_words_is_served(module: str, cls: str) -> None:
    """The list in the code is checked against the index: a keyword that is dropped when it is None counts."""
    table, place, missing = Table("0.32.0"), f"{module}.{cls}", []
    for name in table.index.members(place, "0.32.0"):
        dotted = f"{place}.{name}"
        now = {param.name for param in table.params(dotted, "0.32.0") or ()}
        before = {p.name for r in table.older for p in table.params(dotted, r) or ()} if now else set()
        for lost in before - now if not name.startswith("_") else ():
            known = settle(table, Callee(f"{cls}.{name}", (dotted,), now), {lost: None})
            if known is not None and name not in callables.METHODS[module][cls] and table.older[0] != "":
                missing.append(f"{name}({lost}=)")
    assert [entry for entry in missing if not entry.startswith(_INTERNAL)] == []


_INTERNAL = (
    "create_speculative_config",  # of the engine itself, called by vLLM alone
    "do_log_stats",
    "abort_request",
    "pause_generation",  # lost between releases of V1
    "start_weight_update",
    "update_from_generation_config",
    "verify",
)


ENGINE = "from vllm.v1.engine.llm_engine import LLMEngine; e = LLMEngine()"


@pytest.mark.parametrize(
    ("start", "call", "value", "says"),
    [
        pytest.param(
            ENGINE, "e.do_log_stats(scheduler_outputs=None, model_output=[])", "logged", "delete", id="ignored"
        ),
        pytest.param(ENGINE, "e.add_request('r', inputs='hello')", "hello", "`prompt=`", id="renamed"),
        pytest.param(
            ENGINE, "e.abort_request(request_id=['a', 'b'])", ["a", "b"], "`request_ids=`", id="ids by keyword"
        ),
        pytest.param(ENGINE, "e.abort_request('abc')", ["abc"], "takes a list", id="one id, of which V1 takes letters"),
        pytest.param(
            ENGINE, "e.abort_request(request_ids='abc')", ["abc"], "takes a list", id="one id by V1's keyword"
        ),
    ],
)
def test_methods_of_the_front_end(vllm: Path, run: Run, start: str, call: str, value: Any, says: str) -> None:
    made, said = called(run, start, call)
    assert made == value
    (warning,) = said
    assert warning.rule == "V1M112" and says in warning.text


def test_ids_in_a_list_are_as_they_were(vllm: Path, run: Run) -> None:
    assert called(run, ENGINE, "e.abort_request(['a'])") == (["a"], [])
