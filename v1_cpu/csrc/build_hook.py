"""Hatchling build hook: compiles the native kernels with the machine's C++ compiler, one object per instruction set.

Without a compiler the package is built without them, which is said loudly; `V1_CPU_BUILD=require` makes that an error
and `V1_CPU_BUILD=skip` leaves them out on purpose. The library links to no Python and no torch, so one wheel serves
every version of both; it needs one shared library, OpenMP's, which torch brings.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LIBRARY = "libv1_cpu.so"
COMMON_FLAGS = [
    *("-std=c++17", "-O3", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"),
    *("-fno-math-errno", "-ffunction-sections", "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-ignored-attributes"),
    # GCC takes the undefined values of its own intrinsics for mistakes (its bug 105593).
    *("-Wno-maybe-uninitialized", "-Wno-uninitialized"),
]
LINK_FLAGS = [
    *("-shared", "-fopenmp", "-static-libstdc++", "-static-libgcc", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL"),
    "-lm",
]

_AVX2 = "-mavx2 -mfma -mf16c"
_AVX512 = f"{_AVX2} -mavx512f -mavx512bw -mavx512vl -mavx512dq"
_AVX512_BF16 = f"{_AVX512} -mavx512bf16"
X86_64_FLAGS = {
    "avx2": _AVX2,
    "avx512": _AVX512,
    "avx512_bf16": _AVX512_BF16,
    "amx": f"{_AVX512_BF16} -mavx512vbmi -mamx-tile -mamx-bf16",
}
"""Instruction sets beyond the generic one, and the flags their object, and no other, is compiled with."""
AARCH64_FLAGS = {"neon": "-march=armv8-a", "neon_bf16": "-march=armv8.2-a+bf16"}
_EVERY_SET = {
    **dict.fromkeys(("x86_64", "AMD64"), (X86_64_FLAGS, "immintrin.h")),
    **dict.fromkeys(("aarch64", "arm64"), (AARCH64_FLAGS, "arm_neon.h")),
}


class CompilerMissing(Exception):
    """There is no C++ compiler, or it cannot build a shared library with OpenMP."""


class Compiler:
    """A C++ compiler as a command. (No dataclass: hatchling runs this file without registering it as a module.)"""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    @classmethod
    def find(cls) -> Compiler:
        """`CXX`, or the first of the usual names; raises `CompilerMissing`."""
        named = os.environ.get("CXX")
        candidates = [shlex.split(named)] if named else [["g++"], ["clang++"], ["c++"]]
        for command in candidates:
            if shutil.which(command[0]):
                return cls(command)
        names = " or ".join(command[0] for command in candidates)
        raise CompilerMissing(f"no C++ compiler: {names} not found")

    def run(self, *arguments: str) -> None:
        """Raises RuntimeError with what the compiler said."""
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{shlex.join([*self.command, *arguments])} failed:\n{done.stderr}")

    def accepts(self, flags: list[str], header: str = "vector") -> bool:
        """Whether it compiles a program that includes this header, with these flags."""
        done = subprocess.run(
            [*self.command, *flags, "-x", "c++", "-fsyntax-only", "-"],
            input=f"#include <{header}>\n",
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode == 0


def compile_library(
    sources: Path, target: Path, extra_flags: tuple[str, ...] = (), only: list[str] | None = None, machine: str = ""
) -> list[str]:
    """Build `target` from the folder `sources`; returns the names of the instruction sets in it.

    For tests: `only` leaves out the instruction sets that it does not name (the generic one is always there), `machine`
    is what `CXX` compiles for if it is not this machine.
    """
    compiler = Compiler.find()
    if not compiler.accepts([]):
        raise CompilerMissing(
            f"{compiler.command[0]} cannot compile a C++ program (are the standard headers installed?)"
        )
    beyond, header = _EVERY_SET.get(machine or platform.machine(), ({}, ""))
    sets = {
        name: flags.split()
        for name, flags in beyond.items()
        if (only is None or name in only) and compiler.accepts(flags.split(), header)
    }
    have = [f"-DV1_HAVE_{name.upper()}" for name in sets]
    units = {"dispatch": have, "schedule": [], "cpu": have, "isa_generic": []} | {
        f"isa_{n}": f for n, f in sets.items()
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        objects = {name: str(Path(folder) / f"{name}.o") for name in units}
        work = [
            pool.submit(
                compiler.run,
                *COMMON_FLAGS,
                *extra_flags,
                *flags,
                "-c",
                str(sources / f"{name}.cpp"),
                "-o",
                objects[name],
            )
            for name, flags in sorted(units.items(), key=lambda unit: -len(unit[1]))
        ]
        for unit in work:
            unit.result()
        fresh = Path(folder) / LIBRARY
        compiler.run(*objects.values(), *extra_flags, *LINK_FLAGS, "-o", str(fresh))
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copyfile(fresh, beside)
        beside.replace(target)  # a process that has the old library mapped keeps it
    return ["generic", *sets]


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # the tests use `compile_library` where hatchling is not installed
    pass
else:

    class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
        """In a wheel the library is built aside and included; for an editable install, beside the Python files."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            wish = os.environ.get("V1_CPU_BUILD", "")
            if self.target_name != "wheel" or wish == "skip":
                return
            sources = Path(self.root) / "v1_cpu" / "csrc"
            editable = version == "editable"
            folder = sources.parent if editable else Path(tempfile.mkdtemp(prefix="v1_cpu-"))
            try:
                compile_library(sources, folder / LIBRARY)
            except CompilerMissing as error:
                if wish == "require":
                    raise
                self.app.display_warning(
                    f"v1_cpu is built WITHOUT its native kernels: {error}. The much slower torch kernel will serve. "
                    "Install g++ or clang++ and install the package again."
                )
                return
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
            if not editable:
                build_data["force_include"][str(folder / LIBRARY)] = f"v1_cpu/{LIBRARY}"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            for built in build_data["force_include"]:
                folder = Path(built).parent
                if folder.name.startswith("v1_cpu-"):
                    shutil.rmtree(folder, ignore_errors=True)
