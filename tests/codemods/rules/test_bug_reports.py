"""What went wrong for people with this job (public reports), each with the smallest input that shows it."""

from __future__ import annotations

import pytest
from harness import Outcome, dedent, rewrite
from v1_migrate.findings import Severity


def first(outcome: Outcome, rule: str) -> str:
    found = outcome.said(rule)
    assert found, f"{rule} said nothing; said: {[(f.rule, f.line, f.message) for f in outcome.findings]}"
    return f"{found[0].message} {found[0].advice}"


def test_a_subclassed_worker_moves_and_its_contract_is_flagged() -> None:
    outcome = rewrite(
        dedent(
            """
            from vllm.worker.worker import Worker

            class MyWorker(Worker):
                def execute_model(self, execute_model_req): ...
            """
        )
    )
    assert "from vllm.v1.worker.gpu_worker import Worker\n" in outcome.text
    assert {3} == {finding.line for finding in outcome.said("V1M003") if not finding.fixed}
    assert "execute_model" in first(outcome, "V1M111" if outcome.said("V1M111") else "V1M009")


def test_a_guarded_pair_does_not_become_twice_the_same() -> None:
    text = dedent(
        """
        try:
            from vllm.worker.worker_base import WorkerWrapperBase as W
        except ModuleNotFoundError:
            from vllm.v1.worker.worker_base import WorkerWrapperBase as W
        """
    )
    outcome = rewrite(text)
    assert outcome.text == text
    assert outcome.rules == {"V1M010"}


def test_a_chain_into_the_engine_is_located_and_the_way_out_is_named() -> None:
    outcome = rewrite(
        dedent(
            """
            import vllm

            class T:
                def push(self, w):
                    m = self.llm.llm_engine.model_executor.driver_worker.model_runner.model
                    m.load_weights(w)
            """
        )
    )
    assert outcome.lines("V1M008") == [5]
    assert "collective_rpc" in first(outcome, "V1M008")
    assert "apply_model" in first(outcome, "V1M008")
    assert outcome.open


def test_a_chain_behind_hasattr_is_information_only() -> None:
    outcome = rewrite(
        dedent(
            """
            import vllm

            def worker(e):
                if hasattr(e, "driver_worker"):
                    return e.driver_worker
                return e.model_executor.driver_worker
            """
        )
    )
    severities = {finding.line: finding.severity for finding in outcome.said("V1M008")}
    assert severities[5] is Severity.INFO


def test_a_patch_path_that_runs_past_the_class_is_not_renamed_half() -> None:
    text = 'from unittest.mock import patch\npatch("vllm.worker.worker.Worker._assert_memory_footprint_increased_during_profiling")\n'
    outcome = rewrite(text)
    assert outcome.text == text
    assert [finding.line for finding in outcome.open] == [2]
    assert "_assert_memory_footprint_increased_during_profiling" in outcome.open[0].message
    assert "nullcontext" in outcome.open[0].advice


@pytest.mark.parametrize("module", ["vllm.sequence", "vllm.model_executor.layers.sampler"])
def test_a_name_that_moved_twice_is_known_at_each_place(module: str) -> None:
    outcome = rewrite(f"from {module} import SamplerOutput\n\nSamplerOutput(outputs=[])\n")
    assert "vllm.v1.outputs.SamplerOutput" in first(outcome, "V1M003")


def test_the_switch_family_on_envs_is_found() -> None:
    outcome = rewrite(
        dedent(
            """
            from vllm import envs

            if envs.is_set("VLLM_USE_V1") and envs.VLLM_USE_V1:
                run()
            """
        ),
        folds=True,
    )
    assert outcome.text == "run()\n"


def test_an_import_in_a_try_is_edited_in_place() -> None:
    outcome = rewrite(
        "try:\n    from vllm.worker.worker_base import WorkerWrapperBase\nexcept ImportError:\n    WorkerWrapperBase = None\n"
    )
    assert "pass" not in outcome.text
    assert outcome.text.startswith("try:\n    from vllm.v1.worker.worker_base import WorkerWrapperBase\n")


def test_a_gone_name_in_a_try_says_that_the_other_arm_always_runs() -> None:
    outcome = rewrite(
        "try:\n    from vllm.core.scheduler import PreemptionMode\nexcept ImportError:\n    PreemptionMode = None\n"
    )
    assert "other arm" in first(outcome, "V1M004")
    assert outcome.said("V1M004")[0].severity is Severity.WARNING


def test_an_aliased_dotted_import_keeps_its_alias_and_settles_in_one_run() -> None:
    outcome = rewrite("import vllm.worker.worker_base as wb\n\nw = wb.WorkerWrapperBase\n")
    assert outcome.text == "import vllm.v1.worker.worker_base as wb\n\nw = wb.WorkerWrapperBase\n"


def test_names_in_type_comments_keep_their_import() -> None:
    outcome = rewrite(
        dedent(
            """
            from vllm.worker.worker_base import WorkerWrapperBase

            def f(w):
                # type: (WorkerWrapperBase) -> None
                ...

            def g(w):
                # type: (vllm.worker.worker_base.WorkerWrapperBase) -> None
                ...
            """
        )
    )
    assert "import WorkerWrapperBase\n" in outcome.text
    assert "# type: (vllm.v1.worker.worker_base.WorkerWrapperBase) -> None" in outcome.text


def test_an_exported_name_that_was_renamed_keeps_its_old_name() -> None:
    outcome = rewrite(
        dedent(
            """
            from vllm.sampling_params import GuidedDecodingParams

            __all__: list[str] = ["GuidedDecodingParams"]
            """
        )
    )
    assert "import StructuredOutputsParams as GuidedDecodingParams" in outcome.text
    assert '["GuidedDecodingParams"]' in outcome.text


def test_a_deep_expression_is_read_or_reported_never_a_crash() -> None:
    terms = " + ".join(["a"] * 3000)
    outcome = rewrite(f"import vllm\nx = {terms}\n", check=False)
    assert outcome.rules <= {"V1M901"}
    chain = "x" + ".y()" * 1500
    outcome = rewrite(f"import vllm\nz = {chain}\n", check=False)
    assert outcome.rules <= {"V1M901"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm\r\nfrom vllm.worker.worker_base import WorkerWrapperBase\r\n", id="CRLF"),
        pytest.param("import vllm\nfrom vllm.worker.worker_base import WorkerWrapperBase\r\nx = 1\n", id="mixed"),
        pytest.param("import vllm\rfrom vllm.worker.worker_base import WorkerWrapperBase\rx = 1\r", id="CR only"),
        pytest.param(
            "\ufeffimport vllm\nfrom vllm.worker.worker_base import WorkerWrapperBase\n", id="byte order mark"
        ),
        pytest.param("import vllm\n\x0c\nfrom vllm.worker.worker_base import WorkerWrapperBase\n", id="form feed"),
        pytest.param(
            "x = 'é'; from vllm.worker.worker_base import WorkerWrapperBase\n", id="not ASCII before the import"
        ),
        pytest.param("from vllm.worker.worker_base import WorkerWrapperBase", id="no final newline"),
    ],
)
def test_bytes_outside_the_edit_stay(text: str) -> None:
    outcome = rewrite(text)
    expected = text.lstrip("\ufeff").replace("vllm.worker.worker_base", "vllm.v1.worker.worker_base")
    assert outcome.text == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('import vllm\nprint "x"\n', id="Python 2 print"),
        pytest.param("import vllm\n<<<<<<< HEAD\n", id="merge conflict"),
        pytest.param("import vllm\nx = `1`\n", id="backticks"),
    ],
)
def test_a_file_that_is_not_python_is_listed(text: str) -> None:
    outcome = rewrite(text, check=False)
    assert outcome.rules == {"V1M901"}
    assert outcome.text == text
    assert outcome.open


def test_old_and_new_import_of_one_name_give_no_duplicate() -> None:
    outcome = rewrite(
        dedent(
            """
            from vllm.worker.worker_base import WorkerWrapperBase
            from vllm.v1.worker.worker_base import WorkerWrapperBase as V1W

            print(WorkerWrapperBase, V1W)
            """
        )
    )
    assert outcome.text.count("import WorkerWrapperBase\n") == 1
    assert outcome.text.count("import WorkerWrapperBase as V1W\n") == 1


def test_future_imports_stay_together() -> None:
    text = dedent(
        """
        from __future__ import annotations
        from __future__ import division
        from vllm.sequence import IntermediateTensors, Logprob
        """
    )
    assert rewrite(text).text.startswith("from __future__ import annotations\nfrom __future__ import division\n")


def test_syntax_newer_than_the_running_python_is_still_read() -> None:
    text = 'from vllm.worker.worker_base import WorkerWrapperBase\n\ndef f[T](x: T) -> str:\n    return f"{x["a"]}"\n'
    outcome = rewrite(text, check=False)
    assert outcome.text.startswith("from vllm.v1.worker.worker_base import WorkerWrapperBase\n")
    assert outcome.rules == {"V1M001"}


def test_what_cannot_be_followed_is_said() -> None:
    outcome = rewrite(
        dedent(
            """
            import importlib
            import vllm.config
            from vllm.sequence import *

            a = getattr(vllm.config, name)
            b = importlib.import_module(path)
            """
        )
    )
    assert outcome.lines("V1M007") == [3, 5, 6]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param("path", True, id="a name that nobody knows"),
        pytest.param('f"{root}.models"', True, id="what begins with such a name"),
        pytest.param('"vllm." + path', True, id="a path in vllm"),
        pytest.param("found", True, id="a name with two values, one of them unknown"),
        pytest.param("model.__class__.__module__", False, id="an object's own module"),
        pytest.param("own", False, id="a name with that in it"),
        pytest.param('f"{type(model).__module__}.layers"', False, id="a part of it"),
        pytest.param('f"transformers.models.{path}"', False, id="another package"),
        pytest.param('"." + path, package=__package__', False, id="the package at hand"),
    ],
)
def test_a_path_that_is_none_of_vllms_can_be_let_be(path: str, said: bool) -> None:
    outcome = rewrite(
        "import importlib\nimport vllm.config\n\nfound = model.__class__.__module__\nfound = elsewhere()\n"
        f"own = model.__class__.__module__\nx = importlib.import_module({path})\n"
    )
    assert bool(outcome.said("V1M007")) is said


def test_string_paths_are_rewritten_only_when_they_are_the_whole_string() -> None:
    outcome = rewrite(
        dedent(
            """
            import importlib
            a = "vllm.worker.worker_base.WorkerWrapperBase"
            b = "--cls=vllm.worker.worker_base.WorkerWrapperBase"
            c = "vllm.worker." + name
            d = f"vllm{x}.worker.{y}" "vllm.worker.worker_base.WorkerWrapperBase"
            m = importlib.import_module("vllm.worker.worker_base")
            m.WorkerWrapperBase
            """
        )
    )
    lines = outcome.text.splitlines()
    assert lines[1] == 'a = "vllm.v1.worker.worker_base.WorkerWrapperBase"'
    assert "vllm.worker.worker_base" in lines[2]
    assert {2, 3, 4, 5, 6} <= {finding.line for finding in outcome.findings}
