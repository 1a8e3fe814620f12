"""The choice of a kernel: when, why, and what is said; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import v1_cpu
from v1_cpu import native, select
from v1_cpu.kernels import KernelUnavailable

ROOT = Path(__file__).parents[2]


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script with this checkout importable."""
    setting = {k: v for k, v in os.environ.items() if k not in ("V1_CPU_KERNEL", "PYTHONWARNINGS")}
    setting["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, "-c", code], env={**setting, **env}, text=True, capture_output=True, timeout=120, check=False
    )


def test_importing_loads_no_torch_and_resolving_no_kernel_no_vllm_and_no_ipex() -> None:
    """vllm #19494: an import must not run an instruction the machine lacks."""
    seen = python(
        "import sys, v1_cpu; assert 'torch' not in sys.modules; v1_cpu.paged_attention\n"
        "print(sorted(m for m in sys.modules if 'kernel' in m and m.startswith('v1_cpu.kernels.')"
        " or m.split('.')[0] in ('vllm', 'intel_extension_for_pytorch')))"
    )
    assert seen.stdout.strip() == "[]", seen.stderr


def test_the_environment_overrides_and_is_the_reason() -> None:
    done = python(
        "import v1_cpu; c = v1_cpu.which(); print(c.name, c.layout, c.isa, c.reason, sep='|')", V1_CPU_KERNEL="torch"
    )
    name, layout, isa, reason = done.stdout.strip().split("|")
    assert (name, layout, reason) == ("torch", "row", "V1_CPU_KERNEL=torch")
    assert isa
    assert done.stderr == ""


def test_an_unknown_kernel_in_the_environment_is_refused_by_name() -> None:
    done = python("import v1_cpu; v1_cpu.which()", V1_CPU_KERNEL="cuda")
    assert "ValueError: V1_CPU_KERNEL=cuda: must be one of native, torch, ipex" in done.stderr


def test_a_kernel_that_cannot_be_loaded_is_refused_with_its_reason() -> None:
    code = "import sys; sys.modules['v1_cpu.kernels.native_kernel'] = None\nimport v1_cpu; v1_cpu.which()"
    done = python(code, V1_CPU_KERNEL="native")
    assert "NotImplementedError: V1_CPU_KERNEL=native: " in done.stderr


def test_without_a_native_kernel_torch_serves_and_says_so_once() -> None:
    done = python(
        "import sys; sys.modules['v1_cpu.kernels.native_kernel'] = None\n"
        "import torch, v1_cpu\n"
        "for _ in range(3): v1_cpu.allocate_kv_cache(1, 4, 1, 8, torch.float32); print(v1_cpu.which())\n"
        "print(v1_cpu.PagedAttention.__name__)"
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("torch kernel (")
    assert "no native kernel" in lines[0]
    assert lines[-1] == "_PagedAttention"
    assert done.stderr.count("no native kernel") == 1, done.stderr


@pytest.mark.parametrize("name", sorted(v1_cpu.__all__))
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(v1_cpu, name) is not None
    assert name in dir(v1_cpu)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'paged_attenton'"):
        _ = v1_cpu.paged_attenton


def test_paged_attention_is_the_class_of_the_chosen_kernel() -> None:
    assert v1_cpu.PagedAttention.name == v1_cpu.which().name
    assert v1_cpu._PagedAttention.name == "torch"


def test_the_choice_prints_as_a_sentence() -> None:
    choice = select.KernelChoice("torch", "avx2", "row", "because")
    assert str(choice) == "torch kernel (avx2, layout row): because"


def test_every_kernel_class_says_its_name_and_layout(kernel: str) -> None:
    found = select.get_kernel(kernel)
    assert found.name == kernel
    assert found.layout == "row"
    assert found.isa


def test_a_folder_without_a_library_is_named_and_what_it_shadows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "sources" / "v1_cpu" / "libv1_cpu.so")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed")])
    with pytest.raises(KernelUnavailable, match=r"sources.v1_cpu, which .* without a C\+\+ compiler"):
        native.instruction_sets()
    (tmp_path / "installed" / "v1_cpu").mkdir(parents=True)
    (tmp_path / "installed" / "v1_cpu" / "libv1_cpu.so").touch()
    with pytest.raises(KernelUnavailable, match=r"shadows the installed copy in .*installed.v1_cpu"):
        native.instruction_sets()
