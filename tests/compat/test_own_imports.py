"""What the shim imports for itself is nobody's use of a legacy name, and nothing where no legacy name is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LINES = [
    "from vllm.attention.backends.torch_sdpa import TorchSDPABackend",
    "from vllm.attention.selector import get_attn_backend",
    "from vllm.attention import AttentionType",
    "from vllm.platforms.interface import _Backend",
    "from vllm.attention.backends.cpu_mla import CPUMLABackend",
]


VLLM = {  # asks for what is not there, as vLLM does
    "vllm/__init__.py": "from . import version\nfrom vllm import platforms\n"
    "def __getattr__(name):\n    raise AttributeError(name)\n",
    "vllm/version.py": "__version__ = '0.32.0'\n",
    "vllm/_version.py": "__version__ = version = '0.32.0'\n",
    "vllm/platforms/__init__.py": "try:\n    import vllm._moe_C\nexcept ImportError:\n    pass\n"
    "try:\n    from vllm.version import nothing\nexcept ImportError:\n    pass\n",
    "vllm/platforms/interface.py": "class Platform: ...\n",
    "vllm/utils/__init__.py": "",
    "vllm/worker.py": "",
}
APP = """
import sys
import vllm
from vllm import platforms, utils
from vllm.platforms import interface
import vllm.worker
read = sorted(m for m in sys.modules if m.startswith("v1_migrate"))
try:
    from vllm.utils import cdiv
except ImportError:
    pass
print(read, any(m.startswith("v1_migrate") for m in sys.modules))
"""


def test_who_uses_no_legacy_name_does_not_pay_for_the_index(tmp_path: Path, child: Callable[..., Any]) -> None:
    for name, text in {**VLLM, "app.py": APP}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert child(["-m", "v1_compat", "app.py"], cwd=tmp_path).stdout == "[] True\n", "read too early, or not at all"


@pytest.mark.parametrize("line", LINES)
def test_one_line_is_one_use(small_vllm: Path, tmp_path: Path, child: Callable[..., Any], line: str) -> None:
    """In a process of its own: the shim imports its parts once."""
    pytest.importorskip("torch")
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
    pytest.importorskip("torch")
    (tmp_path / "app.py").write_text(
        "import v1_compat; v1_compat.install()\nimport sys\nimport vllm\n"
        "try:\n    from v1_compat.bridge.attention.backends.torch_sdpa import TorchSDPABackend as found\n"
        "except ImportError:\n    found = None\n"
        "print(found is not None, 'vllm.attention.ops.ipex_attn' in sys.modules)\n"
    )
    done = child(["app.py"], small_vllm, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True True\n", "")
