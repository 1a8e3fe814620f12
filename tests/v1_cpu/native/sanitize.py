"""Run the kernels under AddressSanitizer and UBSan: `python tests/v1_cpu/native/sanitize.py [CASES] [SEED]`.

The torch-free runner draws CASES shapes and lengths from SEED on for every instruction set of this CPU; then a part of
the Python tests runs with the sanitizers' library preloaded. Ends with 0 if nothing was found. Takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from builds import ROOT, SANITIZERS, SOURCES, build_hook, build_runner

WHOLE = ["test_cache.py", "test_random_batches.py", "mla/test_mla_cache.py", "mla/test_mla_random.py"]
GRIDS = ["test_varlen.py", "test_grid.py", "mla/test_mla_grid.py"]
OF_GRIDS = "native"
RUN = "import pathlib, sys, pytest, v1_cpu.native as n; n.LIBRARY = pathlib.Path(sys.argv[1]); sys.exit(pytest.main(sys.argv[2:]))"
# No search for leaks: Python and torch keep much until the end. Memory is not filled with patterns: tests take long enough.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "OMP_NUM_THREADS": "2",
}


def step(what: str, command: list[str], **env: str) -> bool:
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=os.environ | OPTIONS | env, check=False)
    print(f"{what}: {'clean' if done.returncode == 0 else 'FAILED'}, {time.monotonic() - start:.0f} s", flush=True)
    return done.returncode == 0


def main() -> int:
    cases, seed = (sys.argv[1:] + ["150", "1"][len(sys.argv) - 1 :])[:2]
    compiler = build_hook().Compiler.find().command[0]
    with tempfile.TemporaryDirectory() as folder:
        library, runner = Path(folder) / "libv1_cpu.so", Path(folder) / "runner"
        start = time.monotonic()
        sets = build_hook().compile_library(SOURCES, library, extra_flags=SANITIZERS)
        build_runner(compiler, runner, *SANITIZERS)
        print(f"built {', '.join(sets)}: {time.monotonic() - start:.0f} s", flush=True)
        clean = step("runner", [str(runner), str(library)], V1_RUNNER_CASES=cases, V1_RUNNER_SEED=seed)
        preload = " ".join(
            subprocess.run(
                [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
            ).stdout.strip()
            for name in ("libasan.so", "libubsan.so")
        )
        python = [sys.executable, "-c", RUN, str(library), "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        for what, files, chosen in (("tests", WHOLE, []), ("grids", GRIDS, ["-k", OF_GRIDS])):
            command = [*python, *chosen, *(f"tests/v1_cpu/{file}" for file in files)]
            clean &= step(what, command, LD_PRELOAD=preload, PYTHONPATH=str(ROOT))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
