# %% early returns
def bottleneck(intensity, hardware):
    if not 0 <= intensity < float("inf"):
        raise ValueError(f"intensity is {intensity}")
    if intensity >= ridge_point(hardware):
        return "compute"
    return "memory"


# %% the two times of a byte
def bottleneck(intensity, hardware):
    require_not_negative(intensity=intensity)
    reading = hardware.peak_flops_per_second
    arithmetic = intensity * hardware.bandwidth_bytes_per_second
    return "compute" if arithmetic >= reading else "memory"


# %% an index into a pair
def bottleneck(intensity, hardware):
    require_not_negative(intensity=intensity)
    return ("memory", "compute")[intensity >= ridge_point(hardware)]


# %% NumPy
import numpy as np


def bottleneck(intensity, hardware):
    if not np.isfinite(intensity) or intensity < 0:
        raise ValueError("intensity must be finite and 0 or more")
    ridge = np.float64(hardware.peak_flops_per_second) / hardware.bandwidth_bytes_per_second
    return str(np.where(intensity < ridge, "memory", "compute"))


# %% match and a helper of its own
import math


def bottleneck(intensity: float, hardware: Hardware) -> str:
    def ridge():
        return hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second

    if math.isnan(intensity) or math.isinf(intensity) or intensity < 0:
        raise ValueError("the intensity must be a finite number, 0 or more")
    match intensity < ridge():
        case True:
            return "memory"
        case _:
            return "compute"
