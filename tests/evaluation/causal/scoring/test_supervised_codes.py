import pytest
import torch

from candlelight.evaluation.causal.control_codes import supervised_codes
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorInfo


def test_a_value_that_half_of_the_images_lack_is_refused(memory_view):
    """The last value has one image, so that no network of the other half can predict it."""
    classes = torch.stack([torch.arange(160) % 2, (torch.arange(160) == 7).long()], dim=1)
    infos = tuple(FactorInfo(name=name, kind="categorical", values=(0, 1)) for name in ("shape", "rare"))
    view = memory_view([torch.zeros(3, 32, 32)] * 160, factors=infos, table=classes.double().numpy())
    table = FactorTable(("shape", "rare"), classes.double(), classes, (0, 1), (), ())
    with pytest.raises(InputError, match=r"half of the images lacks a value, or bin, of `rare`"):
        supervised_codes(view, table, epochs=1)
