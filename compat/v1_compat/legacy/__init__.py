"""Legacy attention modules, one importable module each: they take V0's calls and give them to `v1_cpu`.

Importing this package imports nothing else. Each module works without vLLM and without the import hook; what it
offers is listed in its `__all__`.
"""

from __future__ import annotations

from collections.abc import Mapping

ADAPTERS: Mapping[str, str] = {
    "vllm._custom_ops": "v1_compat.legacy.custom_ops",
    "vllm.attention": "v1_compat.legacy.attention_package",
    "vllm.attention.backends.abstract": "v1_compat.legacy.abstract",
    "vllm.attention.backends.cpu_mla": "v1_compat.legacy.cpu_mla",
    "vllm.attention.backends.registry": "v1_compat.legacy.platform_backend",
    "vllm.attention.backends.torch_sdpa": "v1_compat.legacy.torch_sdpa",
    "vllm.attention.backends.utils": "v1_compat.legacy.attention_utils",
    "vllm.attention.ops.ipex_attn": "v1_compat.legacy.ipex_attn",
    "vllm.attention.ops.paged_attn": "v1_compat.legacy.paged_attn",
    "vllm.attention.selector": "v1_compat.legacy.selector",
    "vllm.platforms.interface": "v1_compat.legacy.platform_backend",
}
"""Legacy dotted module -> the module of ours that serves the names in its `__all__`."""
