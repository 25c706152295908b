"""Tests `nanolm/calibrate.py` on loads that take milliseconds. How near predictions come is measured in benchmarks."""

from dataclasses import replace

import pytest
import torch
from test_measurement import LAPTOP
from tiny_models import tiny_model

from nanolm import calibrate as module
from nanolm.calibrate import calibrate, count_operations, memory_bytes, predicted_decode_seconds, weights_read
from nanolm.hardware import Hardware
from nanolm.measurement import Measurement

KiB = 1024
SMALL = module._Plan(torch.float32, (16 * KiB, 64 * KiB), (32, 128), 8 * KiB, (4, 16, 16))


@pytest.fixture
def quick(monkeypatch):
    """Small loads, one short round, which is always steady; returns the list of devices measured so far."""
    measured = []

    def measure(device):
        measured.append(str(device))
        return really(device)

    really = module._measure
    monkeypatch.setattr(module, "_measure", measure)
    monkeypatch.setattr(module, "_CPU", SMALL)
    monkeypatch.setattr(module, "_ROUNDS", 1)
    monkeypatch.setattr(module, "_LEAST_SECONDS", 1e-6)
    return measured


def test_calibrate_measures_every_size_and_row_length(quick, tmp_path):
    found = calibrate(folder=tmp_path)
    assert [reading[:2] for reading in found.readings] == [(s * KiB, row) for s in (16, 64) for row in (32, 128)]
    assert all(1e6 < reading.bytes_per_second < 1e13 for reading in found.readings)
    assert 1e6 < found.matmul_flops_per_second < 1e14
    assert 1e-8 < found.operation_seconds < 1e-2
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
    monkeypatch.setattr(module, "_LEAST_SECONDS", 1e-9)

    def seconds(call, repeats, device):
        turns.append(call())
        return next(durations) if len(turns) % 2 == 0 else 1e-9

    monkeypatch.setattr(module, "_seconds", seconds)
    rounds = module._rounds({"a": lambda: "a", "b": lambda: "b"}, torch.device("cpu"))
    # Each turn is a first run, which only fills the cache, and one that counts.
    assert turns == ["a", "a", "b", "b"] * 3
    assert rounds == {"a": [1.0, 5.0, 3.0], "b": [10.0, 20.0, 90.0]}


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
    here = Hardware.measure()
    measured = calibrate()
    assert here == measured.hardware() and quick == ["cpu"]
    assert here.memory_bytes == memory_bytes(torch.device("cpu"))
    assert here.bandwidth_bytes_per_second == measured.bandwidth_at(64 * KiB, 1024)
    Hardware.measure(refresh=True)
    assert quick == ["cpu"] * 2


# --- prediction --------------------------------------------------------------------------------------------------


def test_weights_read_are_all_but_an_embedding_that_is_only_looked_up():
    tied, apart = tiny_model(tie_embeddings=True), tiny_model(tie_embeddings=False)
    for model in (tied, apart):
        # V·D of the head, in 3 layers qkv (4 + 2·2)·6·D, out 4·6·D, gate and up 2·10·D, down 10·D, and 7 norms; D = 20.
        expected = 11 * 20 + 3 * 20 * (48 + 24 + 20 + 10) + 7 * 20
        assert sum(weight.numel() for weight in weights_read(model)) == expected
    assert any(weight is tied.embedding.weight for weight in weights_read(tied)), "a tied embedding is the head"
    assert not any(weight is apart.embedding.weight for weight in weights_read(apart))


def test_weights_read_hold_packed_weights_kept_as_buffers():
    model = tiny_model()
    model.layers[0].register_buffer("codes", torch.zeros(10, 4, dtype=torch.uint8))
    assert any(weight is model.layers[0].codes for weight in weights_read(model))


def test_count_operations_counts_no_views():
    x = torch.ones(4, 4)
    assert count_operations(lambda: (x + x).view(16)[2:].mul(3)) == 2
    assert count_operations(lambda: None) == 0


def test_predicted_decode_seconds_are_reading_and_operations():
    model = tiny_model()  # float64: 8 B
    weights = weights_read(model)
    size = sum(weight.nbytes for weight in weights)
    flat = replace(LAPTOP, readings=((1, 1, 1e9),), operation_seconds=1e-6)
    seconds = predicted_decode_seconds(flat, model)
    operations = round((seconds - size / 1e9) / 1e-6)
    # In each of 3 layers at least two norms, four products, one attention, two sums; at most a dozen more.
    assert 27 < operations < 90
    assert seconds == pytest.approx(size / 1e9 + operations * 1e-6)


def test_predicted_decode_seconds_take_each_matrix_at_the_rate_of_its_rows():
    model = tiny_model()
    # Rows of 24 (out) and of 10 (down) numbers and all others of 20, in a set of all weights.
    rates = replace(LAPTOP, readings=((1, 10, 1e9), (1, 20, 2e9), (1, 24, 4e9)), operation_seconds=1e-15)
    down, out = 3 * 10 * 20, 3 * 24 * 20
    rest = sum(weight.numel() for weight in weights_read(model)) - down - out
    expected = 8 * (down / 1e9 + rest / 2e9 + out / 4e9)
    assert predicted_decode_seconds(rates, model) == pytest.approx(expected, rel=1e-6)


def test_predicted_decode_seconds_grow_by_the_cache_read():
    model, flat = tiny_model(), replace(LAPTOP, readings=((1, 1, 1e9),))
    more = predicted_decode_seconds(flat, model, kv_bytes=5e6) - predicted_decode_seconds(flat, model)
    assert more == pytest.approx(5e-3)
    with pytest.raises(ValueError, match="kv_bytes"):
        predicted_decode_seconds(flat, model, kv_bytes=-1)


def test_predicted_decode_seconds_on_a_gpu_are_the_longer_of_reading_and_asking():
    model = tiny_model()
    size = sum(weight.nbytes for weight in weights_read(model))
    gpu = replace(LAPTOP, device="cuda", readings=((1, 1, 1e6),), operation_seconds=1e-9)
    assert predicted_decode_seconds(gpu, model) == pytest.approx(size / 1e6)
    asked = predicted_decode_seconds(replace(gpu, operation_seconds=1.0), model)
    assert asked == round(asked) > 27


def test_predicting_leaves_the_model_as_it_was():
    model = tiny_model()
    before = [weight.clone() for weight in model.parameters()]
    predicted_decode_seconds(LAPTOP, model)
    assert all(map(torch.equal, before, model.parameters()))
