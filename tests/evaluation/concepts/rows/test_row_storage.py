import pytest
import torch
from torch import nn

from candlelight.evaluation.concepts import score_concepts
from candlelight.evaluation.concepts.branches import branch_activations, branch_gradients
from candlelight.evaluation.concepts.cav_diagnostics import Probe
from candlelight.evaluation.concepts.rows import RowStorage, StoredRows
from candlelight.evaluation.concepts.set_scores import BRANCHES
from candlelight.evaluation.run.batches import Fingerprint
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.views import ConceptSet
from candlelight.loaders.errors import InputError


class HalfNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.encoder = nn.Conv2d(3, 5, 3, padding=1)
            self.reflectance, self.shading = nn.Conv2d(5, 3, 1), nn.Conv2d(5, 1, 1)

    def forward(self, image):
        hidden = torch.relu(self.encoder(image))
        return self.reflectance(hidden).sigmoid(), self.shading(hidden).exp()


@pytest.fixture
def sets(memory_view, decompositions):
    stream = torch.Generator().manual_seed(0)
    levels = torch.linspace(0.2, 1, 8)[:, None, None, None]
    concept = list(levels * torch.rand(3, 6, 8, generator=stream))
    albedo, shading = 0.1 + 0.9 * torch.rand(2, 6, 3, 6, 8, generator=stream)
    return {
        "albedo": memory_view(
            concept, sets=(ConceptSet({"light": "left"}, tuple(range(8))),), varies="albedo"
        ),
        "illumination": None,
        "negatives": memory_view(list(torch.rand(20, 3, 6, 8, generator=stream)), name="negative"),
        "test": decompositions(albedo, shading, name="test"),
    }


@pytest.mark.parametrize("layer", [None, "encoder"])
def test_scores_do_not_depend_on_the_storage(sets, tmp_path, layer):
    model = {"net": HalfNet()}
    options = {"layer": layer, "runs": 5, "batch_size": 3}
    in_memory = score_concepts(model, **sets, **options)["net"]
    in_files = score_concepts(model, **sets, **options, storage=RowStorage(0, tmp_path))["net"]
    assert in_files.to_json() == in_memory.to_json()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layers", [None, ("encoder", "shading")])
def test_rows_of_branches_are_in_files_beyond_the_limit(sets, tmp_path, layers):
    named = identify_models({"net": HalfNet()}, [sets["negatives"], sets["test"]], "linear", None)["net"]
    rows = sets["negatives"], range(20)
    found = []
    for storage in (RowStorage(), RowStorage(0, tmp_path)):
        probe = Probe(named, batch_size=6, storage=storage)
        of_loss = branch_gradients(probe, layers, sets["test"], Fingerprint())
        found.append([branch_activations(probe, layers, *rows, Fingerprint()), *of_loss.values()])
    for in_memory, in_file in zip(*found, strict=True):
        for branch in BRANCHES:
            assert isinstance(getattr(in_file, branch), StoredRows)
            assert torch.equal(getattr(in_file, branch).columns(slice(None)), getattr(in_memory, branch))


def test_an_unusable_folder_stops_the_score(sets, tmp_path):
    with pytest.raises(InputError, match=r"missing: cannot keep .*; use another folder \(TMPDIR"):
        score_concepts({"net": HalfNet()}, **sets, storage=RowStorage(0, tmp_path / "missing"))
