"""What the shim imports for itself is nobody's use of a legacy name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

LINES = [
    "from vllm.attention.backends.torch_sdpa import TorchSDPABackend",
    "from vllm.attention.selector import get_attn_backend",
    "from vllm.attention import AttentionType",
    "from vllm.platforms.interface import _Backend",
    "from vllm.attention.backends.cpu_mla import CPUMLABackend",
]


@pytest.mark.parametrize("line", LINES)
def test_one_line_is_one_use(small_vllm: Path, tmp_path: Path, child: Callable[..., Any], line: str) -> None:
    """In a process of its own: the shim imports its parts once."""
    (tmp_path / "app.py").write_text(f"import v1_compat; v1_compat.install()\n{line}\n")
    name = f"{line.split()[1]}.{line.split()[-1]}"
    child(["app.py"], small_vllm, cwd=tmp_path, V1_COMPAT="report", V1_COMPAT_REPORT=str(tmp_path / "uses.jsonl"))
    uses = [json.loads(text) for text in (tmp_path / "uses.jsonl").read_text().splitlines()]
    assert [use["name"] for use in uses if "name" in use] == [name]
    warned = child(["app.py"], small_vllm, cwd=tmp_path, V1_COMPAT="warn").stderr
    assert warned.count("Warning: V1M") == 1 and f"`{name}`" in warned
    raised = child(["app.py"], small_vllm, cwd=tmp_path, check=False, V1_COMPAT="error")
    assert raised.returncode and f"`{name}`" in raised.stderr.splitlines()[-1]


def test_a_part_is_whole_though_the_first_use_is_guarded(
    small_vllm: Path, tmp_path: Path, child: Callable[..., Any]
) -> None:
    """The adapter takes vllm.attention.ops.ipex_attn for itself, whatever `try` made it come."""
    (tmp_path / "app.py").write_text(
        "import v1_compat; v1_compat.install()\nimport sys\nimport vllm\n"
        "try:\n    from v1_compat.bridge.attention.backends.torch_sdpa import TorchSDPABackend as found\n"
        "except ImportError:\n    found = None\n"
        "print(found is not None, 'vllm.attention.ops.ipex_attn' in sys.modules)\n"
    )
    done = child(["app.py"], small_vllm, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True True\n", "")
