"""The pages' examples run, and say what is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

PAGE = (Path(__file__).parents[2] / "docs" / "attention.md").read_text(encoding="utf-8")
LOOP, PLANNED = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_decode_loop_decodes_what_dense_attention_would() -> None:
    found: dict[str, Any] = {}
    exec(LOOP, found)
    tokens, embed, project = found["tokens"], found["embed"], found["project"]
    assert len(tokens) == 12
    for n in range(3, 12):
        q, k, v = (embed[tokens[:n]] @ project).unflatten(1, (-1, 16)).split([4, 2, 2], dim=1)
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0, :, -1]
        assert tokens[n] == int((embed @ out.flatten()).argmax())


def test_the_plan_gives_the_same_result() -> None:
    found: dict[str, Any] = {}
    exec(LOOP, found)
    before = found["out"]
    exec(PLANNED, found)
    assert found["out"] is not before
    assert torch.equal(found["out"], before)


def test_the_loop_is_short() -> None:
    body = LOOP.split("while", 1)[1].strip().splitlines()
    assert len(body) <= 14
