"""Rendering to a store in memory: dead leaves, which need no Blender, by workers of this process."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem

import candlelight.loaders.files.object_stores
from candlelight.cli import main
from candlelight.generators.engine.dataset_description import describe_folder
from candlelight.generators.engine.output_folder import open_output
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.object_stores import open_store
from candlelight.loaders.verification.verify_store import verify_store

pytest.importorskip("distributed")

RECIPE = "dead-leaves", ["image={width: 16, height: 12}", "sets.dead_leaves.draws=5"]
URL = "flaky://far/frames"
ONE = "samples/dead_leaves/0000/00000"


class Flaky(MemoryFileSystem):
    """A store in memory in which any put can be made to fail."""

    protocol = "flaky"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    fail = staticmethod(lambda path: None)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("flaky://"))

    def pipe_file(self, path, value, **kwargs):
        type(self).fail(path)
        super().pipe_file(path, value, **kwargs)

    def put_file(self, lpath, rpath, **kwargs):
        type(self).fail(rpath)
        super().put_file(lpath, rpath, **kwargs)


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe(*RECIPE))


@pytest.fixture(scope="module")
def expected(plan, tmp_path_factory):
    """Return the files that a run to a local folder writes."""
    root = tmp_path_factory.mktemp("local") / "frames"
    render(plan, root, workers=1)
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in files(root)}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """Open an empty store; at the end no staging folder may be left."""
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(
        candlelight.loaders.files.object_stores,
        "OBJECT_STORES",
        {*candlelight.loaders.files.object_stores.OBJECT_STORES, "flaky"},
    )
    monkeypatch.setattr(candlelight.loaders.files.object_stores, "PAUSES", (0.0,) * 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield open_store(URL)
    Flaky.store.clear()
    Flaky.pseudo_dirs[:] = [""]
    Flaky.fail = staticmethod(lambda path: None)
    assert [
        path.name for path in tmp_path.iterdir() if path.name not in ("local", "dask-scratch-space")
    ] == []


def files(root):
    return [path for path in root.rglob("*") if path.is_file() and path.name not in (".lock", ".group-locks")]


def contents(store):
    return {
        name.removeprefix(store.path + "/"): store.fs.cat_file(name) for name in store.fs.find(store.path)
    }


def test_a_store_gets_the_same_files_as_a_folder(plan, store, expected):
    done = []
    outcome = render(plan, URL, workers=2, advance=done.append)
    assert (outcome.found, outcome.written, outcome.failed) == (0, 5, {})
    assert sum(done) == 5
    assert contents(store) == expected


def test_a_run_renders_the_missing_samples(plan, store, expected):
    render(replace(plan, samples=plan.samples[:2]), URL, workers=1)
    store.remove(f"{ONE}1/metadata.json")
    outcome = render(plan, URL, workers=1)
    assert (outcome.found, outcome.written) == (1, 4)
    assert contents(store) == expected
    # Without missing samples nothing is started and nothing is written.
    Flaky.fail = staticmethod(pytest.fail)
    outcome = render(plan, URL, workers=1)
    assert (outcome.found, outcome.written, outcome.cpu_seconds) == (5, 0, 0)


def test_a_put_that_fails_once_is_tried_again(plan, store, expected):
    calls = []

    def fail(path):
        calls.append(path)
        if len(calls) % 3 == 0:
            raise OSError(104, "Connection reset by peer")

    Flaky.fail = staticmethod(fail)
    assert render(plan, URL, workers=2).written == 5
    assert contents(store) == expected


@pytest.mark.parametrize("name", ["image.png", "metadata.json"])
def test_a_put_that_always_fails_ends_the_run_with_one_line(plan, store, expected, name):
    def fail(path):
        if path.endswith(f"000002/{name}"):
            raise OSError(122, "Disk quota exceeded")

    Flaky.fail = staticmethod(fail)
    said = (
        rf"^output folder {URL}: cannot be written: \[Errno 122\] Disk quota exceeded; finished samples are "
        "whole, run again to resume$"
    )
    with pytest.raises(InputError, match=said):
        render(plan, URL, workers=1)
    for index in store.complete("dead_leaves"):
        assert store.names(f"{ONE}{index}") == ["SHA256SUMS", "image.png", "layers.npz", "metadata.json"]
    Flaky.fail = staticmethod(lambda path: None)
    assert render(plan, URL, workers=1).failed == {}
    assert contents(store) == expected


@pytest.mark.parametrize("name", ["dataset.json", "plan.parquet", "SHA256SUMS", ".SHA256SUMS.next"])
@pytest.mark.parametrize("first", [True, False])
def test_the_next_run_completes_the_description_of_a_killed_run(plan, store, expected, name, first):
    def describe(plan):
        with open_output(URL) as output:
            describe_folder(plan, output.folder)
            output.publish(plan.samples.keys)

    def fail(path):
        if path.endswith("/" + name):
            raise KeyboardInterrupt

    if not first:
        describe(plan.limit(1))
    Flaky.fail = staticmethod(fail)
    with pytest.raises(KeyboardInterrupt):
        describe(plan)
    Flaky.fail = staticmethod(lambda path: None)
    describe(plan)
    assert contents(store) == {name: data for name, data in expected.items() if "/" not in name}


def test_another_recipe_and_foreign_files_are_refused(plan, store):
    store.write("thesis.txt", b"mine")
    with pytest.raises(InputError, match=rf"^output folder {URL}: expected an empty folder or a folder"):
        render(plan, URL)
    assert contents(store) == {"thesis.txt": b"mine"}
    store.remove("thesis.txt")
    render(plan.limit(1), URL, workers=1)
    before = contents(store)
    other = make_plan(load_recipe(RECIPE[0], [*RECIPE[1], "seed=5"]))
    with pytest.raises(InputError, match=rf"^output folder {URL}: holds frames of another recipe \(dead-le"):
        render(other, URL)
    assert contents(store) == before
    # Also if the description is damaged and only the samples name their recipe.
    store.write("dataset.json", b"{")
    with pytest.raises(InputError, match="holds frames of another recipe"):
        render(other, URL, repair=True)


def test_repair_renders_damaged_samples_again(plan, store, expected):
    render(plan, URL, workers=1)
    for name in (f"{ONE}1/image.png", f"{ONE}2/metadata.json", f"{ONE}3/SHA256SUMS", "dataset.json"):
        data = store.read(name)
        store.write(name, data[:-9] + b"?" + data[-8:])
    store.remove(f"{ONE}4/layers.npz")
    outcome = render(plan, URL, workers=1, repair=True)
    assert (outcome.found, outcome.written, outcome.damaged, outcome.damaged_outside_plan) == (1, 4, 4, 0)
    assert contents(store) == expected
    assert verify_store(store).whole


def test_any_run_finishes_a_killed_repair(plan, store, expected):
    render(plan, URL, workers=1)
    data = store.read(f"{ONE}2/metadata.json")
    store.write(f"{ONE}2/metadata.json", data + b" ")

    def fail(path):
        raise KeyError(path)

    Flaky.fail = staticmethod(fail)
    with pytest.raises(InputError, match="cannot be written"):
        render(plan, URL, workers=1, repair=True)
    Flaky.fail = staticmethod(lambda path: None)
    assert render(plan, URL, workers=1).written == 1
    assert contents(store) == expected


def test_logs_of_failed_samples_stay_until_the_samples_are_complete(plan, store):
    with open_output(URL) as output:
        (output.folder / "failed").mkdir()
        for index in (1, 2):
            (output.folder / "failed" / f"dead_leaves-00000{index}.log").write_text("why")
        output.publish_logs()
    assert store.names("failed") == ["dead_leaves-000001.log", "dead_leaves-000002.log"]
    store.write(f"{ONE}1/metadata.json", b"{}")
    store.write("dataset.json", b"{}")
    with open_output(URL) as output:
        describe_folder(plan, output.folder, repair=True)
        output.publish(plan.samples.keys)
        assert [sample.index for sample in plan.samples if output.has(sample)] == [1]
    assert store.names("failed") == ["dead_leaves-000002.log"]


def test_a_url_given_as_a_path_is_refused(plan):
    with pytest.raises(InputError, match=r"expected a URL as text, got a Path"):
        render(plan, Path("s3://bucket/frames"))


def test_a_file_url_means_a_local_folder(plan, expected, tmp_path):
    render(plan, f"file://{tmp_path}/local", workers=1)
    assert {
        p.relative_to(tmp_path / "local").as_posix(): p.read_bytes() for p in files(tmp_path / "local")
    } == expected


# ------------------------------------------------------------------------------------------ command line


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_commands_take_urls(plan, store, expected):
    sets = [part for value in RECIPE[1] for part in ("--set", value)]
    done = run("render", RECIPE[0], *sets, "--workers", "1", "--out", URL)
    assert done.exit_code == 0, done.output
    assert f"{URL}: 5 frames written, 0 were there" in done.output
    assert contents(store) == expected
    assert run("info", URL).output.startswith("dead-leaves (folder of frames, ")
    done = run("info", URL, "--verify")
    assert (done.exit_code, done.stdout) == (
        0,
        f"{URL}: 5 samples checked, 0 files damaged, 0 samples missing\n",
    )
    store.write(f"{ONE}1/image.png", b"")
    done = run("info", URL, "--verify")
    assert done.exit_code == 1
    assert f"damaged: {ONE}1/image.png: differs from its line in SHA256SUMS\n" in done.stdout
    assert f"candlelight render RECIPE --repair --out {URL}\n" in done.stdout
    done = run("render", RECIPE[0], *sets, "--workers", "1", "--repair", "--out", URL)
    assert "1 frames were damaged and rendered again" in done.output
    assert contents(store) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("pack", URL, "--to", "hub", "--out", "pack"),
        ("pack", "frames", "--to", "hub", "--out", URL),
        ("export", URL, "--to", "candle", "--out", "candle"),
        ("demo", "--out", URL),
        ("render", RECIPE[0], "--preview", "--out", URL),
        ("counterfactual", "candle", "--limit", "1", "--do", "color=blue", "--out", URL),
    ],
)
def test_commands_that_need_a_local_folder_refuse_urls(arguments, tmp_path):
    done = run(*arguments)
    assert done.exit_code == 2
    assert "expected a local folder" in done.output
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    done = run("render", RECIPE[0], "--out", "nix://bucket")
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        "Error: nix://bucket: cannot be opened: Protocol not known: nix; expected s3://, gs://, az://, "
        "hf://, sftp://, hdfs:// or another of fsspec's",
    )
