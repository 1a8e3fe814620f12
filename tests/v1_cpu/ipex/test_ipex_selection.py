"""IPEX absent, beside another torch, on another CPU, broken, usable: each with its reason, in a process of its own."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import standin

from v1_cpu.kernels.ipex_load import SIGNATURES

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
WHICH = "import v1_cpu; c = v1_cpu.which(); print(c.name, '|', c.reason)"
NO_NATIVE = (
    "import v1_cpu.kernels.native_kernel as n\nfrom v1_cpu.kernels import KernelUnavailable\n"
    "def absent(self): raise KernelUnavailable('no library')\nn._NativePagedAttention.__init__ = absent\n"
)
WORKING = "from standin import PagedAttention"


def install(folder: Path, version: str = "2.8.0", modules: str = WORKING, package: str = "") -> None:
    """A distribution of IPEX's name whose import does what `package` and `modules` say."""
    place = folder / "intel_extension_for_pytorch"
    (place / "llm").mkdir(parents=True)
    (place / "__init__.py").write_text(package)
    (place / "_C.py").write_text("def _get_current_isa_level(): return 'AVX512_BF16'")
    (place / "llm/__init__.py").write_text("")
    (place / "llm/modules.py").write_text(modules)
    info = folder / f"intel_extension_for_pytorch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: intel-extension-for-pytorch\nVersion: {version}\n")


def python(code: str, *folders: Path, torch_version: str = "2.8.0", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script beside a torch that says it is `torch_version`."""
    kept = {k: v for k, v in os.environ.items() if k not in ("V1_CPU_KERNEL", "PYTHONWARNINGS")}
    kept["PYTHONPATH"] = os.pathsep.join(map(str, (*folders, ROOT, HERE)))
    code = f"import torch; torch.__version__ = {torch_version!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code], env={**kept, **env}, text=True, capture_output=True, timeout=120, check=False
    )


OBSTACLES = [
    pytest.param({"version": "2.7.0"}, {}, "intel-extension-for-pytorch 2.7.0 is installed; the kernel is for 2.8.*", id="of another release"),
    pytest.param({}, {"torch_version": "2.13.0+cpu"}, "works with torch 2.8.* only, and torch 2.13.0+cpu is installed", id="beside another torch"),
    pytest.param({}, {"ATEN_CPU_CAPABILITY": "default"}, "needs a CPU with AVX2", id="on a CPU without AVX2"),
]  # fmt: skip
FAILURES = [
    pytest.param("print('ERROR! needs PyTorch 2.8.*'); import os; os.exit(127)", "(AttributeError: ERROR! needs PyTorch 2.8.* module 'os'", id="its version check dies"),
    pytest.param("import sys; sys.exit('only works with AVX2')", "(SystemExit: only works with AVX2)", id="its CPU check ends the process"),
    pytest.param("raise OSError('libintel.so: undefined symbol: x')", "(OSError: libintel.so: undefined symbol: x)", id="its library does not load"),
    pytest.param("raise RuntimeError('operator exists twice')", "(RuntimeError: operator exists twice)", id="it cannot register"),
]  # fmt: skip


@pytest.mark.parametrize(("installed", "setting", "reason"), OBSTACLES)
def test_obstacles_are_named_without_importing(
    installed: dict[str, str], setting: dict[str, str], reason: str, tmp_path: Path
) -> None:
    install(tmp_path, package="raise SystemExit('imported!')", **installed)
    done = python(WHICH, tmp_path, V1_CPU_KERNEL="ipex", **setting)
    assert "NotImplementedError: V1_CPU_KERNEL=ipex: " in done.stderr and reason in done.stderr, done.stderr
    assert done.stderr.rstrip().endswith("unset it or set it to torch")
    assert "imported!" not in done.stderr + done.stdout
    unasked = python(NO_NATIVE + WHICH, tmp_path, **setting)
    assert unasked.stdout.startswith("torch |") and reason in unasked.stdout, unasked.stderr


@pytest.mark.parametrize(("package", "reason"), FAILURES)
def test_an_import_that_fails_is_a_reason(package: str, reason: str, tmp_path: Path) -> None:
    install(tmp_path, package=package)
    done = python(WHICH, tmp_path, V1_CPU_KERNEL="ipex")
    assert f"importing intel_extension_for_pytorch failed {reason}" in done.stderr, done.stderr
    assert done.returncode == 1
    unasked = python(NO_NATIVE + WHICH, tmp_path)
    assert unasked.stdout.startswith("torch |") and reason in unasked.stdout, unasked.stderr
    assert unasked.stdout.count("\n") == 1, "what IPEX prints while it fails is in the reason, not on the screen"


def test_an_import_that_warns_is_taken_in_silence(tmp_path: Path) -> None:
    install(tmp_path, package="import warnings; warnings.warn('Overriding a registered kernel'); print('hello')")
    done = python(WHICH, tmp_path, V1_CPU_KERNEL="ipex")
    assert (done.stdout, done.stderr) == ("ipex | V1_CPU_KERNEL=ipex\n", "")


def test_absent_is_the_reason() -> None:
    code = "import importlib.metadata as m\ndef absent(name): raise m.PackageNotFoundError(name)\nm.version = absent\n"
    done = python(code + WHICH, V1_CPU_KERNEL="ipex")
    assert "V1_CPU_KERNEL=ipex: intel-extension-for-pytorch is not installed" in done.stderr


def test_another_signature_is_refused(tmp_path: Path) -> None:
    changed = "class PagedAttention:\n    @staticmethod\n    def reshape_and_cache(key, value): ...\n"
    install(tmp_path, modules=changed)
    done = python(WHICH, tmp_path, V1_CPU_KERNEL="ipex")
    assert "reshape_and_cache takes (key value) and not (key value key_cache" in done.stderr


def test_beside_the_native_kernel_it_is_mentioned_and_not_imported(tmp_path: Path) -> None:
    install(tmp_path, package="raise SystemExit('imported!')")
    native = "from v1_cpu import select; select.unavailable = lambda name: None; select.get_kernel = lambda name: type('K', (), {'name': name, 'isa': 'x', 'layout': 'row'})\n"
    done = python(native + WHICH, tmp_path)
    assert done.stdout.startswith("native | ") and "V1_CPU_KERNEL=ipex takes it" in done.stdout, done.stderr


def test_without_the_native_kernel_it_serves(tmp_path: Path) -> None:
    install(tmp_path)
    done = python(NO_NATIVE + WHICH + "\nprint(v1_cpu.PagedAttention.__name__, c.layout, c.isa)", tmp_path)
    assert done.stdout.splitlines() == [
        "ipex | no native kernel: no library; IPEX is usable and faster than torch",
        "_IPEXPagedAttention ipex avx512_bf16",
    ], done.stderr


def test_the_standin_has_the_signatures_that_the_kernel_relies_on() -> None:
    for name, wanted in SIGNATURES.items():
        assert " ".join(inspect.signature(getattr(standin.PagedAttention, name)).parameters) == wanted


@pytest.mark.ipex
def test_the_standin_has_the_signatures_of_ipex() -> None:
    """Names, order and defaults, as the installed wheel has them."""
    from intel_extension_for_pytorch.llm.modules import PagedAttention

    for name in SIGNATURES:
        theirs, ours = (
            [(p.name, p.default) for p in inspect.signature(getattr(c, name)).parameters.values()]
            for c in (PagedAttention, standin.PagedAttention)
        )
        assert ours == theirs, name


def test_ipex_takes_and_reads_the_declared_layout() -> None:
    """`layout="ipex"` is accepted for a cache of this kernel, "row" refused with the way out."""
    code = (
        "import v1_cpu\nfrom v1_cpu.kernels import ipex_kernel; import standin\n"
        "ipex_kernel.load = lambda: standin.PagedAttention\n"
        "key = torch.arange(48.).view(3, 2, 8); cache = v1_cpu.allocate_kv_cache(2, 4, 2, 8, torch.float32)\n"
        "slots = torch.tensor([5, -1, 0])\n"
        "v1_cpu.write_kv_cache(key, -key, cache, slots, kernel='ipex', layout='ipex')\n"
        "k, v = v1_cpu.read_kv_cache(cache, torch.tensor([1], dtype=torch.int32), 2, layout='ipex')\n"
        "print(torch.equal(k[1], key[0]), torch.equal(v[1], -key[0]), bool(k[0].any()))\n"
        "v1_cpu.write_kv_cache(key, -key, cache, slots, kernel='ipex', layout='row')\n"
    )
    done = python(code)
    assert done.stdout.strip() == "True True False", done.stderr
    assert "layout: 'row'; the ipex kernel reads 'ipex'" in done.stderr
