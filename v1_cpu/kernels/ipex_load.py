"""Loading Intel Extension for PyTorch, or the reason why not, found without importing it wherever that is possible.

Its import does not fail as imports do: beside a torch of another release it prints and dies of an AttributeError, on
a CPU without AVX2 it ends the process. So versions and CPU are looked at first, and what remains is caught here.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import inspect
import io
import platform
import re
import warnings
from typing import Any

import torch

from v1_cpu.kernels import KernelUnavailable

DISTRIBUTION, MODULE = "intel-extension-for-pytorch", "intel_extension_for_pytorch"
RELEASE = "2.8"
"""The series that the kernel was held against; also its last."""

SIGNATURES = {
    "reshape_and_cache": "key value key_cache value_cache slot_mapping kv_cache_dtype k_scale v_scale",
    "single_query_cached_kv_attention": "output query key_cache value_cache head_mapping scale block_tables "
    "context_lens block_size max_context_len alibi_slopes window_size k_scale v_scale softcap",
    "flash_attn_varlen_func": "output query key_cache value_cache cu_seqlens_q cu_seqlens_kv max_seqlen_q "
    "max_seqlen_kv scale is_cusal block_tables alibi_slopes window_size_left window_size_right kv_cache_dtype k_scale "
    "v_scale softcap",
}
"""The parameters that the calls rely on, in order."""


def obstacle() -> str | None:
    """What rules IPEX out, as far as can be told without importing it; None if nothing does."""
    try:
        version = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f"{DISTRIBUTION} is not installed"
    if _series(version) != RELEASE:
        return f"{DISTRIBUTION} {version} is installed; the kernel is for {RELEASE}.*: pip install 'v1-migrate[ipex]'"
    if _series(torch.__version__) != RELEASE:
        return (
            f"{DISTRIBUTION} {version} works with torch {RELEASE}.* only, and torch {torch.__version__} is installed; "
            f"the native kernel serves every torch"
        )
    machine = platform.machine()
    if machine.lower() not in ("x86_64", "amd64"):
        return f"{DISTRIBUTION} is for x86-64 and this CPU is {machine}"
    if torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "NO AVX"):  # torch 2.8 says the latter
        return f"{DISTRIBUTION} needs a CPU with AVX2, and torch finds none here"
    return None


def load() -> Any:
    """IPEX's `PagedAttention`; raises KernelUnavailable with the reason where it cannot be had."""
    reason = obstacle()
    if reason is not None:
        raise KernelUnavailable(reason)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it replaces operators of torch, and torch remarks on each
            operations = importlib.import_module(f"{MODULE}.llm.modules").PagedAttention
    except (Exception, SystemExit) as error:
        words = " ".join(f"{said.getvalue()} {error}".split())
        raise KernelUnavailable(f"importing {MODULE} failed ({type(error).__name__}: {words})") from error
    for name, wanted in SIGNATURES.items():
        found = " ".join(inspect.signature(getattr(operations, name, _nothing)).parameters)
        if found != wanted:
            raise KernelUnavailable(f"{MODULE}'s {name} takes ({found or 'nothing'}) and not ({wanted})")
    return operations


def isa_level() -> str:
    """The instruction set that IPEX runs on."""
    return str(importlib.import_module(f"{MODULE}._C")._get_current_isa_level()).lower()


def _series(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match[0] if match else version


def _nothing() -> None: ...
