"""Coverage of annotated parts by visual explanations: WAIoU and its protocol."""

from evaluation.coverage.binarise_heatmaps import Explanations as Explanations
from evaluation.coverage.binarise_heatmaps import binarise as binarise
from evaluation.coverage.binarise_heatmaps import explanation_heatmap as explanation_heatmap
from evaluation.coverage.binarise_heatmaps import set_threshold as set_threshold
from evaluation.coverage.score_coverage import layer_heatmaps as layer_heatmaps
from evaluation.coverage.score_coverage import score_coverage as score_coverage
from evaluation.coverage.waiou import WAIoU as WAIoU
from evaluation.coverage.waiou import part_iou as part_iou
from evaluation.coverage.waiou import waiou as waiou
from evaluation.coverage.waiou import weigh_iou as weigh_iou
