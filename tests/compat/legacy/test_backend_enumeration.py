"""`_Backend` is one enumeration, level with the one that vLLM has."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from v1_compat.legacy.platform_backend import _Backend

AttentionBackendEnum = enum.Enum(
    "AttentionBackendEnum",
    {name: f"path.{name}" for name in ("FLASH_ATTN", "TRITON_MLA", "TORCH_SDPA", "CPU_ATTN", "FLEX_ATTENTION")},
    module="vllm.v1.attention.backends.registry",
)
Other = enum.Enum("Other", ["FLASH_ATTN"], module=__name__)


@pytest.mark.parametrize(
    ("ours", "theirs", "level"),
    [
        ("FLASH_ATTN", "FLASH_ATTN", True),
        ("FLASH_ATTN_VLLM_V1", "FLASH_ATTN", True),
        ("TRITON_MLA_VLLM_V1", "TRITON_MLA", True),
        ("TORCH_SDPA", "TORCH_SDPA", True),
        ("TORCH_SDPA", "CPU_ATTN", True),
        ("FLASH_ATTN", "CPU_ATTN", False),
        ("XFORMERS", "FLASH_ATTN", False),
    ],
)
def test_a_member_is_equal_to_vllms_for_the_same_backend(ours: str, theirs: str, level: bool) -> None:
    mine, vllms = _Backend[ours], AttentionBackendEnum[theirs]
    assert (mine == vllms, vllms == mine, mine != vllms) == (level, level, not level)
    if theirs != "CPU_ATTN":
        assert ({vllms: 1}.get(mine), {mine: 1}.get(vllms)) == ((1, 1) if level else (None, None))
    assert isinstance(vllms, _Backend)


def test_members_are_equal_to_nothing_else() -> None:
    assert _Backend.FLASH_ATTN != _Backend.FLASH_ATTN_VLLM_V1
    assert len(set(_Backend)) == len(_Backend)
    assert _Backend.FLASH_ATTN != Other.FLASH_ATTN and not isinstance(Other.FLASH_ATTN, _Backend)
    assert _Backend.FLASH_ATTN != "FLASH_ATTN" and _Backend.FLASH_ATTN is not None


def test_a_name_that_is_no_member_is_answered_with_advice() -> None:
    with pytest.raises(AttributeError, match=r"_Backend\.CPU_ATTN: .*AttentionBackendEnum"):
        _ = _Backend.CPU_ATTN
    assert not hasattr(_Backend, "CPU_ATTN")


def test_it_is_one_wherever_it_is_imported_from(tmp_path: Path, child: Callable[..., Any], small_vllm: Path) -> None:
    modules = ["platforms", "platforms.interface", "platforms.cpu", "attention.selector", "attention.backends.registry"]
    lines = [f"from vllm.{module} import _Backend as b{i}" for i, module in enumerate(modules)]
    code = "\n".join(
        [
            "import v1_compat; v1_compat.install()",
            *lines,
            "import vllm.attention.selector as s",
            "print(b0 is b1 is b2 is b3 is b4)",
        ]
    )
    (tmp_path / "app.py").write_text(
        f"{code}\nprint(s.backend_name_to_enum('XFORMERS') is b0.XFORMERS, b0.FLASH_ATTN_VLLM_V1.name)\n"
    )
    done = child(["app.py"], small_vllm, cwd=tmp_path, V1_COMPAT="warn")
    assert done.stdout == "True\nTrue FLASH_ATTN_VLLM_V1\n", done.stderr
