"""The picture of a training: loss and BLEU over the updates."""

import io
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def draw(events: Sequence[dict[str, Any]], title: str) -> bytes:
    """A PNG of the journal's ``events``: training and validation loss on the left, BLEU and chrF on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    losses, scores = figure.subplots(1, 2)
    updates = [event for event in events if event["event"] == "update"]
    looks = [event for event in events if event["event"] == "validation"]
    losses.plot(*_line(updates, "loss"), color="#9aa5b1", linewidth=1, label="training (smoothed labels)")
    losses.plot(*_line(looks, "loss"), color="#1f6feb", marker=".", label="validation")
    losses.set_ylabel("nats a target piece")
    scores.plot(*_line(looks, "bleu"), color="#1f6feb", marker=".", label="BLEU")
    scores.plot(*_line(looks, "chrf"), color="#d97706", marker=".", label="chrF")
    best = [event for event in looks if event["best"]]
    if best:
        scores.axvline(best[-1]["step"], color="#9aa5b1", linestyle=":", label=f"best: BLEU {best[-1]['bleu']:.1f}")
    scores.set_ylim(bottom=0)
    for axes in (losses, scores):
        axes.set_xlabel("update")
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, parse_math=False)
    picture = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # a title in a script that the font does not have
        figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    return picture.getvalue()


def _line(events: Sequence[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    known = [(event["step"], event[key]) for event in events if event[key] is not None]
    return [step for step, _ in known], [value for _, value in known]
