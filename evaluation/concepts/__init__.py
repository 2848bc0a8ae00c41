"""Concept activation vectors, TCAV of any network, and the Concept Sensitivity Metrics (CSM)."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.concepts.activations import layer_activations as layer_activations
from candlelight.evaluation.concepts.activations import layer_gradients as layer_gradients
from candlelight.evaluation.concepts.activations import output_gradient as output_gradient
from candlelight.evaluation.concepts.activations import pixel_loss as pixel_loss
from candlelight.evaluation.concepts.branches import (
    planted_decompositions as planted_decompositions,
)
from candlelight.evaluation.concepts.cav import CAVs as CAVs
from candlelight.evaluation.concepts.cav import fit_cavs as fit_cavs
from candlelight.evaluation.concepts.cav import random_cavs as random_cavs
from candlelight.evaluation.concepts.cav_diagnostics import concept_entanglement as concept_entanglement
from candlelight.evaluation.concepts.cav_diagnostics import layer_consistency as layer_consistency
from candlelight.evaluation.concepts.cav_diagnostics import mean_cav as mean_cav
from candlelight.evaluation.concepts.cav_diagnostics import run_consistency as run_consistency
from candlelight.evaluation.concepts.cav_diagnostics import run_cosines as run_cosines
from candlelight.evaluation.concepts.concept_data import CSMData as CSMData
from candlelight.evaluation.concepts.concept_data import TCAVData as TCAVData
from candlelight.evaluation.concepts.csm import CSM as CSM
from candlelight.evaluation.concepts.csm import FactorGroup as FactorGroup
from candlelight.evaluation.concepts.csm import RunsScore as RunsScore
from candlelight.evaluation.concepts.csm import csm as csm
from candlelight.evaluation.concepts.csm import csm_by_factor as csm_by_factor
from candlelight.evaluation.concepts.csm import score_by_runs as score_by_runs
from candlelight.evaluation.concepts.permutation import PermutationTest as PermutationTest
from candlelight.evaluation.concepts.permutation import effect_interval as effect_interval
from candlelight.evaluation.concepts.permutation import exchange_derivatives as exchange_derivatives
from candlelight.evaluation.concepts.permutation import input_scores as input_scores
from candlelight.evaluation.concepts.permutation import permutation_test as permutation_test
from candlelight.evaluation.concepts.rows import RecomputedRows as RecomputedRows
from candlelight.evaluation.concepts.rows import RowSource as RowSource
from candlelight.evaluation.concepts.rows import RowStorage as RowStorage
from candlelight.evaluation.concepts.rows import columns_of as columns_of
from candlelight.evaluation.concepts.score_csm import CONCEPT_SENSITIVITY as CONCEPT_SENSITIVITY
from candlelight.evaluation.concepts.score_tcav import TCAV as TCAV
from candlelight.evaluation.concepts.sensitivity import Significance as Significance
from candlelight.evaluation.concepts.sensitivity import Target as Target
from candlelight.evaluation.concepts.sensitivity import directional_derivatives as directional_derivatives
from candlelight.evaluation.concepts.sensitivity import parse_target as parse_target
from candlelight.evaluation.concepts.sensitivity import sensitivity as sensitivity
from candlelight.evaluation.concepts.sensitivity import significant as significant
from candlelight.evaluation.concepts.sets import set_images as set_images
