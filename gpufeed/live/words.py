"""The figures of a snapshot in words, as both views have them."""

from __future__ import annotations

from collections.abc import Mapping

from gpufeed.live.snapshots import Snapshot

__all__ = ["HELD_UP", "limit", "time_left"]

HELD_UP = 0.1
"""Share of its time that a consumer waits from which on the loader is the limit."""


def limit(waiting_share: float, stages: Mapping[str, float]) -> str:
    """Return what bounds a job, by its consumer's waiting and the seconds of each stage at work."""
    if waiting_share < HELD_UP:
        return "the consumer is the limit"
    most = max(stages, key=lambda name: stages[name])
    where = f"; most of its time is {most.replace('_', ' ')}" if stages[most] else ""
    return f"the loader is the limit{where}"


def time_left(snapshot: Snapshot) -> str:
    """Return the time to the end of the epoch at the pass's pace; "-" before its first batch."""
    stats = snapshot["stats"]
    if not stats["batches"]:
        return "-"
    left = stats["steps_in_epoch"] - stats["step_in_epoch"]
    seconds = round(left * stats["seconds"] / stats["batches"])
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
