"""How `vllm.envs` read the variables that it has lost: the parser and the default of each.

They are the first release's that had the variable, so V0's for all that V0 had; choices that later ones added are among
them. Defaults are texts, as they stood for an environment without the variable; None is None.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """How a variable was read. `parse` raises what vLLM's did: ValueError."""

    parse: Callable[[str], Any]
    default: str | None
    variable: str  # in the environment

    @property
    def value(self) -> Any:
        text = os.environ.get(self.variable, self.default)
        return None if text is None else self.parse(text)


def _number(text: str) -> bool:
    return bool(int(text))


def _word(text: str) -> bool:
    return text.lower() in ("true", "1")


def _word_amid_spaces(text: str) -> bool:
    return _word(text.strip())


def _one(text: str) -> bool:
    return text == "1"


def _not_zero(text: str) -> bool:
    return text != "0"


def _one_zero_or_neither(text: str) -> bool | None:
    return {"1": True, "0": False}.get(text.strip())


def _among(choices: str, *, any_case: bool = False) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if (text.lower() if any_case else text) not in choices.split():
            raise ValueError(f"{text!r} is none of {', '.join(choices.split())}")
        return text

    return parse


def _several(parse: Callable[[str], str]) -> Callable[[str], list[str]]:
    return lambda text: [parse(part.strip()) for part in text.split(",") if part.strip()]


_ROWS: tuple[tuple[Callable[[str], Any], str | None, str], ...] = (
    (
        _number,
        "0",
        "VLLM_CPU_SGL_KERNEL VLLM_DISABLE_PAD_FOR_CUDAGRAPH VLLM_ENABLE_MOE_ALIGN_BLOCK_SIZE_TRITON "
        "VLLM_FLASHINFER_DISABLE_Q_QUANTIZATION VLLM_FLASHINFER_FORCE_TENSOR_CORES VLLM_FLAT_LOGPROBS "
        "VLLM_GPT_OSS_USE_CONTAINER_TOOL VLLM_KIMI_K3_GEMM_RS VLLM_NO_DEPRECATION_WARNING VLLM_QUARK_EMU_MEM_OPT "
        "VLLM_SKIP_DEEP_GEMM_WARMUP VLLM_SLEEP_WHEN_IDLE VLLM_TEST_USE_PRECOMPILED_NIGHTLY_WHEEL "
        "VLLM_USE_CUDNN_PREFILL VLLM_USE_DEEP_GEMM_E8M0_HOPPER VLLM_USE_FBGEMM VLLM_USE_FLASHINFER_MOE_FP16 "
        "VLLM_USE_FLASHINFER_MOE_FP4 VLLM_USE_FLASHINFER_MOE_FP8 VLLM_USE_FLASHINFER_MOE_MXFP4_BF16 "
        "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS "
        "VLLM_USE_NVFP4_CT_EMULATIONS VLLM_USE_RAY_COMPILED_DAG VLLM_USE_RAY_SPMD_WORKER VLLM_USE_TRTLLM_FP4_GEMM "
        "VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL VLLM_XPU_ENABLE_XPU_GRAPH",
    ),
    (
        _number,
        "1",
        "VLLM_CPU_MOE_PREPACK VLLM_ENABLE_FUSED_MOE_ACTIVATION_CHUNKING VLLM_ENABLE_MOE_DP_CHUNK VLLM_PLE_CPU_OFFLOAD",
    ),
    (_number, None, "VLLM_MXFP4_USE_MARLIN"),
    (
        _word,
        "0",
        "AITER_SITUV2_A8W4 VLLM_DISABLE_NCCL_FOR_DP_SYNCHRONIZATION VLLM_MORIIO_CONNECTOR_READ_MODE "
        "VLLM_ROCM_USE_AITER_FP4_ASM_GEMM VLLM_ROCM_USE_AITER_MOE_SITUV2_A8W4 VLLM_ROCM_USE_AITER_PAGED_ATTN "
        "VLLM_ROCM_USE_TRITON_ROPE VLLM_USE_AITER_UNIFIED_ATTENTION VLLM_V1_USE_PREFILL_DECODE_ATTENTION "
        "VLLM_HPU_USE_DELAYED_SAMPLING=VLLM_DELAYED_SAMPLING",
    ),
    (
        _word,
        "1",
        "VLLM_ROCM_CUSTOM_PAGED_ATTN VLLM_USE_TRITON_FLASH_ATTN VLLM_USE_HPU_CONTIGUOUS_CACHE_FETCH=VLLM_CONTIGUOUS_PA",
    ),
    (_word_amid_spaces, "0", "VLLM_TEST_FORCE_FP8_MARLIN"),
    (_one, "0", "VLLM_CI_USE_S3 VLLM_DISABLE_FLASHINFER_PREFILL VLLM_V0_USE_OUTLINES_CACHE"),
    (
        _not_zero,
        "0",
        "VLLM_TEST_STANDALONE_COMPILE VLLM_TORCH_CUDA_PROFILE VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM "
        "VLLM_TORCH_PROFILER_RECORD_SHAPES VLLM_TORCH_PROFILER_WITH_FLOPS VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY",
    ),
    (
        _not_zero,
        "1",
        "VLLM_TEST_DYNAMO_FULLGRAPH_CAPTURE VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL VLLM_TORCH_PROFILER_USE_GZIP "
        "VLLM_TORCH_PROFILER_WITH_STACK",
    ),
    (_one_zero_or_neither, None, "VLLM_TRITON_ATTN_USE_TD"),
    (int, "-1", "VLLM_MORIIO_POST_BATCH_SIZE"),
    (int, "0", "VLLM_PROFILER_DELAY_ITERS VLLM_PROFILER_MAX_ITERS VLLM_TPU_BUCKET_PADDING_GAP"),
    (int, "1", "VLLM_MORIIO_NUM_WORKERS VLLM_MORIIO_QP_PER_TRANSFER"),
    (int, "4", "VLLM_MM_INPUT_CACHE_GIB"),
    (int, "32", "VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH VLLM_NIXL_EP_MAX_NUM_RANKS"),
    (int, "60", "VLLM_ENGINE_ITERATION_TIMEOUT_S"),
    (int, "100", "V_SCALE_CONSTANT"),
    (int, "120", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"),
    (int, "200", "K_SCALE_CONSTANT Q_SCALE_CONSTANT"),
    (int, "256", "VLLM_MOE_DP_CHUNK_SIZE"),
    (int, "10000", "VLLM_RPC_TIMEOUT"),
    (int, "32768", "VLLM_FUSED_MOE_CHUNK_SIZE"),
    (
        int,
        None,
        "VLLM_FLASH_ATTN_VERSION VLLM_LOGITS_PROCESSOR_THREADS VLLM_PREFIX_CACHE_RETENTION_INTERVAL "
        "VLLM_TPU_MOST_MODEL_LEN",
    ),
    (str, None, "VLLM_ATTENTION_BACKEND VLLM_USE_TRTLLM_ATTENTION VLLM_USE_TRTLLM_DECODE_ATTENTION"),
    (str, "naive", "VLLM_ALL2ALL_BACKEND"),
    (str, "throughput", "VLLM_FLASHINFER_MOE_BACKEND"),
    (os.path.expanduser, None, "VLLM_TORCH_PROFILER_DIR"),
    (json.loads, "{}", "VLLM_FLASHINFER_ALLREDUCE_FUSION_THRESHOLDS_MB"),
    (_among("blake3 sha256 sha512", any_case=True), "blake3", "VLLM_MM_HASHER_ALGORITHM"),
    (
        _among("flashinfer-b12x flashinfer-cudnn flashinfer-trtllm flashinfer-cutlass cutlass marlin emulation"),
        None,
        "VLLM_NVFP4_GEMM_BACKEND",
    ),
    (_several(_among("container code_interpreter web_search_preview")), "", "GPT_OSS_SYSTEM_TOOL_MCP_LABELS"),
)
"""Parser, default, names; `NAME=OTHER` where the environment calls it otherwise."""


def _readings() -> Iterator[tuple[str, Reading]]:
    for parse, default, names in _ROWS:
        for name in names.split():
            own, _, other = name.partition("=")
            yield own, Reading(parse, default, other or own)


READINGS: Mapping[str, Reading] = dict(_readings())


def reading(name: str) -> Reading | None:
    """How a variable was read: as a text where the table does not know it; None for what is no variable."""
    return READINGS.get(name) or (Reading(str, None, name) if name.isupper() else None)
