"""What the plugin will be on V1."""

import vllm


def window(size: int | None) -> None:
    """Refuses a sliding window; `vllm` is at hand for its version."""
    if size is not None:
        raise NotImplementedError(f"vLLM {vllm.__version__}: a sliding window is not supported in V0.")
