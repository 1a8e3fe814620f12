"""Runs the tests of the plugin on both engines, as long as there were two."""

import pytest


@pytest.fixture(params=[True, False])
def run_with_both_engines(request, monkeypatch):
    use_v1 = request.param
    if use_v1 and request.node.get_closest_marker("skip_v1"):
        pytest.skip("skipping this test on V1")
    monkeypatch.setenv("VLLM_USE_V1", "1" if use_v1 else "0")
    yield
