"""Intrinsic image models to score, and the protocols that other models have to follow."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.models.model_protocols import IntrinsicModel as IntrinsicModel
from candlelight.evaluation.models.model_protocols import SequenceIntrinsicModel as SequenceIntrinsicModel
from candlelight.evaluation.models.model_spec import ModelIdentity as ModelIdentity
from candlelight.evaluation.models.model_spec import NamedModel as NamedModel
from candlelight.evaluation.models.model_spec import open_model as open_model
from candlelight.evaluation.models.model_spec import open_models as open_models
from candlelight.evaluation.models.network import IntrinsicNet as IntrinsicNet
from candlelight.evaluation.models.network import load_model as load_model
from candlelight.evaluation.models.network import save_model as save_model
from candlelight.evaluation.models.retinex import BASELINES as BASELINES
from candlelight.evaluation.models.retinex import ColourRetinex as ColourRetinex
from candlelight.evaluation.models.retinex import GrayRetinex as GrayRetinex
from candlelight.evaluation.models.retinex import Weiss as Weiss
from candlelight.evaluation.models.retinex import constant_reflectance as constant_reflectance
from candlelight.evaluation.models.retinex import constant_shading as constant_shading
from candlelight.evaluation.models.tap05 import TAP05 as TAP05
from candlelight.evaluation.models.tap05 import train_tap05 as train_tap05
from candlelight.evaluation.models.tap06 import TAP06 as TAP06
from candlelight.evaluation.models.tap06 import train_tap06 as train_tap06
