"""The demonstration from its first frames on: a sheet of pictures, packs, the study, and lines about them."""

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from evaluation.demo.rebuild import make_if_changed
from loaders.frames import complete_indices

FIRST, ENOUGH = "tabletop", 8  # set of the first sheet, and how many frames it is chosen from
RECORDS = "records"  # folder of `make_if_changed`

Tell = Callable[[str], None]


def require_packages() -> None:
    """Refuse before anything is rendered that packages are missing which are needed only later.

    Raises:
        ModuleNotFoundError: one is.
    """
    for name in ("torch", "datasets"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)


def with_seconds(write: Tell) -> Tell:
    """Make a function that writes a line after the seconds that passed since the line before.

    Example:
        >>> tell = with_seconds(print)
        >>> tell("nothing was done")
           0 s  nothing was done
    """
    last = time.monotonic()

    def tell(line: str) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        write(f"{last - before:4.0f} s  {line}")

    return tell


def with_first_sheet(
    advance: Callable[[int], object], frames: Path, sheet: Path, tell: Tell
) -> Callable[[int], None]:
    """Make a function for `render` to call, which draws a sheet as soon as there are a few frames.

    Args:
        advance: is called with the same numbers.
        frames: folder that is rendered into.
        sheet: PNG to write.
        tell: is called with a line when the sheet is there.
    """
    from loaders.looking.draw_sheet import draw_sheet

    drawn = False

    def advance_and_draw(count: int) -> None:
        nonlocal drawn
        advance(count)
        if not drawn and len(complete_indices(frames, FIRST)) >= ENOUGH:
            drawn = True
            tell(f"first pictures: {draw_sheet(frames, sheet, FIRST)}")

    return advance_and_draw


def pack_and_study(frames: Path, out: Path, tell: Tell) -> list[str]:
    """Pack the frames in both forms and run the study, leaving out all that is there for the same frames.

    Args:
        frames: rendered from the recipe `demo`.
        out: folder for ``hdf5``, ``hub``, ``study`` and ``records`` of what each was made of.
        tell: is called with a line after each step.

    Returns:
        Lines that sum up the scores, and say where to read on.

    Raises:
        InputError: a frame is damaged, or a file cannot be written.
    """
    import torch
    from datasets.utils.logging import disable_progress_bar

    from evaluation.demo.study import run_study
    from loaders import pack_hdf5, pack_hub

    disable_progress_bar()
    # On frames this small a second thread gains nothing, and on a busy machine it loses much.
    torch.set_num_threads(1)
    hdf5, hub, study = out / "hdf5", out / "hub", out / "study"
    for pack, folder in ((pack_hdf5, hdf5), (pack_hub, hub)):
        make = partial(pack, frames, folder)
        new = make_if_changed(out / RECORDS / f"{folder.name}.json", make, reads=[frames], writes=[folder])
        tell(f"{'packed' if new else 'pack of the same frames'}: {folder}")
    made = run_study(hub, study, records=out / RECORDS, tell=tell)
    return [
        *("", *made.summary(), ""),
        f"Look at {made.report} in a browser. To go on:",
        f"  candlelight evaluate intrinsic {frames} --set tabletop_test --model {made.weights}",
        "  candlelight render candle --limit 20 --out candle",
    ]
