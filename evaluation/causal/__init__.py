"""Metrics of representations: disentanglement, identifiability, unconfoundedness, counterfactuals."""

from evaluation.causal.block_r2 import BlockR2 as BlockR2
from evaluation.causal.block_r2 import Regression as Regression
from evaluation.causal.block_r2 import block_r2 as block_r2
from evaluation.causal.dci import dci as dci
from evaluation.causal.dci_es import DCIES as DCIES
from evaluation.causal.dci_es import dci_es as dci_es
from evaluation.causal.dci_fast import dci_fast as dci_fast
from evaluation.causal.dci_from_classifiers import DCI as DCI
from evaluation.causal.dci_from_classifiers import dci_from_classifiers as dci_from_classifiers
from evaluation.causal.estimation.discretise import BinRule as BinRule
from evaluation.causal.estimation.discretise import discretise as discretise
from evaluation.causal.estimation.mutual_information import entropy as entropy
from evaluation.causal.estimation.mutual_information import (
    mutual_information_matrix as mutual_information_matrix,
)
from evaluation.causal.estimation.neighbour_information import neighbour_information as neighbour_information
from evaluation.causal.explicitness import Explicitness as Explicitness
from evaluation.causal.explicitness import explicitness as explicitness
from evaluation.causal.infomec import InfoMEC as InfoMEC
from evaluation.causal.infomec import infomec as infomec
from evaluation.causal.interventions.baseline_codes import baseline_codes as baseline_codes
from evaluation.causal.interventions.cdm import CDM as CDM
from evaluation.causal.interventions.cdm import cdm as cdm
from evaluation.causal.interventions.counterfactual_axioms import composition as composition
from evaluation.causal.interventions.counterfactual_axioms import effectiveness as effectiveness
from evaluation.causal.interventions.counterfactual_axioms import reversibility as reversibility
from evaluation.causal.interventions.counterfactual_generativeness import (
    CounterfactualGenerativeness as CounterfactualGenerativeness,
)
from evaluation.causal.interventions.counterfactual_generativeness import (
    counterfactual_generativeness as counterfactual_generativeness,
)
from evaluation.causal.interventions.interventional_effects import ace as ace
from evaluation.causal.interventions.interventional_effects import ice as ice
from evaluation.causal.interventions.rendered_counterfactuals import (
    RenderedCounterfactuals as RenderedCounterfactuals,
)
from evaluation.causal.interventions.rendered_counterfactuals import (
    rendered_counterfactuals as rendered_counterfactuals,
)
from evaluation.causal.irs import IRS as IRS
from evaluation.causal.irs import irs as irs
from evaluation.causal.mcc import MCC as MCC
from evaluation.causal.mcc import Correlation as Correlation
from evaluation.causal.mcc import mcc as mcc
from evaluation.causal.mig import MIG as MIG
from evaluation.causal.mig import mig as mig
from evaluation.causal.minimality_and_sufficiency import (
    MinimalityAndSufficiency as MinimalityAndSufficiency,
)
from evaluation.causal.minimality_and_sufficiency import (
    minimality_and_sufficiency as minimality_and_sufficiency,
)
from evaluation.causal.modularity import Modularity as Modularity
from evaluation.causal.modularity import modularity as modularity
from evaluation.causal.sap import SAP as SAP
from evaluation.causal.sap import sap as sap
from evaluation.causal.scoring.code_metrics import CODE_METRICS as CODE_METRICS
from evaluation.causal.scoring.code_metrics import DEFAULT_METRICS as DEFAULT_METRICS
from evaluation.causal.scoring.codes import layer_codes as layer_codes
from evaluation.causal.scoring.factor_table import FactorTable as FactorTable
from evaluation.causal.scoring.factor_table import tabulate_factors as tabulate_factors
from evaluation.causal.scoring.planted_codes import PLANTED_CODES as PLANTED_CODES
from evaluation.causal.scoring.planted_codes import PlantedName as PlantedName
from evaluation.causal.scoring.planted_codes import PlantedTruth as PlantedTruth
from evaluation.causal.scoring.planted_codes import planted_codes as planted_codes
from evaluation.causal.scoring.score_causal import CODE_CONTROLS as CODE_CONTROLS
from evaluation.causal.scoring.score_causal import score_causal as score_causal
from evaluation.causal.select_codes import select_codes as select_codes
from evaluation.causal.t_mex import TMEX as TMEX
from evaluation.causal.t_mex import t_mex as t_mex
from evaluation.causal.unconfoundedness import unconfoundedness as unconfoundedness
