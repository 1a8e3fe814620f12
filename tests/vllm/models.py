"""Makes tiny random-weight models for the engine tests: `python models.py FOLDER NAME...`, one folder per model.

Weights are drawn wide, so that attention is sharp and a dropped window, cap or bias changes tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers

VOCAB = 256
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 128,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "initializer_range": 0.15,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GQA = {**SMALL, "num_key_value_heads": 2, "head_dim": 32, "tie_word_embeddings": False}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**GQA)),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**GQA, sliding_window=24)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            **GQA, sliding_window=24, attn_logit_softcapping=2.0, final_logit_softcapping=None, query_pre_attn_scalar=32
        )
    ),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(**GQA, sliding_window=24, query_pre_attn_scalar=32, sliding_window_pattern=2)
    ),
    "bloom": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(
            vocab_size=VOCAB, hidden_size=128, n_layer=4, n_head=4, initializer_range=0.15, bos_token_id=0, eos_token_id=1
        )
    ),
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
}


def make(folder: Path, name: str) -> None:
    """Save one model; the same weights on every machine with this torch."""
    torch.manual_seed(sum(name.encode()))
    model = MODELS[name]()
    model.eval().save_pretrained(folder / name)


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        make(Path(sys.argv[1]), wanted)
