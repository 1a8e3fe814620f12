"""The curated table against the index: every destination, every target."""

from __future__ import annotations

from pathlib import Path

import pytest
from v1_migrate.names import curated_source
from v1_migrate.names.backend import backend_has
from v1_migrate.names.curated import COMPILED, Curated, Entry
from v1_migrate.names.differences import accepts, describe
from v1_migrate.names.index import Index, Param
from v1_migrate.names.releases import sort_key

V1_CPU_NAMES = {
    "TorchSDPABackend",
    "TorchSDPAMetadata",
    "TorchSDPAMetadataBuilderV1",
    "TorchSDPABackendImpl",
    "PagedAttention",
    "_PagedAttention",
    "_IPEXPagedAttention",
    "mla.CPUMLABackend",
    "mla.CPUMLAImpl",
    "mla.CPUMLAMetadata",
    "mla.CPUMLAMetadataBuilder",
}


@pytest.fixture(scope="module")
def index() -> Index:
    return Index.load(user=False)


@pytest.fixture(scope="module")
def curated() -> Curated:
    return Curated.load()


@pytest.fixture(scope="module")
def targets(index: Index) -> list[str]:
    return [r for r in index.releases if sort_key(r) >= sort_key("0.10.0")]


def checked_rows() -> dict[str, str]:
    """old -> why a moved row is safe although the index sees a difference."""
    import os
    import tomllib

    found = {}
    for name in sorted(os.listdir(curated_source.DATA)):
        if name.endswith(".toml"):
            with open(os.path.join(curated_source.DATA, name), "rb") as file:
                found |= {row["old"]: row["checked"] for row in tomllib.load(file).get("name", ()) if "checked" in row}
    return found


def wrong_destinations(entries: list[Entry], index: Index, targets: list[str]) -> list[str]:
    """Rows that send code to a name which a target does not have at run time."""
    return [
        f"{entry.old} -> {new} on {target}"
        for entry in entries
        for target in targets
        if (new := entry.destination(target)) and not index.runtime(new, target)
    ]


def silent_rows(entries: list[Entry], index: Index, targets: list[str]) -> list[str]:
    """Rows without a destination on a target that lost the old name, where no "" says that nothing took its place."""
    found = []
    for entry in entries:
        having = index.releases_of(entry.old)
        for target in targets:
            lost = having and sort_key(target) > sort_key(having[-1])
            if lost and entry.kind != "gone" and not any(sort_key(first) <= sort_key(target) for first, _ in entry.to):
                found.append(f"{entry.old} on {target}")
    return found


def false_moves(entries: list[Entry], index: Index, checked: dict[str, str]) -> list[str]:
    """Rows called moved although the parameters or members are not compatible at the new place."""
    found = []
    for entry in entries:
        if entry.kind != "moved" or entry.old in checked or not (having := index.releases_of(entry.old)):
            continue
        for first, new in entry.to:
            if new and (difference := describe(index, entry.old, having[-1], new, first)):
                found.append(f"{entry.old} -> {new} in {first}: {difference}")
    return found


def test_every_destination_exists_in_every_target(curated: Curated, index: Index, targets: list[str]) -> None:
    assert wrong_destinations(list(curated.entries()), index, targets) == []


def test_every_lost_name_has_a_destination_or_says_that_there_is_none(
    curated: Curated, index: Index, targets: list[str]
) -> None:
    assert silent_rows(list(curated.entries()), index, targets) == []


def test_what_is_called_moved_keeps_its_contract(curated: Curated, index: Index) -> None:
    assert false_moves(list(curated.entries()), index, checked_rows()) == []


def test_every_old_name_existed(curated: Curated, index: Index) -> None:
    assert [entry.old for entry in curated.entries() if not index.known(entry.old)] == []


def test_reasons_for_exceptions_are_still_needed(curated: Curated, index: Index) -> None:
    checked = checked_rows()
    entries = [e for e in curated.entries() if e.old in checked]
    assert len(false_moves(entries, index, {})) >= len(entries) > 0


def entry(**changes: object) -> Entry:
    row: dict[str, object] = {
        "old": "vllm.worker.worker_base.WorkerBase",
        "also": (),
        "kind": "moved",
        "scope": "v0",
        "to": (("0.11.1", "vllm.v1.worker.worker_base.WorkerBase"),),
        "v1_cpu": "",
        "v1_cpu_kind": "moved",
        "difference": "",
        "advice": "",
        "gone_in": "0.11.1",
    }
    return Entry(**{**row, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "new"),
    [("0.8.5", None), ("0.9.2", "a"), ("0.9.2.post2", "a"), ("0.10.0", "b"), ("0.11.0", None), ("0.100.0", "c")],
)
def test_destinations_follow_the_order_of_versions(target: str, new: str | None) -> None:
    assert entry(to=(("0.9.2", "a"), ("0.10.0", "b"), ("0.11.0", ""), ("0.99.0", "c"))).destination(target) == new


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        pytest.param(entry(to=(("0.11.1", "vllm.v1.worker.Base"),)), wrong_destinations, id="a name nobody has"),
        pytest.param(
            entry(to=(("0.10.0", "vllm.v1.executor.ray_executor.RayDistributedExecutor"),)),
            wrong_destinations,
            id="a name that comes later than said",
        ),
        pytest.param(entry(to=(("0.10.0", "vllm.utils.cdiv"),)), wrong_destinations, id="a name that goes again"),
        pytest.param(entry(to=(("0.16.0", "vllm.v1.worker.worker_base.WorkerBase"),)), silent_rows, id="a gap"),
    ],
)
def test_a_planted_wrong_row_is_found(planted: Entry, check: object, index: Index, targets: list[str]) -> None:
    assert check([planted], index, targets)  # type: ignore[operator]


def test_a_contract_called_moved_is_found(index: Index) -> None:
    assert false_moves([entry()], index, {})


def test_the_compiled_table_is_fresh(index: Index) -> None:
    """Run `python -m v1_migrate.names.curated_source` when this fails."""
    compiled = curated_source.dump(curated_source.compile_tables(curated_source.DATA, index))
    assert Path(COMPILED).read_text(encoding="utf-8") == compiled


def test_every_fate_has_words(curated: Curated, index: Index, targets: list[str]) -> None:
    """Whatever a target lacks: a sentence to act on, and for another contract the difference."""
    bare = []
    for row in curated.entries():
        for target in targets:
            if index.resolve(row.old, target).found is not False:
                continue
            fate = curated.fate(row.old, target)
            if fate is None or len(fate.advice) < 12 or not fate.advice.endswith((".", ")")):
                bare.append((row.old, target, fate and fate.advice))
            elif fate.kind == "contract" and not fate.difference:
                bare.append((row.old, target, "no difference"))
    assert bare == []


def test_every_vanished_module_has_advice(curated: Curated, index: Index, targets: list[str]) -> None:
    """For each V0 package that some target lacks: more than the last resort."""
    general = curated.advice_for("vllm", targets[-1])
    packages = (
        "worker",
        "core",
        "spec_decode",
        "executor",
        "engine",
        "sequence",
        "prompt_adapter",
        "adapter_commons",
        "attention",
    )
    v0 = {m for r in ("0.8.5", "0.9.2") for m in index.modules(r) if m.startswith(tuple(f"vllm.{p}" for p in packages))}
    gone = sorted(m for m in v0 if not index.has_module(m, targets[-1]))
    assert len(gone) > 100
    assert [m for m in gone if curated.advice_for(m, targets[-1]) in ("", general)] == []


def test_v1_cpu_destinations_are_names_that_v1_cpu_offers(curated: Curated) -> None:
    used = {e.v1_cpu for e in curated.entries() if e.v1_cpu}
    members = {name for name in used if backend_has(name)}
    assert {name.removeprefix("v1_cpu.") for name in used - members} == V1_CPU_NAMES
    assert members == {"v1_cpu.TorchSDPABackend.get_kv_cache_shape"}


@pytest.mark.parametrize(
    ("dotted", "target", "attention", "kind", "new"),
    [
        pytest.param("vllm.utils.cdiv", "0.11.1", "vllm", "moved", "vllm.utils.math_utils.cdiv", id="a plain move"),
        pytest.param(
            "vllm.worker.worker.Worker", "0.11.0", "vllm", "contract", "vllm.v1.worker.gpu_worker.Worker", id="namesake"
        ),
        pytest.param("vllm.core.scheduler.PreemptionMode", "0.11.0", "vllm", "gone", None, id="gone"),
        pytest.param(
            "vllm.sequence.SamplerOutput",
            "0.11.0",
            "vllm",
            "contract",
            "vllm.v1.outputs.SamplerOutput",
            id="an older place",
        ),
        pytest.param(
            "vllm.sequence.SamplerOutput",
            "0.10.0",
            "vllm",
            "moved",
            "vllm.model_executor.layers.sampler.SamplerOutput",
            id="an older place, while the next one still stands",
        ),
        pytest.param(
            "vllm.attention.AttentionMetadata",
            "0.13.0",
            "vllm",
            "moved",
            "vllm.attention.backends.abstract.AttentionMetadata",
            id="a package re-export, while the definition still stands",
        ),
        pytest.param(
            "vllm.attention.AttentionMetadata",
            "0.32.0",
            "vllm",
            "moved",
            "vllm.v1.attention.backend.AttentionMetadata",
            id="a package re-export",
        ),
        pytest.param(
            "vllm.attention.backends.registry.AttentionBackendEnum",
            "0.14.0",
            "vllm",
            "moved",
            "vllm.v1.attention.backends.registry.AttentionBackendEnum",
            id="a place of some releases only",
        ),
        pytest.param(
            "vllm.worker.cpu_worker.CPUModelRunner",
            "0.32.0",
            "vllm",
            "contract",
            "vllm.v1.worker.cpu_model_runner.CPUModelRunner",
            id="imported from a module that merely imports it",
        ),
        pytest.param(
            "vllm.attention.backends.torch_sdpa.TorchSDPABackend",
            "0.11.0",
            "vllm",
            "contract",
            "vllm.v1.attention.backends.cpu_attn.TorchSDPABackend",
            id="CPU attention in vLLM 0.11.0",
        ),
        pytest.param(
            "vllm.attention.backends.torch_sdpa.TorchSDPABackend",
            "0.11.1",
            "vllm",
            "contract",
            "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend",
            id="CPU attention in vLLM 0.11.1",
        ),
        pytest.param(
            "vllm.attention.backends.torch_sdpa.TorchSDPABackend",
            "0.32.0",
            "v1_cpu",
            "moved",
            "v1_cpu.TorchSDPABackend",
            id="CPU attention in v1_cpu",
        ),
        pytest.param(
            "vllm.worker.cpu_worker.CPUWorker.init_device",
            "0.32.0",
            "vllm",
            "contract",
            "vllm.v1.worker.cpu_worker.CPUWorker.init_device",
            id="a member that the new class has",
        ),
        pytest.param(
            "vllm.worker.cpu_worker.CPUWorker.start_worker_execution_loop",
            "0.32.0",
            "vllm",
            "gone",
            None,
            id="a member that it lacks",
        ),
        pytest.param(
            "vllm.attention.backends.torch_sdpa.TorchSDPAMetadata.max_kv_len",
            "0.11.1",
            "vllm",
            "contract",
            "vllm.v1.attention.backends.cpu_attn.CPUAttentionMetadata.max_seq_len",
            id="a field that has another name",
        ),
        pytest.param(
            "vllm.v1.attention.backends.cpu_attn.TorchSDPAMetadata.max_kv_len",
            "0.11.1",
            "vllm",
            "contract",
            "vllm.v1.attention.backends.cpu_attn.CPUAttentionMetadata.max_seq_len",
            id="the same field at its place in between",
        ),
        pytest.param(
            "vllm.worker.worker.Worker._assert_memory_footprint_increased_during_profiling",
            "0.11.0",
            "vllm",
            "gone",
            None,
            id="a patched method without a counterpart",
        ),
        pytest.param(
            "vllm.executor.ray_utils",
            "0.11.1",
            "vllm",
            "contract",
            "vllm.v1.executor.ray_utils",
            id="a module, not all of it",
        ),
        pytest.param("vllm.jsontree", "0.10.1", "vllm", "moved", "vllm.utils.jsontree", id="a whole module"),
        pytest.param(
            "vllm.executor.uniproc_executor.UniProcExecutor.shutdown",
            "0.32.0",
            "vllm",
            "contract",
            "vllm.v1.executor.uniproc_executor.UniProcExecutor.shutdown",
            id="a member of a class in a module that moved",
        ),
        pytest.param(
            "vllm.entrypoints.openai.serving_chat.OpenAIServingChat.create_chat_completion",
            "0.15.0",
            "vllm",
            "moved",
            "vllm.entrypoints.openai.chat_completion.serving.OpenAIServingChat.create_chat_completion",
            id="a member that moved along",
        ),
        pytest.param(
            "vllm.worker.cpu_model_runner.torch", "0.32.0", "vllm", "gone", None, id="a third-party module re-exported"
        ),
        pytest.param("vllm.config.VllmConfig", "0.32.0", "vllm", None, None, id="a name that stays"),
        pytest.param("vllm.no.such.name", "0.32.0", "vllm", None, None, id="a name that never was"),
    ],
)
def test_fate(curated: Curated, dotted: str, target: str, attention: str, kind: str | None, new: str | None) -> None:
    fate = curated.fate(dotted, target, attention)  # type: ignore[arg-type]
    assert (fate and fate.kind, fate and fate.new) == (kind, new)


def test_a_name_newer_than_the_target_says_so(curated: Curated) -> None:
    fate = curated.fate("vllm.attention.backends.registry.AttentionBackendEnum", "0.10.0")
    assert fate is not None and fate.kind == "gone" and "came in 0.11.1" in fate.advice


def test_advice_is_the_most_specific(curated: Curated) -> None:
    assert "CPU" in curated.advice_for("vllm.attention.ops.ipex_attn.anything.deeper", "0.32.0")
    assert curated.advice_for("vllm.core.evictor.X", "0.32.0") != curated.advice_for("vllm.core.X", "0.32.0")
    assert curated.advice_for("torch.nn", "0.32.0") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('[[name]]\nold = "a"\nfate = "lost"\nscope = "v0"', "fate 'lost'", id="an unknown fate"),
        pytest.param('[[name]]\nold = "a"\nfate = "gone"\nscope = "v0"', "needs advice", id="gone without advice"),
        pytest.param('[[name]]\nold = "a"\nfate = "moved"\nscope = "x"', "scope 'x'", id="an unknown scope"),
        pytest.param('[[name]]\nold = "a"\nnew = "b"', "unknown key new", id="an unknown key"),
        pytest.param('[[group]]\nfrom = "a"\nname = ["b"]', "unknown key name", id="an unknown key of a group"),
        pytest.param(
            '[[name]]\nold = "a"\nfate = "gone"\nscope = "v0"\nadvice = "x"\n' * 2,
            "has a row already",
            id="a row twice",
        ),
        pytest.param(
            '[[name]]\nold = "a"\nfate = "moved"\nscope = "v0"\nto = [["0.9.9", "b"]]',
            "unknown vLLM release",
            id="a release nobody knows",
        ),
    ],
)
def test_a_row_that_cannot_be_understood_is_refused(tmp_path: Path, index: Index, text: str, message: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        curated_source.compile_tables(str(tmp_path), index)


def parameters(signature: str) -> list[Param]:
    from v1_migrate.names.hierarchy import parse_signature

    return [Param(*p) for p in parse_signature(signature)]


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        pytest.param("a,b=", "a,b=", True, id="the same"),
        pytest.param("a,b=", "a,b=,c=", True, id="one more with a default"),
        pytest.param("a,b=", "a,b=,c", False, id="one more that is required"),
        pytest.param("a,b=", "b=,a=", False, id="another order"),
        pytest.param("a,b=", "a", False, id="one less"),
        pytest.param("a,b=", "a,**kw", False, id="one less by position, although keywords are taken"),
        pytest.param("a,*,b=", "a,**kw", True, id="keywords are taken"),
        pytest.param("a,*args", "a", False, id="no more positional arguments"),
        pytest.param("a=", "a", False, id="a default that went"),
        pytest.param("", "*,a=", True, id="a keyword with a default"),
    ],
)
def test_accepts(old: str, new: str, fine: bool) -> None:
    assert accepts(parameters(old), parameters(new)) is fine


FRONT_END = ("vllm.LLM", "vllm.AsyncLLMEngine", "vllm.LLMEngine", "vllm.RequestOutput")
BRIEF = {  # internals of a release or two, of which there is nothing to say
    "vllm.LLM.DEPRECATE_INIT_POSARGS",
    "vllm.LLM.DEPRECATE_LEGACY",
    "vllm.LLM.deprecate_legacy_api",
    "vllm.LLM.init_pooling_io_processors",
    "vllm.RequestOutput.prompt_routed_experts",
}


def test_every_member_that_the_front_end_lost_says_what_to_do_instead(curated: Curated, index: Index) -> None:
    newest = index.releases[-1]
    ever = {f"{owner}.{name}" for owner in FRONT_END for r in index.releases for name in index.members(owner, r)}
    lost = {name for name in ever - BRIEF if "._" not in name and index.resolve(name, newest).found is False}
    assert len(lost) > 60
    assert sorted(name for name in lost if curated.fate(name, newest) is None) == []


def test_a_group_of_several_classes_has_rows_where_the_name_was(tmp_path: Path, index: Index) -> None:
    table = """
        [[group]]
        from = ["vllm.LLM", "vllm.SamplingParams"]
        names = ["best_of", "generate"]
        fate = "gone"
        scope = "other"
        advice = "Gone."
    """
    (tmp_path / "rows.toml").write_text(table)
    rows = curated_source.compile_tables(str(tmp_path), index)["names"]
    assert set(rows) == {"vllm.LLM.generate", "vllm.SamplingParams.best_of"}
