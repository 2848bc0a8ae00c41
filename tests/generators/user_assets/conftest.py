"""One Blender that answers most requests of these tests, because each start of Blender takes a second."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.generators.user_assets import asset_folders, import_meshes

# Runs a module or a script as a process of its own would; what Blender prints goes to stderr.
SERVER = """
import io, json, os, runpy, sys
asked, done = sys.stdin, os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in asked:
    run, name, text, sys.argv[1:] = json.loads(line)
    sys.stdin = io.StringIO(text)
    getattr(runpy, run)(name, run_name="__main__")
    print(file=done, flush=True)
"""


@pytest.fixture(scope="session")
def ask_blender(tmp_path_factory) -> Iterator[Callable[..., None]]:
    """Return a function that runs a module or a script in the same Blender as all others."""
    log = tmp_path_factory.mktemp("one_blender") / "log"
    command = [sys.executable, "-P", "-W", "ignore", "-c", SERVER]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):

        def ask(run: str, name: str, text: str, *words: object) -> None:
            print(
                json.dumps([run, name, text, [str(word) for word in words]]), file=process.stdin, flush=True
            )
            assert process.stdout.readline(), log.read_text()

        yield ask
        process.stdin.close()


@pytest.fixture(scope="session")
def run_script(ask_blender, tmp_path_factory) -> Callable[..., None]:
    """Return a function that runs a script, given as text, with arguments."""

    def run(script: str, *words: object) -> None:
        path = tmp_path_factory.mktemp("script") / "script.py"
        path.write_text(script)
        ask_blender("run_path", str(path), "", *words)

    return run


@pytest.fixture(scope="session")
def ask_helper(ask_blender, tmp_path_factory) -> Callable[..., HelperOutput]:
    """Return a function in place of `run_helper`, which starts no process."""
    replies = tmp_path_factory.mktemp("one_blender") / "replies"

    def run_helper(module: str, request: Any, time_limit: float, late: str) -> HelperOutput:
        ask_blender("run_module", module, json.dumps(request), replies)
        lines = replies.read_text(encoding="utf-8").splitlines()
        return HelperOutput(tuple(map(json.loads, lines)), 0, "")

    return run_helper


@pytest.fixture
def one_blender(ask_helper, monkeypatch) -> Callable[..., HelperOutput]:
    """Let one Blender answer in place of a helper process for each request."""
    for module in (asset_folders, import_meshes):
        monkeypatch.setattr(module, "run_helper", ask_helper)
    return ask_helper
