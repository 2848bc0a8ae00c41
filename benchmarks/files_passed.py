"""Count the source files whose functions run in four operations: the fewer, the easier to follow.

    python -m benchmarks.files_passed [FOLDER]

Counted are the files of this repository of which a function is called, in the command's process and in the
render process (`sys.setprofile`); calls while a module is being imported do not count.

- **albedo**: from the factor `color` of the recipe `candle` to the pixels of the layer `albedo` on disk:
  reading the recipe, planning one sample, rendering it.
- **pack_hub**: two frames to a Hugging Face folder.
- **read**: `HDF5Frames(path)[0]`.
- **crash**: from the moment when the render process is killed to the line that the command prints.

FOLDER keeps the frames, for a look; by default they are removed.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("generators", "loaders", "evaluation", "blender_assets", "__init__.py", "cli.py")
# The render process runs this before anything of ours: the same count, and on demand its own death.
CHILD = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from benchmarks.files_passed import watch_child
watch_child()
"""


class Passed:
    """The files of which functions were called, with the time of the last call."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self._names: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as a function for `sys.setprofile`."""
        if event != "call":
            return
        path = frame.f_code.co_filename
        if path not in self._names:
            self._names[path] = _name(path)
        name = self._names[path]
        if name is not None and (name in self.last or not _imports(frame)):
            self.last[name] = time.time()


def _name(path: str) -> str | None:
    try:
        name = Path(path).resolve().relative_to(ROOT)
    except ValueError:
        return None
    return str(name) if name.parts[0] in PACKAGES else None


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def counted(work: Callable[[], object]) -> Passed:
    """Run a function and return the files that it passed, in this process and its threads."""
    passed = Passed()
    threading.setprofile(passed)
    sys.setprofile(passed)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return passed


def watch_child() -> None:
    """Count in a render process; kill it at its first trace if that is what is measured."""
    passed, folder = Passed(), Path(os.environ["FILES_PASSED"])
    crash = bool(os.environ.get("FILES_PASSED_CRASH"))

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        before = len(passed.last)
        passed(frame, event, argument)
        if crash and event == "call" and frame.f_code.co_filename.endswith("blender/passes.py"):
            (folder / "died").touch()
            os.abort()
        if len(passed.last) > before:
            (folder / str(os.getpid())).write_text("\n".join(passed.last))

    threading.setprofile(watch)
    sys.setprofile(watch)


def _render(arguments: list[str]) -> None:
    from click.testing import CliRunner

    from candlelight.cli import main as command

    result = CliRunner().invoke(command, ["render", "candle", "--limit", "1", "--workers", "1", *arguments])
    print("   ", result.output.strip().splitlines()[-1])


def measure(folder: Path) -> dict[str, set[str]]:
    """Return the files passed on each way."""
    from candlelight.loaders import HDF5Frames, pack_hdf5, pack_hub

    hook, notes = folder / "hook", folder / "notes"
    hook.mkdir()
    notes.mkdir()
    (hook / "sitecustomize.py").write_text(CHILD)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hook), str(ROOT), str(ROOT / "src")])
    os.environ["FILES_PASSED"] = str(notes)
    small = ["--set", "image.width=32", "--set", "image.height=24", "--preset", "draft"]
    frames = folder / "frames"
    albedo = set(counted(lambda: _render([*small, "--out", str(frames)])).last)
    for note in notes.iterdir():
        albedo |= set(note.read_text().splitlines())
        note.unlink()
    pack = set(counted(lambda: pack_hub(frames, folder / "hub")).last)
    pack_hdf5(frames, folder / "h5")
    file = next((folder / "h5").glob("*.h5"))
    read = set(counted(lambda: HDF5Frames(file)[0]).last)
    os.environ["FILES_PASSED_CRASH"] = "1"
    crash = counted(lambda: _render([*small, "--out", str(folder / "crashed")]))
    died = (notes / "died").stat().st_mtime
    after = {name for name, last in crash.last.items() if last >= died}
    return {"albedo": albedo, "pack_hub": pack, "read": read, "crash": after}


def main() -> None:
    """Print the number of files on each way, and their names."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        for way, files in measure(root).items():
            print(f"{way}: {len(files)}")
            print("    " + "\n    ".join(sorted(files)))


if __name__ == "__main__":
    main()
