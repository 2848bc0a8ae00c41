"""The child's end, in this process, with a renderer that makes nothing."""

import json

import pytest

from generators.engine.render_server import TRACE_GROUPS, serve
from generators.language.load_recipe import load_recipe
from generators.planning.plan import make_plan
from loaders.errors import InputError


class Idle:
    """Writes no group, and ends each as its number in `ends` says."""

    ends: tuple[Exception | None, ...] = ()

    def __init__(self, root, recipe, threads, wish):
        pass

    def trace(self, group):
        return lambda: self.finish(group[0])

    def finish(self, sample):
        if end := self.ends[sample.index]:
            raise end
        return [sample.id]


@pytest.fixture
def pipes(tiny, tmp_path):
    """Give the requests of a job, one line of two groups, and where the replies go."""
    recipe = load_recipe(tiny)
    job = {"root": "out", "recipe": recipe.model_dump(mode="json"), "threads": 1, "device": {"device": "cpu"}}
    groups = tuple((sample,) for sample in make_plan(recipe).samples[:2])
    (tmp_path / "requests").write_text(f"{json.dumps(job)}\n{TRACE_GROUPS.dump_json(groups).decode()}\n")
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
    monkeypatch.setattr(Idle, "ends", (end, None))
    serve(*pipes, Idle)
    ready, failed, written = answers(pipes[1])
    assert ready == {"ready": True}
    assert (failed["error"], failed["fatal"]) == (error, fatal)
    assert written["written"] == ["cubes-000001"]
    assert failed["cpu_seconds"] >= 0


@pytest.mark.parametrize("ends", [(KeyError("boo"), None), (None, KeyError("boo"))])
def test_whatever_else_ends_the_writing_ends_the_child(pipes, monkeypatch, ends):
    """Also that of a line's last group: else the owner would wait for its answer until the time is up."""
    monkeypatch.setattr(Idle, "ends", ends)
    with pytest.raises(KeyError, match="boo"):
        serve(*pipes, Idle)
    assert len(answers(pipes[1])) == 1 + ends.index(next(end for end in ends if end))
