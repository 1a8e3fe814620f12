"""Which kernel runs, and why: chosen once, when first asked for, never at import.

`V1_CPU_KERNEL=torch|native|ipex` overrides the choice. Without it the native kernel serves when it can be loaded; else
Intel Extension for PyTorch, where it is usable, and else torch, which says so once. Where the native kernel serves,
IPEX is not imported: the reason tells whether it could be had.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from dataclasses import dataclass

import torch

from v1_cpu.kernels import Kernel, KernelConfig, KernelUnavailable

ENV = "V1_CPU_KERNEL"
KERNELS = {
    "native": ("v1_cpu.kernels.native_kernel", "_NativePagedAttention"),
    "torch": ("v1_cpu.kernels.torch_kernel", "_PagedAttention"),
    "ipex": ("v1_cpu.kernels.ipex_kernel", "_IPEXPagedAttention"),
}


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """What serves, in this process: `print(v1_cpu.which())`."""

    name: str  # "native", "torch" or "ipex"
    isa: str  # "avx512_bf16", "avx2", "generic", ...
    layout: str  # interior of a cache block: "row", ...
    reason: str

    def __str__(self) -> str:
        return f"{self.name} kernel ({self.isa}, layout {self.layout}): {self.reason}"


def which() -> KernelChoice:
    """The kernel that serves calls without `kernel=`, and why. The answer is settled by the first call.

    Raises
    ------
    ValueError
        `V1_CPU_KERNEL` names no kernel.
    NotImplementedError
        `V1_CPU_KERNEL` names a kernel that this machine cannot load.
    """
    kernel, reason = _default()
    return KernelChoice(kernel.name, kernel.isa, kernel.layout, reason)


def default_kernel() -> Kernel:
    """The kernel of `which()`."""
    return _default()[0]


def kernel_class(name: str) -> type[Kernel]:
    """The class behind a kernel's name; importing it loads no binary."""
    module, attribute = KERNELS[name]
    found: type[Kernel] = getattr(importlib.import_module(module), attribute)
    return found


@functools.cache
def get_kernel(name: str) -> Kernel:
    """The kernel called `name`, loaded.

    Raises ValueError for an unknown name and NotImplementedError, with the reason, for one that cannot be loaded here.
    """
    if name not in KERNELS:
        raise ValueError(f"kernel={name!r}: must be one of {', '.join(map(repr, KERNELS))}, or None for the default")
    reason = unavailable(name)
    if reason is not None:
        raise NotImplementedError(f"kernel={name!r} cannot be used here: {reason}; kernel='torch' always works")
    return kernel_class(name)()


@functools.cache
def unavailable(name: str) -> str | None:
    """None if the kernel can be loaded, else the reason."""
    try:
        kernel_class(name)()
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("v1_cpu"):
            return f"{error.name} is not installed"
        return "this installation does not contain it"
    except (KernelUnavailable, ImportError, OSError) as error:
        return str(error)
    return None


@functools.cache
def serving(
    name: str | None,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    head_size_v: int,
    block_size: int,
) -> Kernel:
    """The kernel for one kind of call: the one asked for, or the default, or torch where the default cannot.

    torch steps in only for a default of its own layout, so that what is in the cache stays readable.
    """
    kernel = default_kernel() if name is None else get_kernel(name)
    config = KernelConfig(dtype, cache_dtype, num_heads, num_kv_heads, head_size, head_size_v, block_size)
    reason = kernel.unsupported(config)
    if reason is None:
        return kernel
    fallback = get_kernel("torch")
    if name is not None or kernel.layout != fallback.layout:
        raise NotImplementedError(f"the {kernel.name} kernel cannot serve this: {reason}")
    warnings.warn(f"v1_cpu: the torch kernel serves where {kernel.name} cannot: {reason}", RuntimeWarning, stacklevel=4)
    return fallback


@functools.cache
def _default() -> tuple[Kernel, str]:
    wanted = os.environ.get(ENV, "").strip().lower()
    if wanted:
        if wanted not in KERNELS:
            raise ValueError(f"{ENV}={wanted}: must be one of {', '.join(KERNELS)}; unset it for the default")
        reason = unavailable(wanted)
        if reason is not None:
            raise NotImplementedError(f"{ENV}={wanted}: {reason}; unset it or set it to torch")
        return get_kernel(wanted), f"{ENV}={wanted}"
    reason = unavailable("native")
    if reason is None:
        return get_kernel("native"), f"the native kernel is built and runs on this CPU; {_about_ipex()}"
    missing = _ipex_obstacle() or unavailable("ipex")
    if missing is None:
        return get_kernel("ipex"), f"no native kernel: {reason}; IPEX is usable and faster than torch"
    warnings.warn(
        f"v1_cpu: no native kernel ({reason}); the torch kernel serves: same results, several times slower",
        RuntimeWarning,
        stacklevel=4,
    )
    return get_kernel("torch"), f"no native kernel: {reason}; no IPEX: {missing}"


def _about_ipex() -> str:
    """Why IPEX does not serve although it might, without importing it."""
    obstacle = _ipex_obstacle()
    if obstacle is not None:
        return f"IPEX is no choice: {obstacle}"
    return f"IPEX is installed and mostly slower (docs/ipex.md); {ENV}=ipex takes it"


def _ipex_obstacle() -> str | None:
    from v1_cpu.kernels.ipex_load import obstacle  # when first asked: resolving a name of v1_cpu loads no kernel

    return obstacle()
