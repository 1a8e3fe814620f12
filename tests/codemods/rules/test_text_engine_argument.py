"""V1M408: engine arguments in JSON and YAML files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import rewrite
from v1_migrate.discover import Kind
from v1_migrate.findings import Severity

SAID = [
    pytest.param('{"model": "m", "disable_log_requests": true}\n', Kind.JSON, 1, id="json"),
    pytest.param('{"a": [{"swap_space": 4, "model": "m"}]}\n', Kind.JSON, 1, id="inside"),
    pytest.param('{"model": "m", "device": "cpu", "swap_space": 4}\n', Kind.JSON, 1, id="beside a common name"),
    pytest.param("model: m\nswap-space: 4\nnum-scheduler-steps: 8\n", Kind.YAML, 2, id="yaml"),
    pytest.param("a:\n  - model: m\n    swap_space: 4\n---\nx: y\n", Kind.YAML, 1, id="yaml, inside"),
]
SILENT = [
    pytest.param('{"disable_log_requests": true}\n', Kind.JSON, id="no model"),
    pytest.param('{"model": "m", "deep": {"swap_space": 4}}\n', Kind.JSON, id="the model of another mapping"),
    pytest.param('{"model": "m", "max_model_len": 4, "x": "swap_space:"}\n', Kind.JSON, id="what is there"),
    pytest.param('{"model": "m", "swap_space": 4\n', Kind.JSON, id="no JSON"),
    pytest.param("model: [m\nswap_space: 4\n", Kind.YAML, id="no YAML"),
    pytest.param("model: m\nbase_url: x\nswap_space: 4\n", Kind.TOML, id="another kind of file"),
]


@pytest.mark.parametrize(("text", "kind", "count"), SAID)
def test_a_lost_argument_is_a_warning(text: str, kind: Kind, count: int) -> None:
    said = rewrite(text, "0.32.0", kind=kind).said("V1M408")
    assert [found.severity for found in said] == [Severity.WARNING] * count
    assert rewrite(text, "0.10.0", kind=kind).said("V1M408") == [] or "scheduler" in text


@pytest.mark.parametrize(("text", "kind"), SILENT)
def test_other_mappings_are_left_alone(text: str, kind: Kind) -> None:
    assert rewrite(text, "0.32.0", kind=kind).said("V1M408") == []


def test_a_file_that_does_not_name_vllm_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"model": "m", "disable_log_requests": true}\n')
    command = [sys.executable, "-m", "v1_migrate", "rewrite", str(tmp_path), "--check", "--target", "0.32.0"]
    assert "V1M408" in subprocess.run(command, capture_output=True, text=True).stdout
