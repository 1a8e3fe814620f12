"""Makes tiny random-weight models for the engine tests: `python models.py FOLDER NAME...`, one folder per model.

Weights are drawn wide, so that attention is sharp and a dropped window, cap or bias changes tokens. `NAME-mild` is the
same model with weights of a usual width, which do not magnify the rounding of bfloat16.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
import transformers

VOCAB = 256
WIDE, MILD = 0.15, 0.04
SECONDS = 2  # of sound that Whisper's encoder hears
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 128,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "initializer_range": WIDE,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GQA = {**SMALL, "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": False}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**GQA)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**{**GQA, "num_key_value_heads": 1})),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**GQA, sliding_window=24)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            **{**GQA, "tie_word_embeddings": True},
            sliding_window=24,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=None,
            query_pre_attn_scalar=8,
        )
    ),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(**GQA, sliding_window=24, query_pre_attn_scalar=32, sliding_window_pattern=2)
    ),
    "bloom": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(
            vocab_size=VOCAB,
            hidden_size=128,
            n_layer=4,
            n_head=4,
            initializer_range=WIDE,
            bos_token_id=0,
            eos_token_id=1,
        )
    ),
    "gptoss": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**GQA, sliding_window=24, num_local_experts=4, num_experts_per_tok=2)
    ),
    "gemma4": lambda: transformers.Gemma4ForCausalLM(
        transformers.Gemma4TextConfig(
            **{**GQA, "num_hidden_layers": 4, "head_dim": 32},
            global_head_dim=64,
            hidden_size_per_layer_input=0,
            vocab_size_per_layer_input=VOCAB,
            num_kv_shared_layers=2,
            layer_types=["sliding_attention", "full_attention"] * 2,
            sliding_window=24,
        )
    ),
    "llama4": lambda: transformers.Llama4ForCausalLM(
        transformers.Llama4TextConfig(
            **GQA,
            intermediate_size_mlp=160,
            interleave_moe_layer_step=0,
            moe_layers=[],
            no_rope_layers=[1, 0, 1, 0],
            attention_chunk_size=64,
            num_local_experts=1,
        )
    ),
    "whisper": lambda: transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=VOCAB + 2,
            d_model=128,
            encoder_layers=2,
            decoder_layers=4,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=160,
            decoder_ffn_dim=160,
            max_source_positions=50 * SECONDS,
            max_target_positions=448,
            init_std=WIDE,
            decoder_start_token_id=VOCAB,
            bos_token_id=VOCAB + 1,
            eos_token_id=VOCAB + 1,
            pad_token_id=VOCAB + 1,
        )
    ),
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
}


def make(folder: Path, name: str) -> None:
    """Save one model; the same weights on every machine with this torch."""
    kind, _, width = name.partition("-")
    torch.manual_seed(sum(kind.encode()))
    model = MODELS[kind]()
    (soften if width else sharpen)(model)
    model.eval().save_pretrained(folder / name)
    if kind == "whisper":
        save_processor(folder / name)
        return
    words = {f"w{i}": i for i in range(VOCAB - 1)} | {"[UNK]": VOCAB - 1}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    names = {"unk_token": "[UNK]", "pad_token": "w2", "eos_token": "w1"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder / name)
    if name == "llama":
        make_lora(folder / "lora", model.config)


def save_processor(folder: Path) -> None:
    """What Whisper needs beside its weights: bytes as words, and mel bands of short sounds."""
    words = {letter: i for i, letter in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = transformers.WhisperTokenizer(
        vocab=words | {"<|startoftranscript|>": VOCAB, "<|endoftext|>": VOCAB + 1}, merges=[]
    )
    features = transformers.WhisperFeatureExtractor(chunk_length=SECONDS)
    transformers.WhisperProcessor(features, tokenizer).save_pretrained(folder)


def sharpen(model: torch.nn.Module) -> None:
    """Let attention decide the tokens: with tied weights the last token would only repeat itself."""
    for key, weight in model.named_parameters():
        if key.endswith("post_attention_layernorm.weight") and "Gemma" in type(model).__name__:
            torch.nn.init.constant_(weight, 6.0)
        elif key.endswith("embed_tokens.weight") and "Gemma2" in type(model).__name__:
            weight.data *= 0.1
    draw_sinks(model)


def soften(model: torch.nn.Module) -> None:
    """Draw the matrices narrower, ask every expert, and let no logit grow with the head size (Gemma 4 has no scale)."""
    for key, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.data *= MILD / WIDE
        elif key.endswith("q_norm.weight") and "Gemma4" in type(model).__name__:
            weight.data *= 0.15
    if hasattr(model.config, "num_experts_per_tok"):
        model.config.num_experts_per_tok = model.config.num_local_experts
    draw_sinks(model)


def draw_sinks(model: torch.nn.Module) -> None:
    """Sinks are no part of the initial weights: large enough here to take much of the attention."""
    for key, weight in model.named_parameters():
        if key.endswith("sinks"):
            torch.nn.init.uniform_(weight, 0.0, 4.0)


def make_lora(folder: Path, config: Any) -> None:
    """A rank-4 adapter of the query and value projections, in PEFT's files."""
    weights = {}
    for layer in range(config.num_hidden_layers):
        for projection, width in (("q_proj", config.num_attention_heads), ("v_proj", config.num_key_value_heads)):
            key = f"base_model.model.model.layers.{layer}.self_attn.{projection}"
            weights[f"{key}.lora_A.weight"] = torch.randn(4, config.hidden_size) * 0.1
            weights[f"{key}.lora_B.weight"] = torch.randn(width * config.head_dim, 4) * 0.3
    folder.mkdir()
    safetensors.torch.save_file(weights, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "v_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        make(Path(sys.argv[1]), wanted)
