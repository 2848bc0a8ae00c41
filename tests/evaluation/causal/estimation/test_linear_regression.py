import numpy as np
import torch
from sklearn.linear_model import LinearRegression

from candlelight.evaluation.causal.estimators import predict_by_line


def test_equals_scikit_learn():
    rng = np.random.default_rng(0)
    codes, factors, scored = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.normal(size=(5, 3))
    codes[:, 2] = codes[:, 0] - codes[:, 1]  # collinear
    scored[:, 2] = scored[:, 0] - scored[:, 1]
    expected = LinearRegression().fit(codes, factors).predict(scored)
    found = predict_by_line(*(torch.from_numpy(part) for part in (codes, factors, scored)))
    np.testing.assert_allclose(found, expected)


def test_without_codes_the_mean_is_predicted():
    found = predict_by_line(torch.zeros(4, 0), torch.tensor([[1], [2], [3], [6]]), torch.zeros(2, 0))
    assert found.tolist() == [[3], [3]]
