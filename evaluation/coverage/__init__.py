"""Coverage of annotated parts by visual explanations: WAIoU and its protocol."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions as CoverageOptions
from candlelight.evaluation.coverage.causal_effects import CONVENTIONS as CONVENTIONS
from candlelight.evaluation.coverage.causal_effects import causal_effects as causal_effects
from candlelight.evaluation.coverage.causal_effects import ideal_heatmap as ideal_heatmap
from candlelight.evaluation.coverage.causal_effects import rank_agreement as rank_agreement
from candlelight.evaluation.coverage.causal_effects import rank_correlation as rank_correlation
from candlelight.evaluation.coverage.causal_effects import region_density as region_density
from candlelight.evaluation.coverage.causal_effects import region_hits as region_hits
from candlelight.evaluation.coverage.causal_effects import region_mass as region_mass
from candlelight.evaluation.coverage.causal_effects import region_share as region_share
from candlelight.evaluation.coverage.causal_effects import stated_effects as stated_effects
from candlelight.evaluation.coverage.control_explainers import CONTROLS as CONTROLS
from candlelight.evaluation.coverage.control_explainers import MASK_CONTROLS as MASK_CONTROLS
from candlelight.evaluation.coverage.control_explainers import IdealCoverage as IdealCoverage
from candlelight.evaluation.coverage.control_explainers import ideal_coverage as ideal_coverage
from candlelight.evaluation.coverage.coverage_tables import coverage_tables as coverage_tables
from candlelight.evaluation.coverage.coverage_tables import write_coverage_tables as write_coverage_tables
from candlelight.evaluation.coverage.explained_images import ExplainedImages as ExplainedImages
from candlelight.evaluation.coverage.explainers import AttributionMethod as AttributionMethod
from candlelight.evaluation.coverage.explainers import Explainer as Explainer
from candlelight.evaluation.coverage.explainers import captum_classes as captum_classes
from candlelight.evaluation.coverage.explainers import occlusion_maps as occlusion_maps
from candlelight.evaluation.coverage.explainers import open_explainer as open_explainer
from candlelight.evaluation.coverage.explainers import rise_maps as rise_maps
from candlelight.evaluation.coverage.explanations import Explanation as Explanation
from candlelight.evaluation.coverage.explanations import ExplanationMethod as ExplanationMethod
from candlelight.evaluation.coverage.explanations import MaskControl as MaskControl
from candlelight.evaluation.coverage.explanations import explanation_heatmap as explanation_heatmap
from candlelight.evaluation.coverage.explanations import merge_explanation as merge_explanation
from candlelight.evaluation.coverage.filter_methods import VEBI as VEBI
from candlelight.evaluation.coverage.filter_methods import GradCAM as GradCAM
from candlelight.evaluation.coverage.filter_methods import NonNegativeLasso as NonNegativeLasso
from candlelight.evaluation.coverage.filter_methods import WeightedFilters as WeightedFilters
from candlelight.evaluation.coverage.filter_methods import filter_energies as filter_energies
from candlelight.evaluation.coverage.filter_methods import grad_cam as grad_cam
from candlelight.evaluation.coverage.filter_methods import grad_cam_by_filter as grad_cam_by_filter
from candlelight.evaluation.coverage.filter_methods import nonnegative_lasso as nonnegative_lasso
from candlelight.evaluation.coverage.filter_methods import weigh_filters as weigh_filters
from candlelight.evaluation.coverage.network_dissection import ConceptStream as ConceptStream
from candlelight.evaluation.coverage.network_dissection import FilterAblation as FilterAblation
from candlelight.evaluation.coverage.network_dissection import NetworkDissection as NetworkDissection
from candlelight.evaluation.coverage.network_dissection import ablate_filters as ablate_filters
from candlelight.evaluation.coverage.network_dissection import network_dissection as network_dissection
from candlelight.evaluation.coverage.prototypes import PrototypeMethod as PrototypeMethod
from candlelight.evaluation.coverage.score_causal_check import CAUSAL_CHECK as CAUSAL_CHECK
from candlelight.evaluation.coverage.score_coverage import COVERAGE as COVERAGE
from candlelight.evaluation.coverage.score_coverage import layer_heatmaps as layer_heatmaps
from candlelight.evaluation.coverage.thresholds import Explanations as Explanations
from candlelight.evaluation.coverage.thresholds import binarise as binarise
from candlelight.evaluation.coverage.thresholds import set_threshold as set_threshold
from candlelight.evaluation.coverage.topics import TopicMethod as TopicMethod
from candlelight.evaluation.coverage.usual_scores import baseline_images as baseline_images
from candlelight.evaluation.coverage.usual_scores import cascade_layers as cascade_layers
from candlelight.evaluation.coverage.usual_scores import curve_area as curve_area
from candlelight.evaluation.coverage.usual_scores import pixel_curves as pixel_curves
from candlelight.evaluation.coverage.usual_scores import pointing_hits as pointing_hits
from candlelight.evaluation.coverage.usual_scores import randomised_similarity as randomised_similarity
from candlelight.evaluation.coverage.waiou import WAIoU as WAIoU
from candlelight.evaluation.coverage.waiou import part_iou as part_iou
from candlelight.evaluation.coverage.waiou import waiou as waiou
from candlelight.evaluation.coverage.waiou import weigh_iou as weigh_iou
