"""An estimate as text."""

from collections.abc import Sequence

from generators.extrapolation import Estimate, StratumCost
from generators.plan import Plan
from generators.settings import settings, stored_layers
from generators.strata import TRAITS

SHOWN = 24  # strata, the costliest first
WORKERS = (1, 16, 128)


def estimate_text(plan: Plan, found: Estimate, workers: Sequence[int] = ()) -> str:
    """Say what a plan takes: CPU time, hours for some numbers of workers, gigabytes, and why.

    Args:
        plan: the plan.
        found: its estimate.
        workers: for which numbers of workers; by default for `WORKERS` and those of this machine.

    Returns:
        Several lines.
    """
    here = found.machine.workers
    head = (
        f"{plan.recipe.name}: {found.samples} samples from {found.traces} traces; "
        f"planned in {duration(found.overhead.planning)} of CPU time"
    )
    if not found.traces:
        return f"{head}\nnothing is left to render"
    parts = [head, _measured(found), "", _strata_table(plan, found), "", _cpu_line(found)]
    parts.append(f"frames: {size(found.bytes)} on disk, {found.inodes:.0f} files and folders")
    parts += ["", "workers  time       CPU time"]
    for count in sorted({*workers} or {*WORKERS, here}):
        note = "  this machine's default" if count == here else ""
        parts.append(
            f"{count:7d}  {duration(found.wall_seconds(count)):9}  {duration(found.cpu_seconds(count))}{note}"
        )
    if max(workers or WORKERS) > here:
        parts.append(f"More than {here} workers are taken to be on more machines like this one.")
    if found.failed:
        first, reason = next(iter(found.failed.items()))
        parts.append(
            f"{len(found.failed)} traces could not be rendered and are left out, the first {first}: {reason}"
        )
    return "\n".join(parts)


def duration(seconds: float) -> str:
    """Write a duration with a unit that fits.

    Example:
        >>> [duration(one) for one in (0.25, 59.0, 90.0, 7200.0, 3.6e6)]
        ['0.2 s', '59.0 s', '1.5 min', '2.0 h', '1000 h']
    """
    for limit, divisor, unit in ((60.0, 1.0, "s"), (3600.0, 60.0, "min")):
        if seconds < limit:
            return f"{seconds / divisor:.1f} {unit}"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:.0f} h"


def size(count: float) -> str:
    """Write a number of bytes in gigabytes, or in megabytes where there are few.

    Example:
        >>> size(2.5e6), size(3.21e9), size(4.5e14)
        ('2.5 MB', '3.2 GB', '450000.0 GB')
    """
    return f"{count / 1e6:.1f} MB" if count < 1e8 else f"{count / 1e9:.1f} GB"


def _measured(found: Estimate) -> str:
    text = f"measured on {found.readings} traces of {len(found.strata)} strata in {duration(found.measured)}"
    return text + (": longer than asked for, to see every stratum" if found.late else "")


def _cpu_line(found: Estimate) -> str:
    count = found.machine.workers
    total, processes = found.cpu_seconds(), found.processes(count)
    plural = "es" if processes > 1 else ""
    shares = (
        f"traces {duration(found.tracing(count))}, "
        f"start of {processes} render process{plural} {duration(found.starting(count))}, "
        f"planning and handing out {duration(found.owning(count))}"
    )
    if not found.uncertainty:
        return f"CPU time: {duration(total)}; {shares}"
    low, high = max(0.0, total - found.uncertainty), total + found.uncertainty
    return f"CPU time: {duration(total)}, 95 % from {duration(low)} to {duration(high)} by spread; {shares}"


def _strata_table(plan: Plan, found: Estimate) -> str:
    total = max(found.tracing(found.machine.workers), 1e-9)
    ordered = sorted(found.strata, key=lambda cost: -cost.total(found.machine.workers).cpu)
    rows: list[tuple[str, ...]] = [(*TRAITS, "size", "layers", "traces", "seen", "CPU s each", "share")]
    rows += [_row(plan, cost, found.machine.workers, total) for cost in ordered[:SHOWN]]
    if others := ordered[SHOWN:]:
        count = sum(len(cost.stratum.groups) for cost in others)
        cpu = sum(cost.total(found.machine.workers).cpu for cost in others)
        seen = sum(cost.readings for cost in others)
        blank = [""] * (len(TRAITS) + 1)
        numbers = str(count), str(seen), f"{cpu / count:.2f}", f"{cpu / total:.0%}"
        rows.append((f"{len(others)} more", *blank, *numbers))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(plan: Plan, cost: StratumCost, workers: int, total: float) -> tuple[str, ...]:
    name, count = cost.stratum.traits[0], len(cost.stratum.groups)
    image = settings(plan.recipe, name).image
    cpu = cost.total(workers).cpu
    layers = len(stored_layers(plan.recipe, name))
    each = f"{cpu / count:.2f}" + (f" +- {cost.deviation:.2f}" if cost.deviation else "")
    numbers = str(count), str(cost.readings), each, f"{cpu / total:.0%}"
    return *cost.stratum.traits, f"{image.width}x{image.height}", str(layers), *numbers
