"""The release trees a test can use: a folder of trees (V1_MIGRATE_RELEASES) or of wheels (V1_MIGRATE_WHEELS)."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

WHEEL = re.compile(r"vllm(?:_cpu\w*)?-([^-]+)-.*\.whl")


def find(scratch: Path) -> Path | None:
    """A folder with a sub-folder per release; wheels are unpacked below `scratch`. None if neither variable is set."""
    trees, wheels = (os.environ.get(name) for name in ("V1_MIGRATE_RELEASES", "V1_MIGRATE_WHEELS"))
    if trees:
        return Path(trees)
    return unpack(Path(wheels), scratch) if wheels else None


def unpack(wheels: Path, into: Path) -> Path:
    """The Python source of every vLLM wheel; a compiled module becomes an empty file of its name."""
    for wheel in sorted(wheels.glob("vllm*.whl")):
        match = WHEEL.fullmatch(wheel.name)
        if not match:
            continue
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("vllm/") and name.endswith((".py", ".so")):
                    path = into / match.group(1) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(name) if name.endswith(".py") else b"")
    return into
