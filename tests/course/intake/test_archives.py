"""Archives and folders made to do harm: nothing is unpacked, followed or read without an end, and each is named."""

import os
import stat
import zipfile

import pytest
from submissions import bytes_of, right

from course.errors import CourseError
from course.intake import handed
from course.intake.handed import CannotBeRead, files_of

NOTEBOOK = bytes_of(right())


def zipped(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def problems(path):
    return [file.problem for file in files_of(path)]


@pytest.mark.parametrize(
    "name", ["../../evil.ipynb", "/etc/evil.ipynb", "a/../../evil.ipynb", "C:\\evil.ipynb", "..\\e"]
)
def test_a_path_that_leads_out_of_its_archive_is_refused(tmp_path, name):
    assert problems(zipped(tmp_path / "a.zip", **{name: NOTEBOOK})) == ["has a path that leads out of its archive"]


def test_nothing_is_written_when_an_archive_is_read(tmp_path):
    path = zipped(tmp_path / "a.zip", **{"ana/week04.ipynb": NOTEBOOK})
    (file,) = files_of(path)
    assert file.load() == NOTEBOOK and [each.name for each in tmp_path.iterdir()] == ["a.zip"]


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("ana/week04.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert problems(tmp_path / "a.zip") == ["is a link or a device, which is not followed"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_links_in_a_folder_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "week04.ipynb").write_bytes(NOTEBOOK)
    student = tmp_path / "class" / "ana"
    student.mkdir(parents=True)
    (student / "week04.ipynb").symlink_to(secret / "week04.ipynb")
    (student / "more").symlink_to(secret)
    os.mkfifo(student / "pipe.ipynb")
    found = list(files_of(tmp_path / "class"))
    assert len(found) == 3 and {file.problem for file in found} == {"is a link or a device, which is not followed"}
    with pytest.raises(CannotBeRead):
        found[0].load()


def test_a_file_that_unpacks_to_more_than_is_read_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(handed, "MOST_BYTES", 1000)
    (problem,) = problems(zipped(tmp_path / "bomb.zip", **{"ana/week04.ipynb": b" " * 100_000}))
    assert "at most 0 MB are read" in problem


def test_a_file_that_lies_about_its_size_is_read_to_the_limit_only(tmp_path, monkeypatch):
    path = zipped(tmp_path / "bomb.zip", **{"ana/week04.ipynb": b" " * 100_000})
    (file,) = files_of(path)
    monkeypatch.setattr(handed, "MOST_BYTES", 1000)  # as if the archive had claimed less
    with pytest.raises(CannotBeRead, match="at most"):
        file.load()


def test_archives_in_archives_are_opened_to_a_depth_and_a_size(tmp_path, monkeypatch):
    inner = zipped(tmp_path / "0.zip", **{"week04.ipynb": NOTEBOOK})
    for level in range(1, 6):
        inner = zipped(tmp_path / f"{level}.zip", **{f"{level - 1}.zip": inner.read_bytes()})
    assert problems(inner) == ["is an archive in 3 others, and is not opened"]
    monkeypatch.setattr(handed, "MOST_IN_ALL", 10)
    assert "hold more than" in problems(tmp_path / "1.zip")[0]


def test_an_archive_of_very_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(handed, "MOST_FILES", 5)
    (problem,) = problems(zipped(tmp_path / "a.zip", **{f"{n}.ipynb": b"" for n in range(6)}))
    assert problem == "holds 6 files, and at most 5 are read"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and no more", b"<html>", NOTEBOOK])
def test_a_file_that_is_only_called_an_archive_is_named(tmp_path, data):
    path = tmp_path / "ana.zip"
    path.write_bytes(data)
    (problem,) = problems(path)
    assert problem.startswith("is no archive that can be opened")


def test_an_archive_with_a_password_or_damage_is_named_when_it_is_read(tmp_path):
    path = zipped(tmp_path / "a.zip", **{"week04.ipynb": NOTEBOOK})
    data = bytearray(path.read_bytes())
    data[60:80] = b"\0" * 20
    path.write_bytes(bytes(data))
    (file,) = files_of(path)
    with pytest.raises(CannotBeRead, match="cannot be taken out of its archive"):
        file.load()


def test_what_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(CourseError, match="nowhere to grade"):
        list(files_of(tmp_path / "nowhere"))
