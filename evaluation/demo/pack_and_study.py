"""The steps of `candlelight demo` after rendering: a first sheet of pictures, packs, and the study."""

import shlex
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from candlelight.loaders.errors import require_module
from candlelight.loaders.frames import complete_indices

_SHEET_SET, _SHEET_FRAMES = "tabletop", 8  # the first sheet shows this set as soon as it has so many frames
_RECORDS = "records"  # name of the folder for the records of `make_if_changed`

Tell = Callable[[str], None]


def require_packages() -> None:
    """Check, before anything is rendered, that the packages of the later steps are installed.

    Raises:
        ModuleNotFoundError: a package is missing.
    """
    for name in ("torch", "sklearn", "matplotlib", "datasets"):
        require_module(name, "all")


def with_seconds(write: Tell) -> Tell:
    """Make a function that writes each line with the seconds since the previous line.

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
    """Make a progress function for `render`, which also draws a sheet once there are a few frames.

    Args:
        advance: another progress function, which is called with the same numbers.
        frames: folder of the rendered frames.
        sheet: PNG file to write.
        tell: called with a line when the sheet is written.
    """
    from candlelight.loaders.looking.draw_sheet import draw_sheet

    drawn = False

    def advance_and_draw(count: int) -> None:
        nonlocal drawn
        advance(count)
        if not drawn and len(complete_indices(frames, _SHEET_SET)) >= _SHEET_FRAMES:
            drawn = True
            tell(f"first pictures: {draw_sheet(frames, sheet, _SHEET_SET)}")

    return advance_and_draw


def pack_and_study(frames: Path, out: Path, tell: Tell) -> list[str]:
    """Pack the frames in both formats and run the study; steps whose inputs have not changed are skipped.

    Args:
        frames: folder of frames of the recipe `demo`.
        out: folder for ``hdf5``, ``hub``, ``study``, and ``records`` with the inputs of each step.
        tell: called with a line after each step.

    Returns:
        Lines with a summary of the scores and with next steps.

    Raises:
        InputError: a frame is damaged, or a file cannot be written.
    """
    import torch
    from datasets.utils.logging import disable_progress_bar

    from candlelight.evaluation.demo.rebuild import make_if_changed
    from candlelight.evaluation.demo.study import run_study
    from candlelight.loaders import pack_hdf5, pack_hub

    disable_progress_bar()
    # On such small frames a second thread gains nothing, and on a busy machine it is much slower.
    torch.set_num_threads(1)
    hdf5, hub, study = out / "hdf5", out / "hub", out / "study"
    for pack, folder in ((pack_hdf5, hdf5), (pack_hub, hub)):
        make = partial(pack, frames, folder)
        record = out / _RECORDS / f"{folder.name}.json"
        new = make_if_changed(record, make, reads=[frames], writes=[folder])
        tell(f"{'packed' if new else 'pack is up to date'}: {folder}")
    results = run_study(hub, study, records=out / _RECORDS, tell=tell)
    return [
        *("", *results.summary(), ""),
        f"Open {results.report} in a browser. Next steps:",
        *_activation(),
        f"  candlelight evaluate lmse {frames} --set tabletop_test --model {results.weights}",
        "  candlelight render candle --limit 20 --out candle",
    ]


def _activation() -> list[str]:
    """Return the command that puts `candlelight` on the path, where it is not and the environment has one."""
    script, here = Path(sys.prefix) / "bin" / "activate", Path.cwd()
    if shutil.which("candlelight") or not script.is_file():
        return []
    shown = script.relative_to(here) if script.is_relative_to(here) else script
    return [f"  . {shlex.quote(str(shown))}  # puts `candlelight` on the path"]
