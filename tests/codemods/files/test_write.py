"""Writing: the old or the new text, whole, whatever happens."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from v1_migrate.write import ChangedOnDisk, WriteError, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\r\n")
    return path


def only(path: Path) -> bool:
    """Nothing but this file is in its folder."""
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_bytes_are_written_and_the_mode_stays(file: Path) -> None:
    file.chmod(0o751)
    write(file, b"new", expected=b"old\r\n")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert only(file)


def test_the_owner_stays(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(file, 1234, 2345)
    write(file, b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link.py"
    link.symlink_to("../a.py")
    write(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"


def test_someone_elses_change_is_kept(file: Path) -> None:
    with pytest.raises(ChangedOnDisk, match="changed on disk"):
        write(file, b"new", expected=b"older")
    assert file.read_bytes() == b"old\r\n"


def test_a_read_only_file_is_left_alone_by_root_too(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(WriteError, match="read-only"):
        write(file, b"new")
    assert file.read_bytes() == b"old\r\n"


@pytest.mark.parametrize(
    ("function", "number", "words"),
    [
        ("fsync", errno.ENOSPC, "no space left"),
        ("fsync", errno.EDQUOT, "quota"),
        ("replace", errno.EACCES, "not writable"),
        ("replace", errno.EROFS, "read-only"),
        ("replace", errno.EBUSY, "busy"),
    ],
)
def test_a_failing_system_call_leaves_the_file_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, words: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(WriteError, match=f"a.py: .*{words}") as caught:
        write(file, b"new")
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == b"old\r\n"
    assert only(file)


def test_control_c_leaves_the_file_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(file, b"new")
    assert file.read_bytes() == b"old\r\n"
    assert only(file)


def test_a_file_that_is_gone_is_an_error_and_stays_gone(file: Path) -> None:
    file.unlink()
    with pytest.raises(WriteError, match=r"a\.py"):
        write(file, b"new")
    assert not file.exists()
