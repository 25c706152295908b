"""A machine whose measurement is made up, with round figures."""

from nanolm.machine import Measurement, OperationCost, Reading

MiB = 1 << 20
LAPTOP = Measurement(
    machine="desk",
    processor="a processor",
    device="cpu",
    threads=2,
    torch="2.13.0",
    date="2030-01-01T12:00:00+00:00",
    memory_bytes=16e9,
    readings=(
        Reading(4 * MiB, 256, 30e9),
        Reading(4 * MiB, 1024, 50e9),
        Reading(64 * MiB, 256, 8e9),
        Reading(64 * MiB, 1024, 16e9),
    ),
    matmul_flops_per_second=1e11,
    operations=(OperationCost(1e3, 4e-6), OperationCost(64e3, 10e-6)),
    spread=1.1,
    packed_readings={"int8": (Reading(4 * MiB, 512, 20e9),)},
)
