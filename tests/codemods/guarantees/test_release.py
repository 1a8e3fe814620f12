"""Does the checker read a release as Python would?"""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.oracle import load
from guarantees.release import Has, Release


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("vllm.worker.cpu.Worker", "yes", "no", id="a class of a module that goes"),
        pytest.param("vllm.worker.cpu", "yes", "no", id="a module that goes"),
        pytest.param("vllm.worker.cpu.Worker.stop", "yes", "no", id="a method inherited from another class"),
        pytest.param("vllm.kept.Worker", "yes", "no", id="a name that a module merely imports"),
        pytest.param("vllm.kept.Worker.load", "yes", "no", id="a member through a re-export"),
        pytest.param("vllm.kept.Engine.start", "yes", "yes", id="a method that stays"),
        pytest.param("vllm.kept.Engine.stop", "yes", "no", id="a method that goes from a class that stays"),
        pytest.param("vllm.kept.Engine.__init__", "unknown", "unknown", id="what every class has"),
        pytest.param("vllm.kept.GONE_CONSTANT", "yes", "no", id="a constant"),
        pytest.param("vllm.LLM", "yes", "yes", id="a lazy name of the package"),
        pytest.param("vllm.OldThing", "yes", "no", id="a lazy name that goes"),
        pytest.param("vllm.envs.VLLM_GONE", "yes", "no", id="an environment variable that goes"),
        pytest.param("vllm.envs.VLLM_KEPT", "yes", "yes", id="an environment variable that stays"),
        pytest.param("vllm.envs.is_set", "yes", "yes", id="a function beside lazy names"),
        pytest.param("vllm.pkg.Impl", "yes", "no", id="a re-export of a package"),
        pytest.param("vllm.pkg.part_a", "yes", "yes", id="a name from a star import"),
        pytest.param("vllm.pkg.part_b", "no", "no", id="a name that __all__ keeps from the star"),
        pytest.param("vllm.pkg.part_c", "yes", "no", id="a starred name that goes"),
        pytest.param("vllm.open.anything", "unknown", "unknown", id="a module that can make up any name"),
        pytest.param("vllm.native.anything", "unknown", "unknown", id="a C extension"),
        pytest.param("vllm.outside.Colour.RED", "yes", "yes", id="a member of a class with a foreign base"),
        pytest.param("vllm.outside.Colour.BLUE", "unknown", "unknown", id="what a foreign base might add"),
        pytest.param("vllm.typed.Engine", "no", "no", id="a name only a type checker sees"),
        pytest.param("vllm.typed.Only", "yes", "yes", id="a name bound in the other arm of TYPE_CHECKING"),
        pytest.param("vllm.never.was", "no", "no", id="a name no release had"),
        pytest.param("torch.nn.Module", "unknown", "unknown", id="another package"),
    ],
)
def test_has(small_releases: Path, name: str, old: str, new: str) -> None:
    assert (Release(small_releases / "0.9.2").has(name), Release(small_releases / "0.32.0").has(name)) == (old, new)


def test_type_checking_code_sees_typing_names(small_releases: Path) -> None:
    assert Release(small_releases / "0.9.2").has("vllm.typed.Engine", True) is Has.YES


def test_classes_that_lead_to_themselves_end(tmp_path: Path) -> None:
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text("from .loop import Loop\nfrom . import loop as again\n")
    (package / "loop.py").write_text("from vllm import Loop\nclass Loop(Loop):\n    here = 1\n")
    release = Release(tmp_path)
    assert release.has("vllm.Loop.here") is Has.YES
    assert release.has("vllm.again.again.again") is Has.NO


def test_unknown_target_lists_what_there_is(small_releases: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no release 0\.5.*0\.9\.2, 0\.32\.0"):
        load(small_releases, "0.5")
