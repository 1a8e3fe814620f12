"""A file whose text is not on the disk yet, seen in its place in the tree (`--stdin`).

The tree is shown through links, except for the one file, which holds the text that was given.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .discover import Discovery, File, PathError
from .kinds import Kind, kind_of


@contextlib.contextmanager
def overlay(root: Path, filename: str, data: bytes) -> Iterator[Discovery]:
    """`root` with `filename`, relative to it, holding `data`. Raises PathError for a name outside."""
    real = root.resolve()
    file = Path(filename) if Path(filename).is_absolute() else real / filename
    if not file.resolve().is_relative_to(real):
        raise PathError(f"{filename}: not below {root}")
    rel = file.resolve().relative_to(real)
    with tempfile.TemporaryDirectory(prefix="v1-migrate-") as name:
        shown = Path(name) / real.name
        shown.mkdir()
        _show(real, shown, rel.parts)
        target = shown / rel
        target.write_bytes(data)
        yield Discovery(shown, [File(target, rel.as_posix(), kind_of(target) or Kind.PYTHON)])


def _show(real: Path, shown: Path, parts: tuple[str, ...]) -> None:
    if real.is_dir():
        for entry in real.iterdir():
            if entry.name != parts[0]:
                (shown / entry.name).symlink_to(entry)
    if len(parts) > 1:
        (shown / parts[0]).mkdir()
        _show(real / parts[0], shown / parts[0], parts[1:])
