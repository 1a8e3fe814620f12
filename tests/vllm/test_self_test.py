"""The self-test before serving passes on a sound kernel and names what a broken one gets wrong."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from v1_cpu.vllm_plugin import self_test  # noqa: E402


@pytest.mark.parametrize("default", ["float32", "bfloat16", "float16"])
def test_a_sound_kernel_passes(default: str) -> None:
    """vLLM builds a model's layers with the model's dtype as torch's default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        assert self_test.fault() is None
    finally:
        torch.set_default_dtype(before)


def spoiled(monkeypatch: pytest.MonkeyPatch, function: str, **changes: Any) -> str | None:
    """The verdict on a kernel that ignores or changes an argument."""
    real = getattr(self_test, function)
    monkeypatch.setattr(self_test, function, lambda *args, **kwargs: real(*args, **{**kwargs, **changes}))
    return self_test.fault()


@pytest.mark.parametrize("function", ["paged_attention", "varlen_attention"])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"scale": 0.13}, id="a wrong scale"),
        pytest.param({"sliding_window": None}, id="a dropped window"),
        pytest.param({"sliding_window": 20}, id="a window too wide by one"),
        pytest.param({"logits_soft_cap": None}, id="a dropped soft cap"),
        pytest.param({"alibi_slopes": None}, id="dropped ALiBi"),
        pytest.param({"sinks": None}, id="dropped sinks"),
    ],
)
def test_a_broken_kernel_is_found(monkeypatch: pytest.MonkeyPatch, function: str, changes: dict[str, Any]) -> None:
    verdict = spoiled(monkeypatch, function, **changes)
    assert verdict is not None and "self-test" in verdict and "V1_CPU_KERNEL=torch" in verdict


@pytest.mark.parametrize("form", ["absorbed", "expanded"])
def test_a_broken_kernel_for_latents_is_found(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    real = self_test.mla_attention

    def broken(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs) * (1.1 if kwargs["form"] == form else 1.0)

    monkeypatch.setattr(self_test, "mla_attention", broken)
    assert f"latent ({form}) attention" in str(self_test.fault())


def test_not_a_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "paged_attention", lambda query, *a, **k: torch.full_like(query, torch.nan))
    assert self_test.fault() is not None


def test_a_wrong_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = self_test.write_kv_cache
    monkeypatch.setattr(self_test, "write_kv_cache", lambda key, value, *rest: real(value, key, *rest))
    assert self_test.fault() is not None


def test_a_kernel_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("illegal instruction set")

    monkeypatch.setattr(self_test, "paged_attention", broken)
    verdict = self_test.fault()
    assert verdict is not None and "RuntimeError: illegal instruction set" in verdict


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("function", ["paged_attention", "varlen_attention"])
def test_a_kernel_that_is_wrong_in_one_dtype_is_found(
    monkeypatch: pytest.MonkeyPatch, function: str, name: str
) -> None:
    real, dtype = getattr(self_test, function), getattr(torch, name)

    def wrong(query: Any, *args: Any, **kwargs: Any) -> Any:
        return real(query, *args, **kwargs) * (1.5 if query.dtype is dtype else 1.0)

    monkeypatch.setattr(self_test, function, wrong)
    verdict = self_test.fault()
    assert verdict is not None and name in verdict


@pytest.mark.parametrize("argument", ["sliding_window", "sinks"])
def test_what_only_bfloat16_ignores_is_found(monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
    real = self_test.paged_attention

    def wrong(query: Any, *args: Any, **kwargs: Any) -> Any:
        return real(query, *args, **{**kwargs, **({argument: None} if query.dtype is torch.bfloat16 else {})})

    monkeypatch.setattr(self_test, "paged_attention", wrong)
    assert self_test.fault() is not None


def test_a_float8_cache_that_is_read_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = self_test.paged_attention

    def wrong(query: Any, cache: Any, **kwargs: Any) -> Any:
        return real(query, cache, **kwargs, **({"v_scale": 2.0} if cache.dtype is torch.float8_e4m3fn else {}))

    monkeypatch.setattr(self_test, "paged_attention", wrong)
    verdict = self_test.fault()
    assert verdict is not None and "fp8" in verdict


def test_a_kernel_that_takes_blocks_in_their_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = self_test.paged_attention

    def wrong(*args: Any, block_table: Any, seq_lens: Any, **kwargs: Any) -> Any:
        needed = (seq_lens + 15) // 16
        first = needed.cumsum(0) - needed
        ordered = first[:, None] + torch.arange(block_table.shape[1])
        table = ordered.clamp(max=int(block_table.max())).int()
        return real(*args, block_table=table, seq_lens=seq_lens, **kwargs)

    monkeypatch.setattr(self_test, "paged_attention", wrong)
    assert self_test.fault() is not None
