"""Imports every name that V0's modules had, under the shim, and prints what came of it as JSON. Run as a script.

    python walk_names.py [cpu|all]

`cpu`: the modules of the V0 CPU engine, private names included; `all`: every module of a V0 release that is gone, and
the names that the others lost.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

from v1_migrate.names.index import Index

V0 = ("0.8.5", "0.9.1", "0.9.2")
CPU_MODULES = (
    *(f"vllm.attention.backends.{m}" for m in "torch_sdpa ipex_attn cpu_mla abstract utils placeholder_attn".split()),
    *(f"vllm.attention.ops.{m}" for m in ("ipex_attn", "paged_attn")),
    *("vllm.attention", "vllm.attention.layer", "vllm.attention.selector"),
    *(
        f"vllm.worker.{m}"
        for m in "cpu_worker cpu_model_runner cpu_enc_dec_model_runner cpu_pooling_model_runner".split()
    ),
    *("vllm.worker.worker_base", "vllm.worker.model_runner_base", "vllm.core.block.cpu_gpu_block_allocator"),
    *("vllm.platforms.cpu", "vllm.platforms.interface", "vllm._ipex_ops"),
)
CPU_NAMES = ("vllm.envs.VLLM_USE_V1", "vllm.envs.set_vllm_use_v1")
OPERATIONS = (
    *("reshape_and_cache", "paged_attention_v1", "paged_attention_v2", "copy_blocks", "swap_blocks", "copy_blocks_mla"),
    *("concat_and_cache_mla", "mla_decode_kvcache_cpu"),
)


def names_of(modules: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(module, name) of what any V0 release has at the top of a module, names for type checkers left out."""
    index = Index.load(user=False)
    seen = set()
    for release in V0:
        names = index.of(release)
        for module in modules:
            for name in names.names(module) if names.has_module(module) else ():
                special = not name or name.startswith("__")
                if not special and not (names.record(module, name) or "!").startswith("!"):
                    seen.add((module, name))
    yield from sorted(seen)


def wanted(which: str) -> list[tuple[str, str]]:
    index = Index.load(user=False)
    if which == "cpu":
        extra = [tuple(name.rsplit(".", 1)) for name in CPU_NAMES]
        return [*names_of(CPU_MODULES), *extra, *(("vllm._custom_ops", name) for name in OPERATIONS)]  # type: ignore[list-item]
    modules = {m for release in V0 for m in index.modules(release)}
    return list(names_of(tuple(sorted(modules))))


def take(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    return getattr(found, name)


def main() -> None:
    import v1_compat

    v1_compat.install("warn")
    warnings.simplefilter("ignore")
    shim = v1_compat.current()
    assert shim is not None
    failures: dict[str, str] = {}
    how: Counter[str] = Counter()
    names = wanted(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    server = shim.server()
    assert server is not None
    if sys.argv[1:] == ["all"]:
        names = [(m, n) for m, n in names if server.table.find(f"{m}.{n}") is not None]
    for module, name in names:
        try:
            take(module, name)
        except Exception as error:
            failures[f"{module}.{name}"] = f"{type(error).__name__}: {error}"
            continue
        served = server._served.get((module, name))
        how[served.how if served else "vllm's own"] += 1
    print(json.dumps({"names": len(names), "how": how, "failures": failures, "release": server.table.release}))


if __name__ == "__main__":
    main()
