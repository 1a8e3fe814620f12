"""Tests that ran on one engine or the other."""

import os

import pytest


@pytest.fixture(autouse=True)
def both(run_with_both_engines):
    """Every test of this file, twice."""


@pytest.mark.parametrize("use_v1", [True, False])
def test_environment_reaches_the_worker(use_v1, monkeypatch):
    monkeypatch.setenv("VLLM_USE_V1", "1" if use_v1 else "0")
    assert os.environ["VLLM_USE_V1"] in ("0", "1")


@pytest.mark.skipif(os.getenv("VLLM_USE_V1") == "0", reason="the lake is deeper on V1")
def test_depth():
    assert max(3, 5) == 5
