"""Concept activation vectors and the Concept Sensitivity Metrics of intrinsic image models."""

from evaluation.concepts.activations import layer_activations as layer_activations
from evaluation.concepts.activations import layer_gradients as layer_gradients
from evaluation.concepts.activations import output_gradient as output_gradient
from evaluation.concepts.activations import pixel_loss as pixel_loss
from evaluation.concepts.cav import CAVs as CAVs
from evaluation.concepts.cav import fit_cavs as fit_cavs
from evaluation.concepts.cav import random_cavs as random_cavs
from evaluation.concepts.cav_diagnostics import concept_entanglement as concept_entanglement
from evaluation.concepts.cav_diagnostics import layer_consistency as layer_consistency
from evaluation.concepts.cav_diagnostics import mean_cav as mean_cav
from evaluation.concepts.cav_diagnostics import run_consistency as run_consistency
from evaluation.concepts.cav_diagnostics import run_cosines as run_cosines
from evaluation.concepts.csm import CSM as CSM
from evaluation.concepts.csm import csm as csm
from evaluation.concepts.exchanged_vectors import exchange_derivatives as exchange_derivatives
from evaluation.concepts.permutation_test import PermutationTest as PermutationTest
from evaluation.concepts.permutation_test import effect_interval as effect_interval
from evaluation.concepts.permutation_test import input_scores as input_scores
from evaluation.concepts.permutation_test import permutation_test as permutation_test
from evaluation.concepts.score_concepts import score_concepts as score_concepts
from evaluation.concepts.sensitivity import Significance as Significance
from evaluation.concepts.sensitivity import directional_derivatives as directional_derivatives
from evaluation.concepts.sensitivity import sensitivity as sensitivity
from evaluation.concepts.sensitivity import significant as significant
