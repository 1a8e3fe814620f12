"""Compares what two engines answered."""

from __future__ import annotations

from typing import Any

import pytest

TIE = 1e-4  # two best logits closer than this may swap


def check_who_served(own: dict[str, Any], ours: dict[str, Any]) -> None:
    """Each side ran on the backend it should have."""
    assert "error" not in own, own["error"]
    assert "error" not in ours, ours["error"]
    assert not [name for name in own["impl"] if name.startswith("v1_cpu.")]
    assert [name for name in ours["impl"] if name.startswith("v1_cpu.vllm_plugin.backend_")]
    assert "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackendImpl" not in ours["impl"]


def check_same(own: dict[str, Any], ours: dict[str, Any], tolerance: float, tie: float = TIE) -> None:
    """Answers of the two backends: equal tokens and near log probabilities, or near embeddings."""
    check_who_served(own, ours)
    if "embeddings" in own:
        check_embeddings(own["embeddings"], ours["embeddings"], tolerance)
    else:
        check_answers(own["answers"], ours["answers"], tolerance, tie)


def check_embeddings(own: list[list[float]], ours: list[list[float]], tolerance: float) -> None:
    assert len(own) == len(ours) > 0
    for a, b in zip(own, ours, strict=True):
        assert a == pytest.approx(b, abs=tolerance)


def check_answers(own: list[dict[str, Any]], ours: list[dict[str, Any]], tolerance: float, tie: float = TIE) -> None:
    """Equal tokens up to a tie of the two best logits; equal log probabilities up to there."""
    assert len(own) == len(ours) > 0
    for a, b in zip(own, ours, strict=True):
        for step, (want, got) in enumerate(zip(a["tokens"], b["tokens"], strict=True)):
            if want != got:
                best, second = a["logprobs"][step]
                assert best - second < tie, f"token {step}: {want} became {got}, and it was no tie"
                break
            assert a["logprobs"][step] == pytest.approx(b["logprobs"][step], abs=tolerance)


def distance(exact: list[dict[str, Any]], answers: list[dict[str, Any]]) -> float:
    """Root mean square of what log probabilities lost to few bits: of all prompt tokens, and of the best token of each
    step up to where the answers part."""
    assert len(exact) == len(answers) > 0
    lost: list[float] = []
    for a, b in zip(exact, answers, strict=True):
        lost += [x - y for x, y in zip(a["prompt"], b["prompt"], strict=True)]
        for want, got, p, q in zip(a["tokens"], b["tokens"], a["logprobs"], b["logprobs"], strict=True):
            lost.append(p[0] - q[0])
            if want != got:
                break
    return float((sum(x * x for x in lost) / len(lost)) ** 0.5)
