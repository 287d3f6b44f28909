"""What is renamed into place replaces files alone, and what a link leads to."""

import os
import socket
from pathlib import Path

import pytest

from analysis.destination import destination
from analysis.report.files import write_bytes
from paretoken.clients.writing import write_files
from paretoken.errors import InputError
from paretoken.running import _copy


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(Path("there") / "file")
    for number, content in enumerate((b"first", b"second")):
        write_bytes(tmp_path / "link", content)
        assert (tmp_path / "there" / "file").read_bytes() == content, number
    write_files({"link": "third"}, folder=tmp_path, force=True)
    assert (tmp_path / "there" / "file").read_text() == "third"
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]
    assert (tmp_path / "link.bak").read_text() == "second"


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "link to a pipe"])
def test_what_is_no_file_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out"
    source = tmp_path / "source"
    source.touch()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
        case _:
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
    before = {found: found.lstat().st_mode for found in tmp_path.iterdir()}
    with pytest.raises(FileExistsError, match="no regular file"):
        destination(path)
    with pytest.raises(FileExistsError, match="no regular file"):
        write_bytes(path, b"x")
    with pytest.raises(InputError, match=r"out: cannot be written \(something is there that is no regular"):
        _copy(source, path)
    assert {found: found.lstat().st_mode for found in tmp_path.iterdir()} == before
