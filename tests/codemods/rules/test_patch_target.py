"""V1M006: patches of things that moved, changed or are gone."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite


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
