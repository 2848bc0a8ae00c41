import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from candlelight.evaluation.causal.code_inputs import area_under_roc, mean_ranks


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_ranks_equal_scipy(values):
    column = torch.tensor(values)
    assert mean_ranks(torch.stack([column, -column], dim=1)).T.tolist() == [
        rankdata(values).tolist(),
        rankdata([-value for value in values]).tolist(),
    ]


def test_areas_equal_scikit_learn():
    rng = np.random.default_rng(0)
    scores, members = rng.integers(0, 6, (40, 3)), rng.random((40, 3)) < 0.4
    expected = [roc_auc_score(*pair) for pair in zip(members.T, scores.T, strict=True)]
    np.testing.assert_allclose(area_under_roc(torch.from_numpy(scores), torch.from_numpy(members)), expected)


def test_area_without_members_or_others_is_nan():
    members = torch.tensor([[True, False], [True, False]])
    assert area_under_roc(torch.rand(2, 2), members).isnan().all()
