"""What the settings that V0 had mean in a release: the cache's size, where threads run, and its names in code."""

from __future__ import annotations

from dataclasses import dataclass

from .case import GIB, Case


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, what it comes to here, and what decided it."""

    name: str
    value: str
    why: str


def settings(case: Case) -> list[Setting]:
    """In the order in which a person asks."""
    return [_cache(case), _threads(case)]


def names_of_v0(case: Case, installed: bool) -> Setting | None:
    """What becomes of V0's names, keywords and fields in code; None for a release that still has V0.

    `installed`: the shim is there.
    """
    if case.within("", "0.10.0"):
        return None
    name, mode = "V0's names", case.variables.get("V1_COMPAT", "").strip()
    if mode in ("", "off"):
        how = "V1_COMPAT=warn lets them run on V1 meanwhile"
        return Setting(name, "fail", how + ("" if installed else ", once v1-migrate is installed there"))
    if not installed:
        return Setting(name, "fail", f"V1_COMPAT={mode}, but v1-migrate is not installed there")
    return Setting(name, "run on V1 meanwhile, by v1_compat", f"V1_COMPAT={mode}; docs/compat.md")


def _cache(case: Case) -> Setting:
    name = "KV cache"
    given = case.get("kv_cache_memory_bytes")
    space = case.variables.get("VLLM_CPU_KVCACHE_SPACE", "").strip()
    if space.isdigit() and (int(space) or case.within("0.10.0", "")):
        return Setting(name, f"{space} GiB for each rank", "VLLM_CPU_KVCACHE_SPACE")
    if given and case.within("0.20.0", ""):
        return Setting(name, f"{given} bytes for each rank", "kv_cache_memory_bytes")
    if case.within("", "0.13.0"):
        return Setting(name, "4 GiB for each rank", "the default up to 0.12.0; VLLM_CPU_KVCACHE_SPACE sets it")
    total = case.nodes[0][0] if case.nodes else 0
    if case.within("", "0.20.0"):
        mean = sum(size for size, _ in case.nodes) / max(len(case.nodes), 1)
        size = f"{mean / 2 / GIB:.1f} GiB" if total else "half a node"
        why = "half of the memory of one NUMA node, the default of 0.13.0 to 0.19.1; V0's was 4 GiB"
        return Setting(name, f"{size} for each rank", f"{why}; VLLM_CPU_KVCACHE_SPACE sets it")
    share = case.get("gpu_memory_utilization", 0.92)
    size = f"up to {share * total / GIB:.1f} GiB, weights included," if total else f"{share} of a node"
    why = f"gpu_memory_utilization={share} of the rank's NUMA node, despite its name; V0's default was 4 GiB"
    return Setting(name, f"{size} for each rank", f"{why}; VLLM_CPU_KVCACHE_SPACE sets it")


def _threads(case: Case) -> Setting:
    name = "threads"
    bind = case.variables.get("VLLM_CPU_OMP_THREADS_BIND", "")
    if bind not in ("", "auto"):
        meaning = {"nobind": "not bound; OMP_NUM_THREADS counts them", "all": "all cores, not bound"}
        return Setting(name, meaning.get(bind, f"bound to cores {bind}"), "VLLM_CPU_OMP_THREADS_BIND")
    if case.within("", "0.9.1"):
        return Setting(name, "all cores, not bound", "the default up to 0.9.0; VLLM_CPU_OMP_THREADS_BIND sets it")
    reserved = case.variables.get("VLLM_CPU_NUM_OF_RESERVED_CPU", "")
    default = case.world_size if case.within("0.20.0", "") else int(case.world_size > 1)
    kept = int(reserved) if reserved.isdigit() else default
    nodes = max(len(case.nodes), 1)
    value = f"rank N on the physical cores of NUMA node N ({nodes} here), {kept} core(s) kept free of {case.cores}"
    why = "auto, the default since 0.9.1; V0 took all cores. VLLM_CPU_OMP_THREADS_BIND sets it"
    return Setting(name, value, why + ", VLLM_CPU_NUM_OF_RESERVED_CPU what is kept free")
