import pytest
import torch
from torch import nn

from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.concepts.branches import branch_activations, branch_gradients
from candlelight.evaluation.concepts.probe import Probe
from candlelight.evaluation.concepts.rows import RowStorage, StoredRows
from candlelight.evaluation.concepts.set_scores import BRANCHES
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.views import ConceptSet


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


@pytest.mark.parametrize("layer", [(), ("encoder",)])
def test_scores_do_not_depend_on_the_memory(sets, layer):
    options = {"layer": layer, "runs": 5, "batch_size": 3}
    in_memory, in_files = (
        evaluate("csm", CSMData(**sets), {"net": HalfNet()}, **options, memory=memory)["net"]
        for memory in (None, 0)
    )
    assert in_files.to_json() == in_memory.to_json()


@pytest.mark.parametrize("layers", [None, ("encoder", "shading")])
def test_rows_of_branches_are_in_files_beyond_the_limit(sets, tmp_path, layers):
    named = identify_models({"net": HalfNet()}, [sets["negatives"], sets["test"]], "linear", None)["net"]
    found = []
    for storage in (RowStorage(), RowStorage(0, tmp_path)):
        probe = Probe(named, batch_size=6, storage=storage)
        of_loss = branch_gradients(probe, layers, sets["test"])
        found.append([branch_activations(probe, layers, sets["negatives"]), *of_loss.values()])
    for in_memory, in_file in zip(*found, strict=True):
        for branch in BRANCHES:
            assert isinstance(in_file.rows[branch], StoredRows)
            assert torch.equal(in_file.rows[branch].columns(slice(None)), in_memory.rows[branch])
