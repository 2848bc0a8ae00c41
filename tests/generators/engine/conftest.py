"""A script in place of the render process, which writes empty samples and does as a test told it before."""

import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

import candlelight.generators.engine.render_plan
import candlelight.generators.engine.render_process
from candlelight.generators.engine import retry_limits, worker_checks
from candlelight.generators.engine.devices import Device

SCRIPT = """#!{python}
import json, os, pathlib, signal, sys, time
replies = os.fdopen(int(sys.argv[-1]), "w")
settings = json.loads(sys.stdin.readline())
root = pathlib.Path(settings["root"])
def note(name, *words):
    with open(root.parent / name, "a") as file:
        print(*words, file=file)
def say(text):
    replies.write(text[:7]); replies.flush()  # a reply may come in pieces
    time.sleep(0.002)
    print(text[7:], file=replies, flush=True)
note("starts", os.getpid(), settings["threads"])
acts = json.loads((root.parent / "acts").read_text())
if "start" in acts:
    print("chatter")
    sys.exit("ImportError: libGL.so.1 is missing")
say(json.dumps({{"ready": True}}))
for line in sys.stdin:
    group = json.loads(line)
    print("tracing", group[0]["id"], flush=True)
    note("asked", os.getpid(), *(sample["id"] for sample in group))
    act = ""
    for sample in group:
        act = acts.get(sample["id"]) or act
        if act == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        folder = root / "samples" / sample["set"] / "0000" / ("%06d" % sample["index"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text("{{}}")
    time.sleep(60 if act == "hang" else acts.get("pause", 0))
    if act == "chatter":
        say("Blender quit")
    if act == "close":
        replies.close()
        time.sleep(60)
    errors = {{"refuse": "no such colour", "full": "[Errno 28] No space left on device"}}
    if act in errors:
        reply = {{"error": errors[act], "fatal": act == "full"}}
    else:
        reply = {{"written": [sample["id"] for sample in group]}}
    say(json.dumps({{**reply, "cpu_seconds": 0.25}}))
"""


@pytest.fixture(scope="module")
def quick_collection() -> None:
    """Leave what is in memory out of the garbage collections that end each run with dask."""
    gc.collect()
    gc.freeze()


@dataclass
class StandIn:
    """The scripts that run in place of render processes; ``out`` is the folder that they write to."""

    out: Path

    def act(self, **acts: object) -> None:
        """Tell scripts that start from now on how to act, by the index of a sample, as in ``_4="crash"``."""
        named = {f"cubes-{int(key[1:]):06d}" if key[0] == "_" else key: act for key, act in acts.items()}
        (self.out.parent / "acts").write_text(json.dumps(named))

    def starts(self) -> list[list[int]]:
        """Return process id and threads of each script that started."""
        return [[int(word) for word in line] for line in self._lines("starts")]

    def asked(self) -> list[list[str]]:
        """Return the ids of the samples of each group that a script was asked for."""
        return [names for _, *names in self._lines("asked")]

    def asked_processes(self) -> set[str]:
        """Return the ids of the processes that were asked for groups."""
        return {process for process, *_ in self._lines("asked")}

    def forget(self) -> None:
        """Begin both lists anew."""
        for name in ("starts", "asked"):
            (self.out.parent / name).unlink(missing_ok=True)

    def _lines(self, name: str) -> list[list[str]]:
        path = self.out.parent / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Iterator[StandIn]:
    """Put the script in place of the render process, without Blender and GPUs, and check that all end."""
    psutil = pytest.importorskip("psutil")
    script = tmp_path / "process"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    module = candlelight.generators.engine.render_process
    monkeypatch.setattr(module, "sys", SimpleNamespace(executable=str(script)))
    monkeypatch.setattr(candlelight.generators.engine.render_plan, "require_rendering", lambda recipe: None)
    monkeypatch.setattr(worker_checks, "find_devices", lambda: [Device("CPU")])
    monkeypatch.setattr(retry_limits, "LOOK_INTERVAL", 0.05)
    monkeypatch.setattr(retry_limits, "LOCKED_GROUPS_INTERVAL", 0.1)
    (stand_in := StandIn(tmp_path / "out")).act()
    yield stand_in
    assert [one for one in psutil.Process().children(recursive=True) if str(script) in one.cmdline()] == []
