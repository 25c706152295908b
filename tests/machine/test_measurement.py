"""Tests `nanolm/machine/measurement.py`: rates between the measured ones, the chip made from them, and their file."""

import errno
import json
import socket
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from laptop import LAPTOP, MiB

from nanolm import _files as files
from nanolm.machine import Measurement, Reading, cache_folder, main_memory_bytes, processor_name
from nanolm.machine import measurement as module


@pytest.mark.parametrize(
    ("size", "row", "rate"),
    [
        (4 * MiB, 256, 30e9),
        (4 * MiB, 1024, 50e9),
        (64 * MiB, 1024, 16e9),
        # Halfway by logarithms: 16 MiB between 4 and 64, 512 between 256 and 1,024.
        (16 * MiB, 1024, 33e9),
        (4 * MiB, 512, 40e9),
        (16 * MiB, 512, (40e9 + 12e9) / 2),
        # Beyond what was measured: the nearest.
        (1, 1, 30e9),
        (10**12, 10**6, 16e9),
    ],
)
def test_bandwidth_at_is_interpolated_between_sizes_and_row_lengths(size, row, rate):
    assert LAPTOP.bandwidth_at(size, row) == pytest.approx(rate)


@pytest.mark.parametrize(("size", "row", "blamed"), [(0, 1024, "working_set_bytes"), (MiB, -1, "row_length")])
def test_bandwidth_at_no_size_is_refused(size, row, blamed):
    with pytest.raises(ValueError, match=f"{blamed} is "):
        LAPTOP.bandwidth_at(size, row)


def test_operation_seconds_at_are_interpolated_too():
    # 8,000 B is halfway between 1,000 and 64,000 by logarithms.
    costs = [LAPTOP.operation_seconds_at(n_bytes) for n_bytes in (1, 1e3, 8e3, 64e3, 1e12)]
    assert costs == pytest.approx([4e-6, 4e-6, 7e-6, 10e-6, 10e-6])
    with pytest.raises(ValueError, match="bytes_per_operation"):
        LAPTOP.operation_seconds_at(0)


def test_hardware_reads_like_a_model_that_no_cache_holds_unless_told_otherwise():
    chip = LAPTOP.hardware()
    assert (chip.name, chip.memory_bytes, chip.peak_flops_per_second) == ("a processor", 16e9, 1e11)
    assert chip.bandwidth_bytes_per_second == 16e9
    assert LAPTOP.hardware(4 * MiB).bandwidth_bytes_per_second == 50e9
    assert LAPTOP.hardware(4 * MiB, row_length=256, dollars_per_hour=1).bandwidth_bytes_per_second == 30e9


def test_rounds_that_disagree_are_not_steady():
    assert LAPTOP.is_steady and not replace(LAPTOP, spread=1.5).is_steady


def test_one_reading_is_enough():
    one = replace(LAPTOP, readings=((MiB, 64, 5e9),))
    assert one.bandwidth_at(10 * MiB) == 5e9


@pytest.mark.parametrize(
    "changes",
    [
        {"readings": ()},
        {"readings": LAPTOP.readings[::-1]},
        {"readings": LAPTOP.readings[:3]},
        {"packed_readings": {"int8": LAPTOP.readings[:3]}},
        {"packed_readings": {"int4": (Reading(MiB, 256, 0.0),)}},
        {"readings": (Reading(MiB, 256, 0.0),)},
        {"memory_bytes": -1},
        {"matmul_flops_per_second": float("nan")},
        {"operations": ()},
        {"operations": LAPTOP.operations[::-1]},
        {"operations": ((MiB, 0),)},
        {"threads": 0},
        {"spread": 0},
    ],
)
def test_a_measurement_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError):
        replace(LAPTOP, **changes)


# --- the file ----------------------------------------------------------------------------------------------------


def test_what_was_saved_is_loaded(tmp_path):
    path = tmp_path / "new" / "cpu-2.json"
    LAPTOP.save(path)
    assert Measurement.load(path) == LAPTOP
    assert [file.name for file in path.parent.iterdir()] == ["cpu-2.json"], "nothing else is left behind"


def test_saving_again_replaces_the_file(tmp_path):
    path = tmp_path / "cpu-2.json"
    LAPTOP.save(path)
    replace(LAPTOP, threads=4).save(path)
    assert Measurement.load(path).threads == 4


def text(**changes):
    return json.dumps(asdict(LAPTOP) | changes)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        text()[:-20],
        text(unknown=1),
        text(memory_bytes="much"),
        text(operations=[[1, -1]]),
        text(readings=[]),
        text(readings=[[1, 2]]),
        text(readings=[[1, 2, None]]),
        text(readings=5),
        text(packed_readings=5),
        text(packed_readings={"int8": [[1, 2]]}),
        text(threads=None),
        "\ud800",
    ],
)
def test_a_broken_file_counts_as_none(tmp_path, content):
    path = tmp_path / "cpu-2.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    assert Measurement.load(path) is None


def test_a_missing_file_or_a_folder_in_its_place_counts_as_none(tmp_path):
    assert Measurement.load(tmp_path / "nothing.json") is None
    assert Measurement.load(tmp_path) is None


# --- the system --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "platform", "environment", "folder"),
    [
        ("posix", "linux", {}, "/home/me/.cache/nanolm"),
        ("posix", "linux", {"XDG_CACHE_HOME": "/fast"}, "/fast/nanolm"),
        ("posix", "linux", {"XDG_CACHE_HOME": ""}, "/home/me/.cache/nanolm"),
        ("posix", "darwin", {"XDG_CACHE_HOME": "/fast"}, "/home/me/Library/Caches/nanolm"),
        ("nt", "win32", {"LOCALAPPDATA": "/local"}, "/local/nanolm"),
        ("nt", "win32", {}, "/home/me/AppData/Local/nanolm"),
    ],
)
def test_cache_folder_is_where_each_system_has_it(monkeypatch, name, platform, environment, folder):
    home = Path("/home/me")
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: home))
    # Not the modules' own attributes: pathlib chooses its kind of path by os.name.
    monkeypatch.setattr(files, "os", type("os", (), {"name": name, "environ": environment}))
    monkeypatch.setattr(files, "sys", type("sys", (), {"platform": platform}))
    assert cache_folder().as_posix() == folder


def test_the_memory_is_at_least_a_gigabyte_and_the_processor_has_a_name():
    assert main_memory_bytes() > 1e9
    assert processor_name().strip()


def test_without_a_processor_file_the_name_comes_from_platform(monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda self: False)
    monkeypatch.setattr(module.platform, "processor", lambda: "")
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    assert processor_name() == "riscv64"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system's files are files only")
def test_what_is_no_file_is_never_replaced_by_one(tmp_path, monkeypatch):
    """A recording written to /dev/full must not leave a file of that name, even to who may do that."""
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 108 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError):
            files.write_text(Path("socket"), "text")
        assert Path("socket").is_socket() and [path.name for path in tmp_path.iterdir()] == ["socket"]


def test_an_error_names_the_file_that_could_not_be_written(tmp_path):
    def full(part):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*record\.json'"):
        files.write_whole(tmp_path / "record.json", full)
