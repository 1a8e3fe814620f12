"""Writing a file so that at every moment the old or the new text is on disk, whole.

The new bytes go to a temporary file in the same folder, are flushed to the disk, and take the old file's name in one
step. Mode and, where allowed, owner and extended attributes stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path

_MEANING = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied: its folder is not writable",
    errno.EPERM: "permission denied: its folder is not writable",
    errno.EFBIG: "the file is larger than the system allows",
    errno.EIO: "the disk reports an input/output error",
}


class WriteError(Exception):
    """A file could not be written; it is as it was before. The message names the file and the cause."""


class ChangedOnDisk(WriteError):
    """The file is not what it was when it was read, so the edits no longer belong to it."""


def write(path: Path, data: bytes, *, expected: bytes | None = None) -> None:
    """Replace the contents of `path`, or of the file it links to, by `data`. Raises WriteError.

    `expected` is what the file held when it was read: if someone has written to it since, it is left alone.
    A file without write permission is left alone, too, although its folder would allow to replace it.
    """
    try:
        real = Path(os.path.realpath(path))
        status = real.stat()
        if _read_only(real, status):
            raise WriteError(f"{path}: the file is read-only; make it writable (chmod u+w) and run again")
        if expected is not None and real.read_bytes() != expected:
            raise ChangedOnDisk(f"{path}: changed on disk while v1-migrate was at work; run again")
        _replace(real, data, status)
    except OSError as error:
        cause = _MEANING.get(error.errno or 0, error.strerror or str(error))
        raise WriteError(f"{path}: {cause}; the file is unchanged") from None


def hindrance(path: Path) -> str:
    """Why `write` would refuse the file as it is now, in a few words; "" if nothing speaks against it."""
    real = Path(os.path.realpath(path))
    try:
        if _read_only(real, real.stat()):
            return "the file is read-only"
    except OSError as error:
        return _MEANING.get(error.errno or 0, error.strerror or str(error))
    return "" if os.access(real.parent, os.W_OK | os.X_OK) else "its folder is not writable"


def _read_only(real: Path, status: os.stat_result) -> bool:
    return not os.access(real, os.W_OK) or not status.st_mode & 0o222  # root passes every access check


def _replace(real: Path, data: bytes, status: os.stat_result) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name[:100]}.", suffix=".v1-migrate", dir=real.parent)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        _copy_attributes(real, Path(name), status)
        os.replace(name, real)
    except BaseException:  # Ctrl-C included: nothing of ours stays behind
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _copy_attributes(source: Path, target: Path, status: os.stat_result) -> None:
    if hasattr(os, "chown") and (os.geteuid(), os.getegid()) != (status.st_uid, status.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(target, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(source, target)  # extended attributes (ACLs, labels) with it; the times are set next
    os.utime(target)
    os.chmod(target, stat.S_IMODE(status.st_mode))
