"""The server of a render process, run in this process with a renderer that writes nothing."""

import json
from contextlib import suppress

import pytest

from candlelight.generators.engine import render_server
from candlelight.generators.engine.render_server import TRACE_GROUP, serve
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.errors import InputError


class IdleRenderer:
    """A renderer that writes nothing; `ends` holds the exception, if any, for each sample number."""

    ends: tuple[Exception | None, ...] = ()

    def __init__(self, root, recipe, threads, device):
        pass

    def trace(self, group):
        return lambda: self.finish(group[0])

    def finish(self, sample):
        if end := self.ends[sample.index]:
            raise end
        return [sample.id]


@pytest.fixture
def pipes(tiny, tmp_path):
    """Open a file of requests, with settings and two groups, and a file for the replies."""
    recipe = load_recipe(tiny)
    settings = {"root": "out", "threads": 1, "device": {"device": "cpu"}}
    settings["recipe"] = recipe.model_dump(mode="json")
    groups = tuple((sample,) for sample in make_plan(recipe).samples[:2])
    lines = [json.dumps(settings), *(TRACE_GROUP.dump_json(group).decode() for group in groups)]
    (tmp_path / "requests").write_text("\n".join(lines) + "\n")
    with (tmp_path / "requests").open() as requests, (tmp_path / "replies").open("w+") as replies:
        yield requests, replies


def answers(replies):
    replies.seek(0)
    return [json.loads(line) for line in replies]


@pytest.mark.parametrize(
    ("end", "error", "fatal"),
    [
        (InputError("no such colour"), "no such colour", False),
        (OSError(28, "No space left on device", "out/a"), "No space left on device: out/a", True),
    ],
)
def test_every_group_is_answered_in_turn(pipes, monkeypatch, end, error, fatal):
    monkeypatch.setattr(IdleRenderer, "ends", (end, None))
    serve(*pipes, IdleRenderer)
    ready, failed, written = answers(pipes[1])
    assert ready == {"ready": True}
    assert (failed["error"], failed["fatal"]) == (error, fatal)
    assert written["written"] == ["cubes-000001"]
    assert failed["cpu_seconds"] >= 0


@pytest.mark.parametrize("ends", [(KeyError("boo"), None), (None, KeyError("boo"))])
def test_any_other_exception_while_writing_ends_the_process(pipes, monkeypatch, capfd, ends):
    """Otherwise the owner would wait for the answer until the time limit."""

    def leave(status):
        raise SystemExit(status)

    monkeypatch.setattr(render_server.os, "_exit", leave)
    monkeypatch.setattr(IdleRenderer, "ends", ends)
    with suppress(SystemExit):  # raised in the other thread, which hands it on if there is another group
        serve(*pipes, IdleRenderer)
    assert len(answers(pipes[1])) == 1 + ends.index(next(end for end in ends if end))
    assert "KeyError: 'boo'" in capfd.readouterr().err
