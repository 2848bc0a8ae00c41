import torch

from candlelight.evaluation.intrinsic.score_intrinsic import ErrorMetric, collect_errors


def test_errors_of_batches_are_joined_by_row_and_their_axes_are_in_the_keys_of_steps() -> None:
    errors = torch.arange(6.0).reshape(3, 2)
    steps = [{"net": {"errors": some, "failed": some[:, 0] > 3}} for some in (errors[:2], errors[2:])]
    found = collect_errors(zip((2, 1), steps, strict=True), lambda rows: torch.ones(rows, 2))
    assert found.errors["net"].tolist() == errors.tolist()
    assert found.failed["net"].tolist() == [False, False, True]
    assert found.zeros.tolist() == [[1, 1]] * 3
    assert ErrorMetric("lmse", 2, ("a", "b")).settings["errors"] == "rows, columns"
