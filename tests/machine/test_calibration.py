"""Tests `machine/calibration.py` on loads that take milliseconds: figures of the right order, kept and made anew."""

from dataclasses import replace
from itertools import chain

import pytest
import torch
from tiny_models import tiny_config, tiny_model

from nanolm.machine import (
    Measurement,
    Reading,
    calibrate,
    count_operations,
    decode_step_of,
    loads,
    measure_hardware,
    memory_bytes,
    predicted_decode_seconds,
    weights_read,
)
from nanolm.machine import calibration as module

KiB = 1024
SMALL = loads.Plan(
    torch.float32,
    working_sets=(16 * KiB, 64 * KiB),
    row_lengths=(32, 128),
    matrix_bytes=8 * KiB,
    product=(4, 16, 16),
    models=(loads.ALMOST_NOTHING, tiny_config(d_model=64, d_ff=96, head_dim=32)),
    packed_sets=(16 * KiB,),
    packed_row_lengths=(32, 64),
)


@pytest.fixture
def quick(monkeypatch):
    """Small loads, one short round, which is always steady; returns the list of devices measured so far."""
    measured = []

    def measure(device):
        measured.append(str(device))
        return really(device)

    really = module._measure
    monkeypatch.setattr(module, "_measure", measure)
    monkeypatch.setattr(module, "CPU_PLAN", SMALL)
    monkeypatch.setattr(module, "_ROUNDS", 1)
    monkeypatch.setattr(module, "_LEAST_SECONDS", 1e-6)
    return measured


def test_calibrate_measures_every_size_and_row_length(quick, tmp_path):
    found = calibrate(folder=tmp_path)
    assert [reading[:2] for reading in found.readings] == [(s * KiB, row) for s in (16, 64) for row in (32, 128)]
    assert list(found.packed_readings) == ["bfloat16", "int8", "int4"]
    for readings in found.packed_readings.values():
        assert [reading[:2] for reading in readings] == [(16 * KiB, row) for row in (32, 64)]
    every = (*found.readings, *chain.from_iterable(found.packed_readings.values()))
    assert all(1e6 < reading.bytes_per_second < 1e13 for reading in every)
    assert 1e6 < found.matmul_flops_per_second < 1e14
    assert len(found.operations) == 2 and all(1e-8 < cost.seconds < 1e-2 for cost in found.operations)
    assert found.device == "cpu" and found.threads == torch.get_num_threads()
    assert found.torch == torch.__version__ and found.memory_bytes > 1e9 and "T" in found.date


def test_calibrate_keeps_what_it_measured(quick, tmp_path):
    first, second = calibrate(folder=tmp_path), calibrate(folder=tmp_path)
    assert first == second and quick == ["cpu"], "the second call must read the file"


def test_calibrate_measures_again_when_told_to(quick, tmp_path):
    calibrate(folder=tmp_path)
    calibrate(folder=tmp_path, refresh=True)
    assert quick == ["cpu"] * 2
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("change", ["machine", "processor", "torch", "threads", "device"])
def test_calibrate_measures_again_when_the_machine_is_another(quick, tmp_path, change):
    measured = calibrate(folder=tmp_path)
    (file,) = tmp_path.iterdir()
    replace(measured, **{change: measured.threads + 1 if change == "threads" else "another"}).save(file)
    assert calibrate(folder=tmp_path).torch == torch.__version__
    assert quick == ["cpu"] * 2, f"a file of another {change} was taken"
    assert getattr(Measurement.load(file), change) == getattr(measured, change), "the file is made anew too"


def test_calibrate_measures_again_when_the_file_is_broken(quick, tmp_path):
    calibrate(folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    calibrate(folder=tmp_path)
    assert quick == ["cpu"] * 2 and Measurement.load(file) is not None


def test_calibrate_keeps_a_file_for_each_number_of_threads(quick, tmp_path, monkeypatch):
    for threads in (1, 2, 1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert calibrate(folder=tmp_path).threads == threads
    assert quick == ["cpu"] * 2


def test_calibrate_where_nothing_can_be_written_measures_all_the_same(quick, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert calibrate(folder=tmp_path / "file").device == "cpu"


def test_calibrate_does_not_keep_what_a_busy_machine_gave(quick, tmp_path, monkeypatch):
    steady = module._measure
    monkeypatch.setattr(module, "_measure", lambda device: steady(device) | {"spread": 2.0})
    assert calibrate(folder=tmp_path).spread == 2.0
    monkeypatch.setattr(module, "_measure", steady)
    assert calibrate(folder=tmp_path).spread == 1.0 and quick == ["cpu"] * 2


def test_calibrate_takes_medians_over_rounds_in_which_all_have_a_turn(monkeypatch):
    turns, durations = [], iter([1.0, 10.0, 5.0, 20.0, 3.0, 90.0])
    monkeypatch.setattr(module, "_ROUNDS", 3)

    def seconds(call, repeats, device):
        turns.append(call())
        return next(durations) if len(turns) % 2 == 0 else 2 * module._LEAST_SECONDS

    monkeypatch.setattr(module, "_seconds", seconds)
    rounds = module._rounds({"a": lambda: "a", "b": lambda: "b"}, torch.device("cpu"))
    # Each turn is a first run, which only fills the cache, and one that counts.
    assert turns == ["a", "a", "b", "b"] * 3
    assert rounds == {"a": [1.0, 5.0, 3.0], "b": [10.0, 20.0, 90.0]}


def test_calibrate_runs_what_takes_long_once_a_round(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDS", 2)
    monkeypatch.setattr(module, "_seconds", lambda call, repeats, device: call() or 1.0)
    turns = []
    assert module._rounds({"a": lambda: turns.append("a")}, torch.device("cpu")) == {"a": [1.0, 1.0]}
    assert turns == ["a", "a"]


def test_calibrate_charges_operations_for_what_reading_does_not_explain():
    model = tiny_model()
    size, n = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    found = {"readings": (Reading(1, 1, size / 2.0),), "packed_readings": {}}  # read in 2 seconds
    assert module._operation_cost(model, 5.0, found) == pytest.approx((size / n, 3 / n))
    # Reading that seems to take longer than the whole step leaves a tenth of it.
    assert module._operation_cost(model, 1.5, found) == pytest.approx((size / n, 0.15 / n))


def test_what_calibrate_measured_predicts_the_steps_that_it_measured_in_every_kind(quick, tmp_path, monkeypatch):
    steps = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    # Each product is over in a microsecond, each model's step takes the next number of seconds.
    really = module._rounds

    def rounds(calls, device):
        took = {name: [next(steps)] if name[0] == "step" else [1e-6] for name in calls}
        assert took.keys() == really(calls, device).keys()
        return took

    monkeypatch.setattr(module, "_rounds", rounds)
    found = calibrate(folder=tmp_path)
    models = loads.models_of(SMALL, torch.device("cpu"))
    assert [kind for kind, _ in models] == ["numbers", "numbers", *["bfloat16", "int8", "int4"] * 2]
    for step, (kind, model) in enumerate(models, 1):
        assert predicted_decode_seconds(found, model) == pytest.approx(step, rel=1e-3), kind


def test_calibrate_leaves_the_random_numbers_alone(quick, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    calibrate(folder=tmp_path)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "tpu", ""])
def test_calibrate_of_a_device_that_is_not_there_is_refused(quick, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"device is '{device}'; this machine has cpu$"):
        calibrate(device)


def test_hardware_measure_is_this_machine(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    here = measure_hardware()
    measured = calibrate()
    assert here == measured.hardware() and quick == ["cpu"]
    assert here.memory_bytes == memory_bytes(torch.device("cpu"))
    assert here.bandwidth_bytes_per_second == measured.bandwidth_at(64 * KiB, 1024)
    measure_hardware(refresh=True)
    assert quick == ["cpu"] * 2
