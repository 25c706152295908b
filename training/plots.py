"""A run's curve as a picture: training loss, bits per byte of held-out plays, accuracy on held-out problems."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_SMOOTHED_STEPS = 25


def smooth(values: list[float], width: int = _SMOOTHED_STEPS) -> list[float]:
    """Mean of each value and the up to width - 1 before it; as long as the input."""
    means, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - width] if i >= width else 0.0)
        means.append(total / min(i + 1, width))
    return means


def plot_curve(curve: dict[str, Any], path: Path) -> None:
    """Draw the curve (as `train` saves it in JSON) and write the PNG to `path`."""
    million = curve["recipe"]["tokens_per_step"] / 1e6
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.plot([(i + 1) * million for i in range(len(curve["losses"]))], smooth(curve["losses"]), color="tab:blue")
    left.set(title=f"{curve['name']}: training loss", xlabel="million tokens", ylabel="nats a token")
    seen = [point["step"] * million for point in curve["evaluations"]]
    right.plot(seen, [point["bits_per_byte"] for point in curve["evaluations"]], color="tab:blue")
    right.set(title="held-out", xlabel="million tokens")
    right.set_ylabel("bits per byte, plays", color="tab:blue")
    accuracy = right.twinx()
    accuracy.plot(seen, [point["accuracy"]["all"] for point in curve["evaluations"]], color="tab:orange")
    accuracy.set_ylabel("accuracy, problems", color="tab:orange")
    accuracy.set_ylim(0, 1.02)
    figure.savefig(path, dpi=110, format="png")
    plt.close(figure)
