"""Metrics of representations: disentanglement, identifiability, unconfoundedness, counterfactuals."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.causal.block_r2 import BlockR2 as BlockR2
from candlelight.evaluation.causal.block_r2 import Regression as Regression
from candlelight.evaluation.causal.block_r2 import block_r2 as block_r2
from candlelight.evaluation.causal.dci import dci as dci
from candlelight.evaluation.causal.dci_es import DCIES as DCIES
from candlelight.evaluation.causal.dci_es import dci_es as dci_es
from candlelight.evaluation.causal.dci_fast import dci_fast as dci_fast
from candlelight.evaluation.causal.dci_from_classifiers import DCI as DCI
from candlelight.evaluation.causal.dci_from_classifiers import dci_from_classifiers as dci_from_classifiers
from candlelight.evaluation.causal.estimation.discretise import BinRule as BinRule
from candlelight.evaluation.causal.estimation.discretise import discretise as discretise
from candlelight.evaluation.causal.estimation.mutual_information import entropy as entropy
from candlelight.evaluation.causal.estimation.mutual_information import (
    mutual_information_matrix as mutual_information_matrix,
)
from candlelight.evaluation.causal.estimation.neighbour_information import (
    neighbour_information as neighbour_information,
)
from candlelight.evaluation.causal.explicitness import Explicitness as Explicitness
from candlelight.evaluation.causal.explicitness import explicitness as explicitness
from candlelight.evaluation.causal.infomec import InfoMEC as InfoMEC
from candlelight.evaluation.causal.infomec import infomec as infomec
from candlelight.evaluation.causal.interventions.baseline_codes import baseline_codes as baseline_codes
from candlelight.evaluation.causal.interventions.cdm import CDM as CDM
from candlelight.evaluation.causal.interventions.cdm import cdm as cdm
from candlelight.evaluation.causal.interventions.counterfactual_axioms import composition as composition
from candlelight.evaluation.causal.interventions.counterfactual_axioms import effectiveness as effectiveness
from candlelight.evaluation.causal.interventions.counterfactual_axioms import reversibility as reversibility
from candlelight.evaluation.causal.interventions.counterfactual_generativeness import (
    CounterfactualGenerativeness as CounterfactualGenerativeness,
)
from candlelight.evaluation.causal.interventions.counterfactual_generativeness import (
    counterfactual_generativeness as counterfactual_generativeness,
)
from candlelight.evaluation.causal.interventions.interventional_effects import ace as ace
from candlelight.evaluation.causal.interventions.interventional_effects import ice as ice
from candlelight.evaluation.causal.interventions.rendered_counterfactuals import (
    RenderedCounterfactuals as RenderedCounterfactuals,
)
from candlelight.evaluation.causal.interventions.rendered_counterfactuals import (
    rendered_counterfactuals as rendered_counterfactuals,
)
from candlelight.evaluation.causal.irs import IRS as IRS
from candlelight.evaluation.causal.irs import irs as irs
from candlelight.evaluation.causal.mcc import MCC as MCC
from candlelight.evaluation.causal.mcc import Correlation as Correlation
from candlelight.evaluation.causal.mcc import mcc as mcc
from candlelight.evaluation.causal.mig import MIG as MIG
from candlelight.evaluation.causal.mig import mig as mig
from candlelight.evaluation.causal.minimality_and_sufficiency import (
    MinimalityAndSufficiency as MinimalityAndSufficiency,
)
from candlelight.evaluation.causal.minimality_and_sufficiency import (
    minimality_and_sufficiency as minimality_and_sufficiency,
)
from candlelight.evaluation.causal.modularity import Modularity as Modularity
from candlelight.evaluation.causal.modularity import modularity as modularity
from candlelight.evaluation.causal.sap import SAP as SAP
from candlelight.evaluation.causal.sap import sap as sap
from candlelight.evaluation.causal.scoring.code_metrics import CODE_METRICS as CODE_METRICS
from candlelight.evaluation.causal.scoring.code_metrics import DEFAULT_METRICS as DEFAULT_METRICS
from candlelight.evaluation.causal.scoring.codes import layer_codes as layer_codes
from candlelight.evaluation.causal.scoring.factor_table import FactorTable as FactorTable
from candlelight.evaluation.causal.scoring.factor_table import tabulate_factors as tabulate_factors
from candlelight.evaluation.causal.scoring.planted_codes import PLANTED_CODES as PLANTED_CODES
from candlelight.evaluation.causal.scoring.planted_codes import PlantedName as PlantedName
from candlelight.evaluation.causal.scoring.planted_codes import PlantedTruth as PlantedTruth
from candlelight.evaluation.causal.scoring.planted_codes import planted_codes as planted_codes
from candlelight.evaluation.causal.scoring.score_causal import CODE_CONTROLS as CODE_CONTROLS
from candlelight.evaluation.causal.scoring.score_causal import score_causal as score_causal
from candlelight.evaluation.causal.select_codes import select_codes as select_codes
from candlelight.evaluation.causal.t_mex import TMEX as TMEX
from candlelight.evaluation.causal.t_mex import t_mex as t_mex
from candlelight.evaluation.causal.unconfoundedness import unconfoundedness as unconfoundedness
