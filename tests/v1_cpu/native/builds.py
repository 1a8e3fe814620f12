"""Builds of the library and of the runner, for the native kernels' tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from v1_cpu import native

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "v1_cpu" / "csrc"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build_hook() -> ModuleType:
    """The package's build hook, which is no importable module of the package."""
    spec = importlib.util.spec_from_file_location("v1_cpu_build_hook", SOURCES / "build_hook.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def texts() -> dict[str, str]:
    """The kernels' sources, by file."""
    return {path.name: path.read_text() for path in SOURCES.iterdir() if path.suffix in (".h", ".cpp")}


def replaced(text: str, old: str, new: str, file: str) -> str:
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}: the tests look for its text"
    return text.replace(old, new)


def lacks_tiles() -> bool:
    """Whether this CPU has all that the kernels for AMX need but the tiles themselves."""
    here = native.instruction_sets() if native.LIBRARY.exists() else {}
    return bool(here.get("avx512_bf16")) and not here.get("amx")


def emulate_tiles(sources: dict[str, str]) -> None:
    """Make the kernels for AMX run where AMX is missing, on tiles of plain C++."""
    header = Path(__file__).with_name("emulated_tiles.h")
    first, file = "#include <immintrin.h>\n", "isa_amx.cpp"
    sources[file] = replaced(sources[file], first, f'{first}#include <cstdint>\n#include "{header}"\n', file)
    question, file = "bool has_amx() {", "cpu.cpp"
    emulated = f"{question} return has_avx512_bf16() && all(cpu().leaf7_c, 1u << 1); }}\n[[maybe_unused]] "
    sources[file] = replaced(sources[file], question, emulated + question.replace("amx", "tiles"), file)


def write_sources(sources: dict[str, str], folder: Path) -> None:
    for name, text in sources.items():
        (folder / name).write_text(text)


def build_runner(compiler: str, target: Path, *flags: str) -> Path:
    source = Path(__file__).with_name("runner.cpp")
    subprocess.run(
        [compiler, "-std=c++17", "-O2", *flags, f"-I{SOURCES}", str(source), "-o", str(target), "-ldl"], check=True
    )
    return target
