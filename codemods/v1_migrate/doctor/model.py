"""What a model's config.json says about its attention, read here when the model is a folder on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ALIBI = ("bloom", "mpt", "falcon-rw", "baichuan-13b")
_SINKS = ("gpt_oss",)
_LATENT = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")


@dataclass(frozen=True, slots=True)
class Model:
    """The facts that CPU releases differ in."""

    name: str
    architecture: str = ""
    head_size: int | None = None
    sliding_window: int | None = None
    all_windowed: bool = False  # no layer attends to everything
    soft_cap: float | None = None
    alibi: bool = False
    mla: bool = False
    encoder_decoder: bool = False
    sinks: bool = False
    chunk_size: int | None = None
    dtype: str = ""
    latent: tuple[int, int, int, int] | None = None  # rank, and numbers of a head with rope, without, and of a value
    plain_rope: bool = False  # positions are turned without scaling
    sparse: bool = False  # an indexer picks what latents are attended to
    own_layers: bool = False  # DeepSeek-V4: vLLM's CPU layers for it ask for no backend

    def features(self) -> list[str]:
        """Rows of the capability table that this model needs."""
        wanted = {
            "sliding-window": self.sliding_window is not None,
            "soft-cap": self.soft_cap is not None,
            "alibi": self.alibi,
            "mla": self.mla,
            "cross-attention": self.encoder_decoder,
            "sinks": self.sinks,
            "chunked-local": self.chunk_size is not None,
        }
        return [feature for feature, needed in wanted.items() if needed]


def read(name: Any) -> Model | None:
    """The model in a folder; None for a name of the hub. Raises ValueError for a folder without a readable config."""
    if not isinstance(name, str) or not Path(name).expanduser().is_dir():
        return None
    path = Path(name).expanduser() / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; a model's folder has a config.json") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is no JSON object")
    return from_config(name, config)


def from_config(name: str, config: Mapping[str, Any]) -> Model:
    """As `read`, of a parsed config.json; a multimodal model's text part counts."""
    text = config.get("text_config")
    part: Mapping[str, Any] = {**config, **text} if isinstance(text, Mapping) else config
    kind = str(part.get("model_type", "")).lower()
    architectures = config.get("architectures") or [""]
    heads = next((part[key] for key in ("num_attention_heads", "n_head", "n_heads") if part.get(key)), None)
    hidden = part.get("hidden_size") or part.get("n_embed") or part.get("d_model")
    latent = tuple(part.get(key) or 0 for key in _LATENT)
    own_layers = kind.startswith("deepseek_v4")
    rope = part.get("rope_parameters") or part.get("rope_scaling") or {}
    window = part.get("sliding_window") if part.get("use_sliding_window", True) else None
    layers = part.get("layer_types") or (["sliding_attention"] if kind in ("mistral", "mixtral") else [])
    return Model(
        name=name,
        architecture=str(architectures[0]),
        head_size=part.get("head_dim") or (hidden // heads if hidden and heads else None),
        sliding_window=window,
        all_windowed=window is not None and set(layers) == {"sliding_attention"},
        soft_cap=part.get("attn_logit_softcapping"),
        alibi=kind in _ALIBI or bool(part.get("alibi")) or bool((part.get("attn_config") or {}).get("alibi")),
        mla=part.get("kv_lora_rank") is not None,
        encoder_decoder=bool(config.get("is_encoder_decoder")),
        sinks=kind in _SINKS,
        chunk_size=part.get("attention_chunk_size"),
        dtype=str(part.get("dtype") or part.get("torch_dtype") or "").removeprefix("torch."),
        latent=(latent[0], latent[1], latent[2], latent[3]) if all(latent) else None,
        plain_rope=(rope.get("rope_type") or rope.get("type") or "default") == "default",
        sparse=part.get("index_topk") is not None and not own_layers,
        own_layers=own_layers,
    )
