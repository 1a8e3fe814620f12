"""Names that no release has: what the target has of the same name is where to look."""

from __future__ import annotations

import pytest

from tests.codemods.rules.harness import rewrite


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param(
            "from vllm.v1.core.scheduler_output import SchedulerOutput",
            ["`vllm.v1.core.sched.output.SchedulerOutput`", "v1-migrate index add"],
            id="one namesake",
        ),
        pytest.param("from vllm.config import EngineConfig", ["vllm.config.VllmConfig"], id="gone before 0.8.5"),
        pytest.param("from vllm.v1.nowhere import sing_a_song", ["an older release"], id="none"),
        pytest.param(
            "from vllm.platforms.nowhere import sing_a_song", ["vllm.platforms.interface.Platform"], id="of its package"
        ),
    ],
)
def test_the_advice_names_a_place_to_look(line: str, says: list[str]) -> None:
    (finding,) = rewrite(f"{line}\n").said("V1M005")
    for words in says:
        assert words in finding.advice
    assert "v1-migrate explain" not in finding.advice


def test_a_name_that_many_modules_define_says_nothing() -> None:
    (finding,) = rewrite("from vllm.nowhere import init_logger_x, logger\n").said("V1M005")[1:]
    assert "Of the same name" not in finding.advice


def test_what_the_builds_for_cpus_lack_is_said_to_be_that() -> None:
    (found,) = rewrite("from vllm.vllm_flash_attn.fa_utils import get_flash_attn_version\n", "0.32.0").said("V1M005")
    assert "`vllm.v1.attention.backends.fa_utils.get_flash_attn_version`" in found.advice
    assert "builds for CPUs" in found.advice
