"""Every instruction set against a scalar reference, outside Python: here, on emulated CPUs, and under sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builds import SANITIZERS, SOURCES, build_hook, build_runner, emulate_tiles, lacks_tiles, texts, write_sources

FOREIGN = r"%[yz]mm\d+|%k[0-7]\b|\btdp|\btile(load|store|zero|config|release)"
"""Registers and instructions that no x86-64 baseline has."""


def run(*command: str, cases: int, **env: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"V1_RUNNER_CASES": str(cases)} | env
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    closing = re.search(r"(\d+) passed, 0 failed", done.stdout)
    assert closing and int(closing[1]) >= cases, done.stdout
    return done.stdout


def test_every_instruction_set_of_this_cpu(runner: Path, library: Path) -> None:
    assert "generic" in run(str(runner), str(library), cases=60)


def test_amx_on_emulated_tiles(compiler: str, runner: Path, tmp_path: Path) -> None:
    if not lacks_tiles():
        pytest.skip("this CPU has AMX, or too little for its kernels even with emulated tiles")
    sources = texts()
    emulate_tiles(sources)
    write_sources(sources, tmp_path)
    library = tmp_path / "libv1_cpu.so"
    build_hook().compile_library(tmp_path, library, only=["amx"])
    assert "amx" in run(str(runner), str(library), "amx", cases=150)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "best"),
    [
        pytest.param("Nehalem", "generic", id="a CPU of 2008, without AVX"),
        pytest.param("Haswell", "avx2", id="a CPU of 2013, with AVX2"),
    ],
)
def test_older_cpus_get_only_what_they_can_run(cpu: str, best: str, runner: Path, library: Path) -> None:
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if emulator is None:
        pytest.skip("qemu-user is not installed")
    printed = run(emulator, "-cpu", cpu, str(runner), str(library), cases=15)
    assert printed.split()[0] == best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "best"),
    [
        pytest.param("cortex-a57", "neon", id="an AArch64 CPU without BF16"),
        pytest.param("max", "neon_bf16", id="an AArch64 CPU with BF16"),
    ],
)
def test_aarch64(cpu: str, best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cross, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if cross is None or emulator is None:
        pytest.skip("no AArch64 cross compiler or emulator here")
    monkeypatch.setenv("CXX", cross)
    library = tmp_path / "libv1_cpu.so"
    build_hook().compile_library(SOURCES, library, extra_flags=("-O1",), machine="aarch64")
    runner = build_runner(cross, tmp_path / "runner")
    printed = run(emulator, "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu", str(runner), str(library), cases=15)
    assert printed.split()[0] == best


def test_objects_of_the_baseline_hold_no_newer_instruction(compiler: str, tmp_path: Path) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    hook = build_hook()
    flags = [*hook.COMMON_FLAGS, *(f"-DV1_HAVE_{name.upper()}" for name in hook.X86_64_FLAGS)]
    for unit in ("dispatch", "schedule", "cpu", "isa_generic"):
        made = tmp_path / f"{unit}.o"
        subprocess.run([compiler, *flags, "-c", str(SOURCES / f"{unit}.cpp"), "-o", str(made)], check=True)
        listing = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", str(made)], capture_output=True, text=True, check=True
        ).stdout
        assert len(listing) > 1000
        foreign = [
            line for line in listing.splitlines() if re.search(FOREIGN, line) or re.search(r"\tv[a-z0-9]+ ", line)
        ]
        assert not foreign, f"{unit}: {foreign[:3]}"


def test_the_search_for_newer_instructions_finds_them(compiler: str, tmp_path: Path) -> None:
    hook = build_hook()
    made = tmp_path / "avx2.o"
    subprocess.run(
        [
            compiler,
            *hook.COMMON_FLAGS,
            *hook.X86_64_FLAGS["avx2"].split(),
            "-c",
            str(SOURCES / "isa_avx2.cpp"),
            "-o",
            str(made),
        ],
        check=True,
    )
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(made)], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(FOREIGN, listing)


def test_instruction_sets_share_no_symbol(library: Path) -> None:
    """Nothing but the C functions is visible, so the linker cannot merge code of one instruction set into another's."""
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[-1] for line in listing.splitlines()} == {
        "v1_abi_version",
        "v1_attend",
        "v1_copy_blocks",
        "v1_isa",
        "v1_schedule",
        "v1_select",
        "v1_write",
    }


@pytest.mark.slow
def test_address_and_undefined_behaviour_sanitizers(compiler: str, tmp_path: Path) -> None:
    library = tmp_path / "libv1_cpu.so"
    build_hook().compile_library(SOURCES, library, extra_flags=SANITIZERS)
    runner = build_runner(compiler, tmp_path / "runner", *SANITIZERS)
    run(str(runner), str(library), cases=40, ASAN_OPTIONS="detect_leaks=0", OMP_NUM_THREADS="2")
