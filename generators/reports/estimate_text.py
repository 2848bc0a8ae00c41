"""Describe an estimate of the cost of rendering as text."""

from collections.abc import Sequence

from candlelight.generators.planning.plan import Plan
from candlelight.generators.reports.estimate import Estimate

_WORKERS_SHOWN = (1, 16, 128)  # numbers of workers in the report by default
_NOTES = """\
A worker is one render process with its own processor (or GPU). Each is as fast as on this machine with its
default number of workers; more workers need more machines of this kind. Time is measured from start to end.
CPU time includes planning and all render processes; +- is two standard errors, from the spread of the timed
traces."""


def estimate_text(plan: Plan, found: Estimate, workers: Sequence[int] = ()) -> str:
    """Describe an estimate as text: timed traces, gigabytes, and hours for some numbers of workers.

    Args:
        plan: the plan.
        found: its estimate.
        workers: numbers of workers; by default 1, 16, 128 and this machine's.
    """
    head = f"{plan.recipe.name}: {found.samples} samples from {len(plan.groups)} traces"
    if not found.sets:
        return f"{head}\nall frames are rendered"
    here = found.workers
    lines = [
        f"{head}, planned and distributed in {duration(found.planning)} of CPU time",
        *(
            f"  {one.name}: {one.groups} traces of {_short(one.mean[0])} CPU s (standard deviation "
            f"{one.deviation:.2g}) and {_short(one.mean[2] / 1e6)} MB; {len(one.timed)} timed"
            for one in found.sets
        ),
        f"timed {sum(len(one.timed) for one in found.sets)} traces in {duration(found.seconds)}, {here} at a "
        f"time; a render process starts in {duration(found.start.cpu)} of CPU time",
        f"frames: {_short(found.total(1).bytes / 1e9)} GB on disk, {found.total(1).inodes:.0f} inodes",
        "",
        "workers  time      CPU time",
    ]
    for count in sorted({*workers} or {*_WORKERS_SHOWN, here}):
        total = found.total(count)
        spread = f"+-{found.uncertainty / max(total.cpu, 1e-9):.0%}"
        note = "  this machine's default" if count == here else ""
        lines.append(f"{count:7d}  {duration(total.seconds):8}  {duration(total.cpu):8} {spread}{note}")
    lines.append(_NOTES)
    if found.failed:
        first, reason = next(iter(found.failed.items()))
        lines.append(
            f"{len(found.failed)} traces failed and are counted like the others, the first {first}: {reason}"
        )
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours.

    Example:
        >>> [duration(one) for one in (0.25, 59.0, 90.0, 7200.0, 3.6e6)]
        ['0.25 s', '59 s', '1.5 min', '2 h', '1000 h']
    """
    unit, divisor = ("s", 1) if seconds < 60 else ("min", 60) if seconds < 3600 else ("h", 3600)
    return f"{_short(seconds / divisor)} {unit}"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
