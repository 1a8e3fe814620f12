"""Every name, member, field and call of V0's attention modules is taken, in the three releases that had them.

What V0 had comes from the names index, which is built from the released wheels.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from v1_compat.legacy import ADAPTERS
from v1_migrate.names.differences import accepts, defined_names
from v1_migrate.names.index import Index, Param

INDEX = Index.load(user=False)
RELEASES = ("0.8.5", "0.9.1", "0.9.2")
CALLED = {  # of two large modules, what V0's CPU attention used; the rest of them is no attention
    "vllm._custom_ops": {
        "paged_attention_v1",
        "paged_attention_v2",
        "reshape_and_cache",
        "copy_blocks",
        "swap_blocks",
        "copy_blocks_mla",
        "concat_and_cache_mla",
        "mla_decode_kvcache_cpu",
    },
    "vllm.platforms.interface": {"_Backend"},
    "vllm.attention": {  # Attention is vLLM's layer, not attention itself
        "AttentionBackend",
        "AttentionMetadata",
        "AttentionMetadataBuilder",
        "AttentionState",
        "AttentionType",
        "get_attn_backend",
    },
}
REORDERED = {  # 0.8.5 lacked a parameter in the middle: calls by position have tests of their own
    ("TorchSDPAMetadata", "0.8.5"),
    ("CPUMLAMetadata", "0.8.5"),
    ("TorchSDPABackendImpl", "0.8.5"),
}
LATER = {"vllm.attention.backends.registry"}  # of 0.11.1, with `_Backend` alone adapted
BY_POSITION = {("vllm.attention.backends.cpu_mla.CPUMLAImpl.forward", "0.8.5")}  # its `q` was `hidden_states_or_q_c`
KINDS: dict[Any, Any] = {
    inspect.Parameter.POSITIONAL_ONLY: "pos",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "pos_or_kw",
    inspect.Parameter.VAR_POSITIONAL: "var_pos",
    inspect.Parameter.KEYWORD_ONLY: "kw_only",
    inspect.Parameter.VAR_KEYWORD: "var_kw",
}


def names(module: str, release: str) -> set[str]:
    """What must be there; private names that CPU code is known to import or patch included."""
    private = {
        "vllm.attention.ops.ipex_attn": {"_PagedAttention", "_IPEXPagedAttention", "_use_ipex", "PagedAttention"},
        "vllm.attention.selector": {"_Backend", "_cached_get_attn_backend"},
        "vllm.attention.backends.torch_sdpa": {"_make_alibi_bias", "_make_sliding_window_bias", "PagedAttention"},
    }
    return CALLED.get(module) or defined_names(INDEX, module, release) | private.get(module, set())


def ours(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(ADAPTERS[module]), name)


def is_vllms(value: Any) -> bool:
    """With vLLM installed some are its own objects, of today's signatures."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "vllm"


def cases() -> Iterator[Any]:
    for release in RELEASES:
        for module in (module for module in ADAPTERS if module not in LATER):
            assert INDEX.has_module(module, release), module
            for name in sorted(names(module, release)):
                yield pytest.param(f"{module}.{name}", release, id=f"{module}.{name} of {release}")


def params(function: Any, bound: bool) -> list[Param]:
    found = list(inspect.signature(function).parameters.values())
    empty = inspect.Parameter.empty
    return [Param(p.name, KINDS[p.kind], p.default is not empty) for p in found][0 if bound else 1 :]


@pytest.mark.parametrize(("dotted", "release"), list(cases()))
def test_a_name_is_served_with_its_members_and_calls(dotted: str, release: str) -> None:
    module, _, name = dotted.rpartition(".")
    assert name in importlib.import_module(ADAPTERS[module]).__all__
    found = ours(dotted)
    for member in INDEX.members(dotted, release):
        place = f"{dotted}.{member}"
        kind = INDEX.resolve(place, release).kind
        if kind == "attribute" or member.startswith("__") or member in INDEX.fields(dotted, release):
            continue  # set by a constructor; read in other tests
        if member.startswith("_"):  # private and of a GPU's graphs, or of a numpy variant
            continue
        assert hasattr(found, member), f"{place} is missing"
        wanted = INDEX.params(place, release)
        if (place, release) in BY_POSITION:
            continue
        if wanted is not None and callable(getattr(found, member)) and not is_vllms(getattr(found, member)):
            static = isinstance(inspect.getattr_static(found, member), (staticmethod, classmethod))
            assert accepts(wanted, params(getattr(found, member), bound=static)), f"{place}: {wanted}"
    wanted = INDEX.params(dotted, release)
    if (name, release) in REORDERED or is_vllms(found) or is_vllms(getattr(found, "__init__", None)):
        return
    if wanted is not None and callable(found) and not getattr(found, "_is_protocol", False):
        assert accepts(wanted, params(found, bound=True)), f"{dotted}: {wanted}"


@pytest.mark.parametrize("release", ["0.9.1", "0.9.2"])
def test_the_metadata_takes_its_fields_in_the_order_of_a_release(release: str) -> None:
    dotted = "vllm.attention.backends.torch_sdpa.TorchSDPAMetadata"
    assert tuple(inspect.signature(ours(dotted)).parameters) == INDEX.fields(dotted, release)


def test_the_metadata_takes_the_fields_of_0_8_5_by_position() -> None:
    dotted = "vllm.attention.backends.torch_sdpa.TorchSDPAMetadata"
    fields = INDEX.fields(dotted, "0.8.5")
    values: dict[str, Any] = {name: object() for name in fields} | {"encoder_seq_lens": [7]}
    metadata = ours(dotted)(*values.values())
    values["prefill_query_start_loc"] = values.pop("query_start_loc")  # its later name
    assert {name: getattr(metadata, name) for name in values} == values
    assert metadata.query_start_loc is None


def test_a_layer_takes_the_last_argument_of_0_8_5_by_position() -> None:
    dotted = "vllm.attention.backends.torch_sdpa.TorchSDPABackendImpl"
    wanted = INDEX.params(dotted, "0.8.5")
    assert wanted is not None and wanted[10].name == "use_irope"
    with pytest.warns(FutureWarning, match="use_irope"):
        layer = ours(dotted)(4, 32, 0.1, 2, None, None, "auto", None, None, "decoder", True)
    assert layer.kv_sharing_target_layer_name is None


def test_every_member_of_the_backend_enumeration_is_there() -> None:
    dotted = "vllm.platforms.interface._Backend"
    releases = [*RELEASES, "0.10.0", "0.10.1", "0.10.2", "0.11.0"]
    wanted = {m for r in releases for m in INDEX.members(dotted, r) if m.isupper()}
    assert len(wanted) > 30
    assert wanted == set(ours(dotted).__members__)


def test_everything_listed_is_there() -> None:
    for path in ADAPTERS.values():
        module = importlib.import_module(path)
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        assert module.__all__ and not missing, path


def test_the_page_names_every_module() -> None:
    page = (Path(__file__).parents[3] / "docs" / "compat-attention.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for legacy, path in ADAPTERS.items():
        assert any(f"`{legacy}" in row and f"`{path}`" in row for row in rows), legacy


def test_the_table_of_adapters_loads_neither_torch_nor_vllm() -> None:
    code = "import sys, v1_compat.legacy; print([m for m in ('torch', 'vllm', 'v1_cpu') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
