import numpy as np
import pytest
import torch

from candlelight.evaluation.run.batches import read_batches
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.views import DecomposedImage
from tests.refusals import refused


def sha(*rows: object) -> str:
    found = Fingerprint()
    for name, item in rows:
        found.add(name, item)
    return found.hexdigest()


def test_empty_tensor_is_hashed_by_its_shape() -> None:
    # Regression: torch cannot view this empty tensor, with strides of 0, as bytes.
    column = torch.from_numpy(np.empty((0, 6))[:, 4].astype(np.int64))
    assert sha(("a", column)) == sha(("a", torch.zeros(0, dtype=torch.int64)))
    assert sha(("a", column)) != sha(("a", torch.zeros(0)))


def test_equal_rows_have_one_fingerprint_and_others_another() -> None:
    one = torch.arange(6.0).reshape(2, 3)
    assert sha(("a", one)) == sha(("a", one.T.contiguous().T))
    others = [("b", one), ("a", one.double()), ("a", one.reshape(3, 2)), ("a", one + 1), ("a", {"x": one})]
    assert len({sha(row) for row in [("a", one), *others]}) == 6
    assert sha(("a", one), ("b", one)) != sha(("b", one), ("a", one))


def test_all_members_of_an_item_count() -> None:
    image, mask = torch.rand(3, 2, 2), torch.ones(2, 2, dtype=torch.bool)
    item = DecomposedImage(image, image, image[:1], mask)
    changed = mask.clone()
    changed[0, 0] = False
    assert sha(("a", item)) != sha(("a", DecomposedImage(image, image, image[:1], changed)))


def test_batches_hold_neighbours_of_one_size(memory_view) -> None:
    view = memory_view([torch.zeros(3, size, 2) for size in (4, 4, 4, 5, 4)])
    batches = list(read_batches(view, 2, lambda item: item, Fingerprint(), "read"))
    assert [batch.rows for batch in batches] == [(0, 1), (2,), (3,), (4,)]
    assert [batch.ids[0] for batch in batches] == ["row-0", "row-2", "row-3", "row-4"]


def test_arrays_count_by_their_bytes_and_other_objects_are_refused() -> None:
    one = np.zeros(5000)
    other = one.copy()
    other[2500] = 1
    assert sha(("a", one)) != sha(("a", other))
    with refused(r"rows of a view must hold .*, got object"):
        sha(("a", object()))


def test_view_with_another_number_of_ids_is_refused(memory_view) -> None:
    view = memory_view([torch.zeros(3, 2, 2)] * 2)
    view.ids = ("a",)
    with refused("expected an id and a group for each row, got 2 rows, 1 ids and 2"):
        list(read_batches(view, 2, lambda item: item, Fingerprint(), "read"))


def test_a_model_that_is_not_callable_is_refused() -> None:
    with refused("model `a`: expected something callable, got int"):
        identify_models({"a": 3}, [], "srgb", None)


@pytest.mark.parametrize("models", [torch.nn.Identity(), [torch.nn.Identity()], {0: torch.nn.Identity()}])
def test_models_without_names_are_refused(models) -> None:
    with refused('`models`: expected models by name, such as {"mine": model}'):
        evaluate("codes", "nowhere", models)
