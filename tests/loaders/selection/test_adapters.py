import numpy as np
import pytest
from scipy.stats import chisquare

from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.selection.adapters import DisentanglementLibData, DisentData
from candlelight.loaders.selection.factor_index import FactorIndex
from tests.refusals import refused

torch = pytest.importorskip("torch")
SPACE = FactorSpace(("a", "b", "c"), ((0, 1), (0, 1, 2), (0, 1, 2, 3, 4)))
FULL = FactorIndex.of(SPACE)
SHUFFLED = FULL.select(np.random.default_rng(0).permutation(30))
REPEATED = FULL.select(np.array([3, 3, 3, 8, 8, 29]))


def pictures(index: FactorIndex) -> list[dict]:
    """Make an image for each row; all its pixels are the number of its combination."""
    numbers = SPACE.indices(index.positions(np.arange(len(index))))
    return [{"image": torch.full((3, 4, 6), int(number), dtype=torch.uint8)} for number in numbers]


def adapted(index: FactorIndex) -> DisentanglementLibData:
    return DisentanglementLibData(pictures(index), index)


def numbers(observations: np.ndarray) -> np.ndarray:
    assert observations.dtype == np.float32
    return np.round(observations[:, 0, 0, 0] * 255).astype(int)


@pytest.mark.parametrize(
    ("index", "random"),
    [(FULL, np.random.RandomState), (SHUFFLED, np.random.default_rng), (REPEATED, np.random.RandomState)],
    ids=["full", "shuffled", "repeated"],
)
def test_methods_of_disentanglement_lib(index, random):
    data = adapted(index)
    assert (data.num_factors, data.factors_num_values, data.observation_shape) == (3, [2, 3, 5], [4, 6, 3])
    factors, observations = data.sample(20, random(0))
    assert observations.shape == (20, 4, 6, 3)
    np.testing.assert_array_equal(numbers(observations), SPACE.indices(factors))
    assert data.sample_observations(2, random(0)).shape == (2, 4, 6, 3)
    again = data.sample_observations_from_factors(factors.tolist(), random(1))
    np.testing.assert_array_equal(again, observations)


@pytest.mark.parametrize("index", [FULL, REPEATED], ids=["full", "repeated"])
def test_factors_for_disentanglement_lib_come_from_rows(index):
    drawn = SPACE.indices(adapted(index).sample_factors(20_000, np.random.RandomState(0)))
    counts = np.bincount(SPACE.indices(index.positions(np.arange(len(index)))), minlength=30)
    found = np.bincount(drawn, minlength=30)
    assert found[counts == 0].sum() == 0
    assert chisquare(found[counts > 0], counts[counts > 0] / len(index) * 20_000).pvalue > 1e-4


def test_rows_with_the_same_factors_are_all_drawn():
    samples = [{"image": torch.full((1, 2, 2), value)} for value in (0.0, 0.5, 1.0)]
    index = FULL.select(np.array([3, 3, 3]))
    data = DisentanglementLibData(samples, index)
    seen = data.sample_observations_from_factors(index.positions(np.zeros(90, int)), np.random.RandomState(0))
    assert chisquare(np.unique(seen[:, 0, 0, 0], return_counts=True)[1]).pvalue > 1e-4
    assert set(seen[:, 0, 0, 0]) == {0, 0.5, 1}


def test_missing_combinations_are_refused():
    with refused(r"no sample has the class numbers \[0, 0, 0\]: this set leaves them out"):
        adapted(REPEATED).sample_observations_from_factors(np.zeros((1, 3), int), np.random.RandomState(0))


@pytest.mark.parametrize(
    "rows", [np.arange(30), np.random.default_rng(0).permutation(30)], ids=["full", "mixed"]
)
def test_factors_of_one_value_are_left_out(rows):
    """Both libraries leave out the color of dSprites too."""
    space = FactorSpace(("one", "a", "two", "b", "c"), ((7,), (0, 1), ("x",), (0, 1, 2), (0, 1, 2, 3, 4)))
    index = FactorIndex.of(space) if rows[0] == 0 else FactorIndex.of(space).select(rows)
    images = [{"image": torch.full((3, 4, 6), int(row), dtype=torch.uint8)} for row in rows]
    data = DisentanglementLibData(images, index)
    assert (data.num_factors, data.factors_num_values) == (3, [2, 3, 5])
    factors, observations = data.sample(50, np.random.RandomState(0))
    np.testing.assert_array_equal(numbers(observations), SPACE.indices(factors))
    disent = DisentData(images, index)
    assert (disent.factor_names, disent.factor_sizes) == (("a", "b", "c"), (2, 3, 5))
    np.testing.assert_array_equal(numbers(np.stack([disent[i] for i in range(30)])), np.arange(30))


@pytest.mark.parametrize("index", [FULL, SHUFFLED], ids=["full", "shuffled"])
def test_disent_numbers_combinations(index):
    data = DisentData(pictures(index), index)
    assert (data.factor_names, data.factor_sizes) == (("a", "b", "c"), (2, 3, 5))
    assert (len(data), data.shape) == (30, (30, 4, 6, 3))
    np.testing.assert_array_equal(numbers(np.stack([data[i] for i in range(30)])), np.arange(30))
    with pytest.raises(IndexError):
        data[30]


def test_frames_are_observed_unchanged(frames_root):
    frames = FrameFolder(frames_root, "grid", ["image", "depth"])
    data = DisentData(frames)
    image = frames.frame(4).layers["image"]
    np.testing.assert_array_equal(data[4], image.astype(np.float32) / 255)
    assert DisentanglementLibData(frames).observation_shape == [*image.shape]


def shape_of(image):
    return lambda: DisentanglementLibData([{"image": image}], FULL).observation_shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DisentData([], REPEATED), "every one of 30 combinations once, got 6"),
        (
            lambda: DisentanglementLibData([], FactorIndex.of(FactorSpace(("a",), ((0,),)))),
            "expected a factor of more than one value, got none",
        ),
        (lambda: DisentanglementLibData(pictures(FULL), FULL, "photo").observation_shape, "image `photo`"),
        (shape_of(torch.full((1, 2, 2), 2.0)), r"image `image`: expected 0..1, got 2..2"),
        (shape_of(torch.zeros(2, 2, 2, 2)), r"or floats, channels first, got float32 \[2, 2, 2, 2\]"),
        (shape_of(torch.zeros(2, 2, dtype=torch.int64)), r"channels first, got int64 \[1, 2, 2\]"),
    ],
)
def test_bad_images_and_factors_are_refused(call, message):
    with refused(message):
        call()
