"""A journal's events as what a page shows: numbers of now, curves, sample translations, warnings."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

POINTS = 500
"""Most points of a curve: about as many as a screen can show."""

STAGES = 12
"""Most translations of one sentence, from the first to the newest."""

SAMPLES = 3
"""Sentences whose translations are shown."""

WARNINGS = 50
"""Most warnings that are shown, the newest first; all are counted."""

Event = dict[str, Any]
Pairs = Sequence[tuple[str, str]]
Item = TypeVar("Item")


def sound(events: Iterable[Any]) -> list[Event]:
    """The events that say what they are and when; a journal may have been written by another version."""
    return [event for event in events if isinstance(event, dict) and number(event, "step") is not None]


def number(event: Event, key: str) -> float | None:
    """A finite number, or None."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < math.inf else None


def state(events: Sequence[Event], is_running: bool) -> str:
    """One word: preparing, running, finished, stopped, or empty where nothing was ever trained."""
    if is_running:
        return "running" if events else "preparing"
    if not events:
        return "empty"
    return "finished" if events[-1].get("event") == "end" else "stopped"


def now(events: Sequence[Event], steps: int | None) -> dict[str, Any]:
    """The numbers of this moment; None where there is none yet.

    Args:
        steps: that were planned; the journal may know better.
    """
    updates, looks = _of(events, "update"), _of(events, "validation")
    update, look = (updates or [{}])[-1], (looks or [{}])[-1]
    steps = next((int(plan["steps"]) for plan in reversed(_of(events, "plan")) if number(plan, "steps")), steps)
    best = next((each for each in reversed(looks) if each.get("best") is True), {})
    step = max((event["step"] for event in events), default=0)
    return {
        "step": step,
        "steps": steps,
        "epoch": number(update, "epoch"),
        "loss": number(update, "loss"),
        "tokens_per_second": number(update, "tokens_per_second"),
        "seconds_left": number(update, "seconds_left") if steps is None or step < steps else 0.0,
        "validation_loss": number(look, "loss"),
        "best_bleu": number(best, "bleu"),
        "best_step": number(best, "step"),
    }


def curves(events: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """Points (step, value), thinned to :data:`POINTS` a curve."""
    return {
        "training": _curve(_of(events, "update"), "loss"),
        "validation": _curve(_of(events, "validation"), "loss"),
        "bleu": _curve(_of(events, "validation"), "bleu"),
        "chrf": _curve(_of(events, "validation"), "chrf"),
    }


def samples(events: Sequence[Event], pairs: Pairs) -> list[dict[str, Any]]:
    """How the translations of the first validation pairs grew.

    There are none where validations noted none, and pairs without a translation before the first validation. ``pairs``
    may be missing: a finished model does not need them.
    """
    looks = _of(events, "validation")
    noted = [(look["step"], look["examples"]) for look in looks if isinstance(look.get("examples"), list)]
    if looks and not noted:
        return []
    most = max([len(pairs), *(len(examples) for _, examples in noted)])
    found = []
    for index in range(min(most, SAMPLES)):
        source, reference = pairs[index] if index < len(pairs) else ("", "")
        stages = _stages([(step, examples[index]) for step, examples in noted if index < len(examples)])
        found.append({"source": source, "reference": reference, "stages": stages})
    return found


def warnings(events: Sequence[Event]) -> dict[str, Any]:
    """What went wrong on the way and did not end the training."""
    texts = [{"step": event["step"], "text": _warning(event)} for event in events if _warning(event)]
    return {"count": len(texts), "newest": texts[: -WARNINGS - 1 : -1]}


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """At most ``most`` (two or more) of the items, evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def _of(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event.get("event") == kind]


def _curve(events: Sequence[Event], key: str) -> list[tuple[float, float]]:
    points = [(event["step"], value) for event in events if (value := number(event, key)) is not None]
    return [(step, round(value, 4)) for step, value in thinned(points, POINTS)]


def _stages(translations: Sequence[tuple[int, Any]]) -> list[dict[str, Any]]:
    """Each translation once, with the step that brought it."""
    changes: list[dict[str, Any]] = []
    for step, text in translations:
        if not changes or changes[-1]["text"] != str(text):
            changes.append({"step": step, "text": str(text)})
    return thinned(changes, STAGES)


def _warning(event: Event) -> str:
    match event:
        case {"event": "skipped"}:
            return "update skipped: its loss or gradient was not finite"
        case {"event": "not saved", "what": what, "reason": reason}:
            return f"{what} not saved: {reason}"
        case {"event": "out of memory", "what": "reading"}:
            return "out of memory: pairs read again"
        case {"event": "out of memory", "what": what}:
            return f"out of memory: {what} skipped"
        case {"event": "out of memory", "batches": batches, "lost": lost}:
            return f"out of memory: cut into {batches} smaller batches{f', {lost} pairs left out' if lost else ''}"
        case {"event": "step back", "to": step, "reason": reason, "rate_factor": factor}:
            return f"back to the weights of update {step} with {factor} times the learning rate: {reason}"
    return ""
