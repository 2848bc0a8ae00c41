"""Coverage of annotated parts by visual explanations: WAIoU and its protocol."""

from evaluation.coverage.binarise_heatmaps import Explanations as Explanations
from evaluation.coverage.binarise_heatmaps import binarise as binarise
from evaluation.coverage.binarise_heatmaps import explanation_heatmap as explanation_heatmap
from evaluation.coverage.binarise_heatmaps import set_threshold as set_threshold
from evaluation.coverage.coverage_tables import coverage_tables as coverage_tables
from evaluation.coverage.coverage_tables import write_coverage_tables as write_coverage_tables
from evaluation.coverage.explanations import Explanation as Explanation
from evaluation.coverage.explanations import ExplanationMethod as ExplanationMethod
from evaluation.coverage.filter_ablation import FilterAblation as FilterAblation
from evaluation.coverage.filter_ablation import ablate_filters as ablate_filters
from evaluation.coverage.grad_cam import GradCAM as GradCAM
from evaluation.coverage.grad_cam import WeightedFilters as WeightedFilters
from evaluation.coverage.grad_cam import grad_cam as grad_cam
from evaluation.coverage.grad_cam import grad_cam_by_filter as grad_cam_by_filter
from evaluation.coverage.grad_cam import weigh_filters as weigh_filters
from evaluation.coverage.lasso import NonNegativeLasso as NonNegativeLasso
from evaluation.coverage.lasso import nonnegative_lasso as nonnegative_lasso
from evaluation.coverage.score_coverage import layer_heatmaps as layer_heatmaps
from evaluation.coverage.score_coverage import score_coverage as score_coverage
from evaluation.coverage.vebi import VEBI as VEBI
from evaluation.coverage.vebi import filter_energies as filter_energies
from evaluation.coverage.waiou import WAIoU as WAIoU
from evaluation.coverage.waiou import part_iou as part_iou
from evaluation.coverage.waiou import waiou as waiou
from evaluation.coverage.waiou import weigh_iou as weigh_iou
