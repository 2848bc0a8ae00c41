"""Interrupted evaluations resume: the results have the same bytes, and models run only on missing batches."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run import result
from candlelight.evaluation.run import steps as finished_steps
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.steps import RECORD, FinishedSteps, model_key
from candlelight.evaluation.views import ConceptSet, PartImage
from candlelight.loaders.schema import FactorInfo
from tests.refusals import refused

SHAPE = (3, 20, 24)


class Counted(torch.nn.Module):
    """A model that counts its calls and raises KeyboardInterrupt at one of them."""

    def __init__(self, run, dies_at: int | None = None) -> None:
        super().__init__()
        self.run, self.dies_at, self.calls = run, dies_at, 0

    def forward(self, image):
        self.calls += 1
        if self.calls == self.dies_at:
            raise KeyboardInterrupt
        return self.run(image)


def named(model, sha256: str | None = "ab") -> NamedModel:
    return NamedModel(ModelIdentity("mine", "callable", "mine.py:mine", sha256), model, "linear")


def _split(image):
    shading = image.mean((1, 2), keepdim=True).expand_as(image) + 0.05
    return image / shading, shading


def images(count: int) -> list[torch.Tensor]:
    return list(torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(0)))


@pytest.fixture
def evaluations(memory_view, decompositions, monkeypatch):
    """Return each evaluation by name: its model, and a function of the model and the steps."""
    few_resamples = partial(resampled_interval, resamples=5)
    # Collecting the garbage of the whole test process takes most of the time of a batch that is halved.
    monkeypatch.setattr("candlelight.evaluation.run.batches.gc.collect", lambda: 0)
    # The package has a function of the module's name.
    for module in ("concepts.csm", "concepts.score_csm"):
        loaded = sys.modules[f"candlelight.evaluation.{module}"]
        monkeypatch.setattr(loaded, "resampled_interval", few_resamples)
    monkeypatch.setattr("candlelight.evaluation.causal.measure_codes.MOST_RESAMPLES", 5)
    pictures = images(10)
    stacked = torch.stack(pictures)
    decomposed = decompositions(stacked, 0.2 + stacked.flip(0))
    masks = [{"left": image[0] > 0.7, "right": image[1] > 0.7} for image in pictures]
    parts = memory_view([PartImage(image, found) for image, found in zip(pictures, masks, strict=True)])
    table = np.array([[row // 5, row % 5] for row in range(10)], np.float64)
    infos = tuple(FactorInfo(name=name, kind="categorical", values=tuple("abcde")) for name in ("x", "y"))
    factors = memory_view(pictures, factors=infos, table=table)
    chosen = tuple(
        ConceptSet({"light": str(start)}, (start, start + 1, start + 2, start + 3)) for start in (0, 4)
    )
    small = [image[:, :6, :8].contiguous() for image in pictures]
    albedo = memory_view(small, name="albedo", sets=chosen, varies="albedo")
    lit = memory_view(small[::-1], name="lit", sets=chosen, varies="illumination")
    negatives = memory_view([image[:, 9:15, 9:17].contiguous() for image in pictures[:8]], name="negative")
    test = decompositions(torch.stack(small), 0.2 + torch.stack(small[::-1]))
    views = CSMData(test, negatives, albedo, lit)

    def concepts(model, **options):
        few = {"runs": 3, "permutations": 19}
        return evaluate("csm", views, {"m": model}, **few, **options)["m"]

    return {
        "intrinsic": (
            _split,
            lambda model, **options: evaluate("lmse", decomposed, {"m": model}, **options)["m"],
        ),
        "coverage": (
            lambda image: image[:, :2],
            lambda model, **options: evaluate("coverage", parts, {"m": model}, quick=True, **options)["m"],
        ),
        "causal": (
            lambda image: image.mean(3).flatten(1),
            lambda model, **options: evaluate(
                "codes", factors, {"m": model}, metrics=["irs"], controls=False, **options
            )["m"],
        ),
        "concepts": (_split, concepts),
    }


# Calls of an uninterrupted run with batches of 2, the interrupted call, and the calls of the resumed run.
# Concepts: 4 for negatives, 5 for test frames, 2 for each of 4 sets, of which two sets are finished.
CALLS = {"intrinsic": (5, 3, 3), "coverage": (5, 3, 3), "causal": (5, 3, 3), "concepts": (17, 14, 13)}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_evaluation_resumes_and_gives_the_same_bytes(evaluations, name, tmp_path) -> None:
    run, score = evaluations[name]
    every, dies_at, rest = CALLS[name]
    whole = Counted(run)
    expected = score(named(whole), batch_size=2).to_json()
    folder = tmp_path / "x.json.partial"
    with pytest.raises(KeyboardInterrupt):
        score(named(Counted(run, dies_at)), batch_size=2, steps=FinishedSteps(folder))
    second, steps = Counted(run), FinishedSteps(folder)
    assert score(named(second), batch_size=2, steps=steps).to_json() == expected
    assert (whole.calls, second.calls) == (every, rest)
    assert steps.reused == 2
    third = Counted(run)
    assert score(named(third), batch_size=2, steps=FinishedSteps(folder)).to_json() == expected
    assert third.calls == (9 if name == "concepts" else 0)
    steps.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", CALLS)
def test_another_model_or_other_data_reuse_no_steps(evaluations, name, tmp_path) -> None:
    run, score = evaluations[name]
    model = Counted(run)
    score(named(model), batch_size=2, steps=FinishedSteps(tmp_path / "a"))
    others = [(named(model, "cd"), {}), (named(model), {"batch_size": 3})]
    if name == "coverage":  # the key of a model, None for these, is one function's
        # Of a function no hash tells what it has read.
        others += [(named(model, None), {}), (named(run), {})]
    for other, options in others:
        steps = FinishedSteps(tmp_path / "a")
        score(other, **{"batch_size": 2, **options}, steps=steps)
        assert steps.reused == (name == "causal")  # the score of equal codes is the same


ENDS = {
    "intrinsic": torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    "coverage": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    "causal": MemoryError(),
    "concepts": RuntimeError("cuBLAS error: CUBLAS_STATUS_ALLOC_FAILED"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_small_batches_and_batches_that_shrink_give_the_same(evaluations, name) -> None:
    run, score = evaluations[name]

    def small(image):
        if len(image) > 1:
            raise ENDS[name]
        return run(image)

    expected = score(named(run), batch_size=5).to_json()
    assert score(named(run), batch_size=1).to_json() == expected
    assert score(named(run), batch_size=2).to_json() == expected
    assert score(named(small), batch_size=5).to_json() == expected


class Small(torch.nn.Module):
    """A network with all kinds of layers that could mix the images of a batch; it takes a few images only."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            self.hidden = torch.nn.Sequential(
                torch.nn.Conv2d(3, 6, 3, padding=1),
                torch.nn.BatchNorm2d(6),
                torch.nn.Dropout(0.5),
                torch.nn.Sigmoid(),
            )
            self.last = torch.nn.Conv2d(6, 6, 1)

    def forward(self, image):
        if len(image) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        both = self.last(self.hidden(image)).sigmoid()
        return both[:, :3], both[:, 3:] + 0.1


@pytest.mark.slow
def test_networks_agree_to_the_rounding_of_convolutions(evaluations) -> None:
    score, options = evaluations["concepts"][1], {"layer": ["hidden"]}
    expected = score(Small(5), batch_size=5, **options).scores
    for most, batch_size in ((5, 1), (5, 2), (2, 5)):
        scores = score(Small(most), batch_size=batch_size, **options).scores
        for column, value in expected.items():
            assert scores[column].value == pytest.approx(value.value, rel=1e-5, nan_ok=True)


@pytest.mark.parametrize("name", CALLS)
def test_one_image_that_does_not_fit_in_memory_gives_one_line(evaluations, name) -> None:
    def full(image):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    with refused(r"memory ran out .* float32 \[1, 3, .*\] on cpu.* resize the images"):
        evaluations[name][1](full, batch_size=5)


def step(steps: FinishedSteps, value: float = 1.0, **key: object) -> float:
    return float(steps.get_or_compute({"a": 1, **key}, lambda: {"x": torch.tensor([value])})["x"])


def test_steps_are_identified_by_their_whole_key(tmp_path) -> None:
    steps = FinishedSteps(tmp_path / "a")
    assert [step(steps, 1), step(steps, 2), step(steps, 3, b=None), step(steps, 4, b="c")] == [1, 1, 3, 4]
    assert (steps.reused, steps.computed) == (0, 3)
    assert steps.describe() == ""  # a step of this run was not finished before
    later = FinishedSteps(tmp_path / "a")
    assert [step(later, 5), step(later, 5), step(later, 6, b="d")] == [1, 1, 6]
    assert "1 of 2 steps were already finished" in later.describe()
    assert step(FinishedSteps(), 7) == 7


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float16])
def test_values_are_read_back_exactly(tmp_path, kind) -> None:
    odd = [torch.nan, -0.0, torch.inf] if kind.is_floating_point else [1.0, 0.0, 5.0]
    values = torch.tensor([[0.0, 1.0, 2.0], odd]).to(kind).T
    first, second = (
        FinishedSteps(tmp_path / "a").get_or_compute({}, lambda: {"x": values})["x"] for _ in range(2)
    )
    assert second.dtype == kind
    assert torch.equal(first.contiguous().view(torch.uint8), second.contiguous().view(torch.uint8))
    assert first.stride() == second.stride()


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "pickled", "link"])
def test_damaged_step_is_computed_again(tmp_path, damage) -> None:
    step(FinishedSteps(tmp_path / "a"))
    (path,) = (tmp_path / "a").glob("*.npz")
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[data.index(b"\x80?")] ^= 1  # in the number 1.0
        path.write_bytes(data)
    elif damage == "pickled":
        np.savez(path, x=np.array([{}], object))
    elif damage == "link":
        path.rename(tmp_path / "elsewhere.npz")
        path.symlink_to(tmp_path / "elsewhere.npz")
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    steps = FinishedSteps(tmp_path / "a")
    assert step(steps, 2) == 2
    assert steps.reused == 0
    assert step(FinishedSteps(tmp_path / "a"), 3) == 2
    if damage == "link":
        assert (tmp_path / "elsewhere.npz").read_bytes() == data


def test_a_folder_with_other_content_is_refused_and_kept(tmp_path) -> None:
    others, kept = tmp_path / "others", tmp_path / "kept"
    others.mkdir()
    (others / "a.txt").write_text("a")
    link, file = tmp_path / "link", tmp_path / "file"
    step(FinishedSteps(kept))
    link.symlink_to(kept)
    file.touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "b")
    for path in (others, link, file, tmp_path / "nowhere"):
        with refused("must not exist, or hold the steps of an earlier run; delete it"):
            FinishedSteps(path)
    with refused(r"cannot be written: .*; give another --out"):
        step(FinishedSteps(tmp_path / "no" / "folder"))
    steps = FinishedSteps(kept)
    step(steps, 1, b=1)
    (kept / "mine.txt").touch()
    (kept / "folder").mkdir()
    steps.remove()
    names = {path.name for path in kept.iterdir()}
    assert {"mine.txt", "folder", RECORD} < names
    assert len(names) == 4  # with the step of another run
    (tmp_path / "empty").mkdir()  # as an interrupted run leaves it
    unused = FinishedSteps(tmp_path / "empty")
    unused.remove()
    assert (tmp_path / "empty").is_dir()
    step(unused)
    unused.remove()
    assert not (tmp_path / "empty").exists()


def test_key_of_a_model_includes_its_weights_and_settings(monkeypatch) -> None:
    assert model_key(named(torch.nn.Identity()), "cpu")["code"] != "0"
    monkeypatch.setattr(finished_steps, "_code_sha256", lambda: "code")

    def key(model, device="cpu", **settings):
        return model_key(named(model), device, **settings)

    network, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    assert key(network) == key(network)
    assert key(network) not in (key(other), key(network, metric="lmse"), key(network, "cuda"))
    assert model_key(named(network, None), "cpu") is None


def test_files_that_a_model_imports_are_in_its_key(tmp_path: Path) -> None:
    from candlelight.evaluation.models import open_model

    (tmp_path / "helper_of_resume.py").write_text("GAIN = 2\n")
    path = tmp_path / "net.py"
    path.write_text("import torch, helper_of_resume\nclass Scale(torch.nn.Module):\n    pass\n")
    source = open_model(f"{path}:Scale")
    first = model_key(source, "cpu")
    (tmp_path / "helper_of_resume.py").write_text("GAIN = 3\n")
    assert model_key(source, "cpu") != first


def test_a_commit_keeps_steps_and_another_code_of_the_package_does_not(monkeypatch):
    model = NamedModel(ModelIdentity("a", "shipped"), torch.nn.Identity(), "linear")
    before = model_key(model, "cpu")
    monkeypatch.setattr(result, "code_version", lambda: "9.0.dev1+gabc1234")
    assert model_key(model, "cpu") == before
    monkeypatch.setattr(finished_steps, "_INSTALLED", "/")  # as if all files were installed
    installed = model_key(model, "cpu")["code"]
    monkeypatch.setattr(finished_steps, "_OWN", "/nowhere")
    assert model_key(model, "cpu")["code"] != installed
