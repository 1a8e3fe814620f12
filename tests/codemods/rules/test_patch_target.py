"""V1M006: patches of things that moved, changed or are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Severity


def test_a_patch_of_what_a_module_only_imported_is_left_to_a_person() -> None:
    text = 'from unittest.mock import patch\npatch("vllm.model_executor.layers.sampler.apply_penalties", f)\n'
    outcome = rewrite(text)
    assert outcome.text == text
    assert outcome.lines("V1M006") == [2]
    assert "where the target uses it" in outcome.said("V1M006")[0].advice


def test_a_patch_of_a_class_that_moved_is_rewritten() -> None:
    outcome = rewrite(
        'from unittest.mock import patch\npatch("vllm.worker.worker_base.WorkerWrapperBase.init_worker")\n'
    )
    assert 'patch("vllm.v1.worker.worker_base.WorkerWrapperBase.init_worker")' in outcome.text


@pytest.mark.parametrize(
    "line",
    [
        "vllm.worker.model_runner.ModelRunner.execute_model = f",
        'setattr(vllm.worker.model_runner.ModelRunner, "execute_model", f)',
        "del vllm.worker.model_runner.ModelRunner.execute_model",
    ],
)
def test_patches_of_gone_methods_are_found(line: str) -> None:
    outcome = rewrite(dedent(f"import vllm.worker.model_runner\n\n{line}\n"))
    assert 3 in outcome.lines("V1M006")


@pytest.mark.parametrize("setting", ["vllm.platforms.MY_FLAG = 1", 'setattr(vllm.platforms, "MY_FLAG", 1)'])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_attribute_of_the_trees_own_is_no_error(tmp_path: Path, setting: str, elsewhere: bool) -> None:
    head, read = (
        "import vllm.platforms\n\n",
        "print(vllm.platforms.MY_FLAG)\nprint(getattr(vllm.platforms, 'MY_FLAG'))\n",
    )
    other = tmp_path / "other.py"
    other.write_text(f"{head}{setting}\n")
    tree = Tree.of(tmp_path, [other] if elsewhere else [])
    outcome = rewrite(head + (read if elsewhere else f"{setting}\n{read}"), tree=tree)
    assert [finding.severity for finding in outcome.findings] == [Severity.INFO] * (2 if elsewhere else 3)


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param("self.MY_FLAG = 1", id="set on self"),
        pytest.param("x.MY_FLAG == 1", id="compared"),
        pytest.param("x.OTHER = 1", id="another one is set"),
        pytest.param('monkeypatch.setattr(vllm.platforms, "MY_FLAG", 1)', id="patched, which fails"),
    ],
)
def test_what_the_tree_does_not_set_is_an_error(setting: str) -> None:
    text = f"import vllm.platforms\n\n{setting}\nprint(vllm.platforms.MY_FLAG)\n"
    assert Severity.ERROR in [finding.severity for finding in rewrite(text).findings if finding.line == 4]


def test_a_lost_name_that_the_tree_sets_is_still_lost() -> None:
    text = "import vllm.sequence\n\nvllm.sequence.SequenceGroup = 1\n"
    assert [finding.severity for finding in rewrite(text).said("V1M006")] == [Severity.ERROR]
