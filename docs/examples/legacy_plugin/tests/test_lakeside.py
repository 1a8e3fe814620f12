"""Tests of the V0 plugin, with the markers that V0 needed."""

import os
from unittest import mock

import pytest
from vllm.attention.selector import get_attn_backend

from lakeside.metadata import prefill_metadata


@pytest.fixture(autouse=True)
def v0(monkeypatch):
    with monkeypatch.context() as m:
        m.setenv("VLLM_USE_V1", "0")
        yield


@pytest.mark.skip_v1
@pytest.mark.cpu_model
def test_metadata_counts_tokens():
    metadata = prefill_metadata([3, 5])
    assert metadata.num_prefill_tokens == 8


@pytest.mark.skipif(os.getenv("VLLM_USE_V1", "0") == "1", reason="CPU V1 has no sliding window")
def test_backend():
    import torch

    # v1: ignore[V1M003] the signature is the same on every release that we serve
    backend = get_attn_backend(64, torch.bfloat16, None, 16, False)
    assert backend.get_name() == "TORCH_SDPA"


@mock.patch("vllm.worker.worker_base.WorkerWrapperBase.init_worker", return_value=None)
@mock.patch("vllm.worker.cpu_worker.CPUWorker.load_model", return_value=None)
def test_worker_starts_without_a_model(load_model, init_worker):
    from lakeside.worker import LakesideWorker

    assert LakesideWorker.load_model is load_model
