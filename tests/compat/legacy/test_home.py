"""With vLLM installed, the base classes are vLLM's own, or derive from them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from v1_compat.legacy import abstract, home, torch_sdpa
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import V0Driver, run
from v1_compat.suite.reference import Layer, assert_close


@pytest.fixture
def vllm_home() -> Any:
    found = home.attention_home()
    if found is None:
        pytest.skip("no vLLM is installed")
    return found


@pytest.mark.parametrize("name", ["AttentionType", "AttentionImpl", "AttentionLayer"])
def test_where_the_contract_is_the_same_so_is_the_object(vllm_home: Any, name: str) -> None:
    assert getattr(abstract, name) is getattr(vllm_home, name)


def test_where_it_is_not_the_class_derives_from_vllms(vllm_home: Any) -> None:
    assert issubclass(abstract.AttentionBackend, vllm_home.AttentionBackend)
    assert issubclass(torch_sdpa.TorchSDPABackend, vllm_home.AttentionBackend)
    assert issubclass(torch_sdpa.TorchSDPAMetadata, vllm_home.AttentionMetadata)
    assert issubclass(torch_sdpa.TorchSDPABackendImpl, vllm_home.AttentionImpl)

    class Own(vllm_home.AttentionBackend):  # type: ignore[misc]
        pass

    assert issubclass(Own, abstract.AttentionBackend)
    assert not issubclass(Own, torch_sdpa.TorchSDPABackend)


def test_a_batch_is_computed_under_vllms_base_classes(vllm_home: Any) -> None:
    layer = Layer(dtype=torch.bfloat16, attn_type=abstract.AttentionType.DECODER)
    batch = Batch.of(layer, (0, 6), (20, 1))
    assert_close(run(V0Driver(torch_sdpa.TorchSDPABackend), layer, batch), batch.expected(layer), layer.dtype)


def test_a_vllm_that_cannot_be_imported_is_said_and_left_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "vllm" / "v1" / "attention"
    folder.mkdir(parents=True)
    for package in (tmp_path / "vllm", tmp_path / "vllm" / "v1", folder):
        (package / "__init__.py").touch()
    (folder / "backend.py").write_text("raise RuntimeError('built for another torch')\n")
    for name in [n for n in sys.modules if n.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert home.attention_home.__wrapped__() is None
    assert "built for another torch" in caplog.text
    for name in [n for n in sys.modules if n.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("homes", "expected"),
    [
        pytest.param(
            {"v1.attention.backend": True, "attention.backends.abstract": True}, "v1", id="V1's, where both are"
        ),
        pytest.param({"attention.backends.abstract": True}, "attention", id="V0's, where it is alone"),
        pytest.param({"v1.attention.backend": False}, None, id="none, where the module is another one by that name"),
    ],
)
def test_the_home_is_the_module_that_has_the_base_class(
    homes: dict[str, bool], expected: str | None, tmp_path: Path
) -> None:
    for dotted, has_it in homes.items():
        path = tmp_path / "vllm" / (dotted.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("class AttentionBackend: ...\n" if has_it else "class Other: ...\n")
    for folder in [tmp_path / "vllm", *(p for p in (tmp_path / "vllm").rglob("*") if p.is_dir())]:
        (folder / "__init__.py").touch()
    found = fresh(
        "from v1_compat.legacy.home import attention_home as h; print(getattr(h(), '__name__', None))", tmp_path
    )
    assert (found.split(".")[1] if "." in found else None) == expected


def test_a_stand_in_for_vllm_is_no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))  # without a spec
    assert home.attention_home.__wrapped__() is None
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert home.attention_home.__wrapped__() is None


OLDER = """
from abc import ABC
from dataclasses import dataclass
from typing import Any, Generic, TypeVar


class AttentionType:
    DECODER, ENCODER, ENCODER_ONLY, ENCODER_DECODER = "decoder", "encoder", "encoder_only", "encoder_decoder"


class AttentionBackend(ABC):
    pass


@dataclass
class AttentionMetadata:
    num_prefills: int
    num_prefill_tokens: int
    num_decode_tokens: int
    slot_mapping: Any
    multi_modal_placeholder_index_maps: Any
    enable_kv_scales_calculation: bool


class AttentionLayer:
    pass


T = TypeVar("T")


class AttentionImpl(ABC, Generic[T]):
    pass
"""


def fresh(code: str, *paths: Path) -> str:
    """What `code` prints in a process of its own."""
    path = os.pathsep.join([*map(str, paths), *(p for p in sys.path if p)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_over_the_dataclass_of_0_10_the_fields_keep_v0s_order(tmp_path: Path) -> None:
    folder = tmp_path / "vllm" / "attention" / "backends"
    folder.mkdir(parents=True)
    for package in (tmp_path / "vllm", tmp_path / "vllm" / "attention", folder):
        (package / "__init__.py").touch()
    (folder / "abstract.py").write_text(OLDER)
    code = (
        "import inspect, vllm.attention.backends.abstract as theirs\n"
        "from v1_compat.legacy import abstract, torch_sdpa\n"
        "assert abstract.AttentionType is theirs.AttentionType\n"
        "assert issubclass(torch_sdpa.TorchSDPAMetadata, theirs.AttentionMetadata)\n"
        "print(*inspect.signature(torch_sdpa.TorchSDPAMetadata).parameters)"
    )
    assert fresh(code, tmp_path).split() == list(inspect.signature(torch_sdpa.TorchSDPAMetadata).parameters)


def test_v1s_classes_are_v0s_before_any_backend_is_imported() -> None:
    code = (
        "import v1_cpu\nfrom v1_compat.legacy import abstract\n"
        "print(issubclass(v1_cpu.TorchSDPABackend, abstract.AttentionBackend), "
        "isinstance(v1_cpu.TorchSDPAMetadata(), abstract.AttentionMetadata), issubclass(int, abstract.AttentionBackend))"
    )
    assert fresh(code) == "True True False"
