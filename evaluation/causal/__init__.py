"""Metrics of representations: disentanglement, identifiability, unconfoundedness, counterfactuals."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.causal.block_scores import block_matrices as block_matrices
from candlelight.evaluation.causal.block_scores import diagonal_scores as diagonal_scores
from candlelight.evaluation.causal.block_scores import find_blocks as find_blocks
from candlelight.evaluation.causal.code_inputs import BinRule as BinRule
from candlelight.evaluation.causal.code_inputs import discretise as discretise
from candlelight.evaluation.causal.control_codes import PLANTED_CODES as PLANTED_CODES
from candlelight.evaluation.causal.control_codes import PlantedName as PlantedName
from candlelight.evaluation.causal.control_codes import PlantedTruth as PlantedTruth
from candlelight.evaluation.causal.control_codes import planted_codes as planted_codes
from candlelight.evaluation.causal.dci import DCI as DCI
from candlelight.evaluation.causal.dci import DCIES as DCIES
from candlelight.evaluation.causal.dci import dci as dci
from candlelight.evaluation.causal.dci import dci_es as dci_es
from candlelight.evaluation.causal.dci import dci_fast as dci_fast
from candlelight.evaluation.causal.dci import dci_from_classifiers as dci_from_classifiers
from candlelight.evaluation.causal.discover_graphs import discover_graph as discover_graph
from candlelight.evaluation.causal.discover_graphs import match_codes as match_codes
from candlelight.evaluation.causal.effects import CDM as CDM
from candlelight.evaluation.causal.effects import ace as ace
from candlelight.evaluation.causal.effects import cdm as cdm
from candlelight.evaluation.causal.effects import composition as composition
from candlelight.evaluation.causal.effects import effectiveness as effectiveness
from candlelight.evaluation.causal.effects import ice as ice
from candlelight.evaluation.causal.effects import reversibility as reversibility
from candlelight.evaluation.causal.factor_data import CounterfactualData as CounterfactualData
from candlelight.evaluation.causal.factor_data import factors_of_columns as factors_of_columns
from candlelight.evaluation.causal.factor_data import read_factors as read_factors
from candlelight.evaluation.causal.factor_table import FactorTable as FactorTable
from candlelight.evaluation.causal.factor_table import layer_codes as layer_codes
from candlelight.evaluation.causal.factor_table import tabulate_factors as tabulate_factors
from candlelight.evaluation.causal.generativeness import (
    CounterfactualGenerativeness as CounterfactualGenerativeness,
)
from candlelight.evaluation.causal.generativeness import baseline_codes as baseline_codes
from candlelight.evaluation.causal.generativeness import (
    counterfactual_generativeness as counterfactual_generativeness,
)
from candlelight.evaluation.causal.graph_scores import EdgeScores as EdgeScores
from candlelight.evaluation.causal.graph_scores import GraphScores as GraphScores
from candlelight.evaluation.causal.graph_scores import cpdag as cpdag
from candlelight.evaluation.causal.graph_scores import graph_scores as graph_scores
from candlelight.evaluation.causal.graph_scores import latent_projection as latent_projection
from candlelight.evaluation.causal.graph_scores import random_dag as random_dag
from candlelight.evaluation.causal.information import entropy as entropy
from candlelight.evaluation.causal.information import (
    mutual_information_matrix as mutual_information_matrix,
)
from candlelight.evaluation.causal.information import (
    neighbour_information as neighbour_information,
)
from candlelight.evaluation.causal.information_scores import MIG as MIG
from candlelight.evaluation.causal.information_scores import InfoMEC as InfoMEC
from candlelight.evaluation.causal.information_scores import (
    MinimalityAndSufficiency as MinimalityAndSufficiency,
)
from candlelight.evaluation.causal.information_scores import Modularity as Modularity
from candlelight.evaluation.causal.information_scores import infomec as infomec
from candlelight.evaluation.causal.information_scores import mig as mig
from candlelight.evaluation.causal.information_scores import (
    minimality_and_sufficiency as minimality_and_sufficiency,
)
from candlelight.evaluation.causal.information_scores import modularity as modularity
from candlelight.evaluation.causal.irs import IRS as IRS
from candlelight.evaluation.causal.irs import irs as irs
from candlelight.evaluation.causal.irs import irs_by_interventions as irs_by_interventions
from candlelight.evaluation.causal.irs import select_codes as select_codes
from candlelight.evaluation.causal.irs import unconfoundedness as unconfoundedness
from candlelight.evaluation.causal.measure_codes import CODE_METRICS as CODE_METRICS
from candlelight.evaluation.causal.measure_codes import DEFAULT_METRICS as DEFAULT_METRICS
from candlelight.evaluation.causal.prediction_scores import MCC as MCC
from candlelight.evaluation.causal.prediction_scores import SAP as SAP
from candlelight.evaluation.causal.prediction_scores import TMEX as TMEX
from candlelight.evaluation.causal.prediction_scores import BlockR2 as BlockR2
from candlelight.evaluation.causal.prediction_scores import Correlation as Correlation
from candlelight.evaluation.causal.prediction_scores import Explicitness as Explicitness
from candlelight.evaluation.causal.prediction_scores import Regression as Regression
from candlelight.evaluation.causal.prediction_scores import block_r2 as block_r2
from candlelight.evaluation.causal.prediction_scores import explicitness as explicitness
from candlelight.evaluation.causal.prediction_scores import mcc as mcc
from candlelight.evaluation.causal.prediction_scores import sap as sap
from candlelight.evaluation.causal.prediction_scores import t_mex as t_mex
from candlelight.evaluation.causal.rendered_counterfactuals import (
    RenderedCounterfactuals as RenderedCounterfactuals,
)
from candlelight.evaluation.causal.rendered_counterfactuals import (
    rendered_counterfactuals as rendered_counterfactuals,
)
from candlelight.evaluation.causal.score_codes import CODE_CONTROLS as CODE_CONTROLS
from candlelight.evaluation.causal.score_effects import score_estimates as score_estimates
from candlelight.evaluation.causal.score_graphs import GRAPH_CONTROLS as GRAPH_CONTROLS
from candlelight.evaluation.causal.score_graphs import open_graph as open_graph
from candlelight.evaluation.causal.treatment_effects import EffectEstimate as EffectEstimate
from candlelight.evaluation.causal.treatment_effects import doubly_robust_effect as doubly_robust_effect
from candlelight.evaluation.causal.treatment_effects import fit_propensity as fit_propensity
from candlelight.evaluation.causal.treatment_effects import ipw_effect as ipw_effect
from candlelight.evaluation.causal.treatment_effects import naive_effect as naive_effect
