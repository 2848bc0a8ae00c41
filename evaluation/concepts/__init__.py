"""Concept activation vectors, TCAV of any network, and the Concept Sensitivity Metrics (CSM)."""

from evaluation.concepts.activations import layer_activations as layer_activations
from evaluation.concepts.activations import layer_gradients as layer_gradients
from evaluation.concepts.activations import output_gradient as output_gradient
from evaluation.concepts.activations import pixel_loss as pixel_loss
from evaluation.concepts.cav import CAVs as CAVs
from evaluation.concepts.cav import fit_cavs as fit_cavs
from evaluation.concepts.cav import random_cavs as random_cavs
from evaluation.concepts.csm import CSM as CSM
from evaluation.concepts.csm import csm as csm
from evaluation.concepts.exchanged_vectors import exchange_derivatives as exchange_derivatives
from evaluation.concepts.permutation_test import PermutationTest as PermutationTest
from evaluation.concepts.permutation_test import effect_interval as effect_interval
from evaluation.concepts.permutation_test import input_scores as input_scores
from evaluation.concepts.permutation_test import permutation_test as permutation_test
from evaluation.concepts.score_concepts import score_concepts as score_concepts
from evaluation.concepts.score_tcav import score_tcav as score_tcav
from evaluation.concepts.sensitivity import Significance as Significance
from evaluation.concepts.sensitivity import directional_derivatives as directional_derivatives
from evaluation.concepts.sensitivity import sensitivity as sensitivity
from evaluation.concepts.sensitivity import significant as significant
from evaluation.concepts.set_images import set_images as set_images
from evaluation.concepts.targets import Target as Target
from evaluation.concepts.targets import parse_target as parse_target
