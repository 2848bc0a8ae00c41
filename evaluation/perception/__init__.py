"""Perceptual distances of images, and their invariance to transforms compared with that of people."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.perception.detection_levels import DetectionLevels as DetectionLevels
from candlelight.evaluation.perception.detection_levels import detection_levels as detection_levels
from candlelight.evaluation.perception.detection_threshold import DetectionThreshold as DetectionThreshold
from candlelight.evaluation.perception.detection_threshold import detection_threshold as detection_threshold
from candlelight.evaluation.perception.distance_spec import check_distance as check_distance
from candlelight.evaluation.perception.distance_spec import open_distance as open_distance
from candlelight.evaluation.perception.distance_spec import pair_distances as pair_distances
from candlelight.evaluation.perception.ellipses import Ellipse as Ellipse
from candlelight.evaluation.perception.ellipses import ellipse_error as ellipse_error
from candlelight.evaluation.perception.ellipses import fit_ellipse as fit_ellipse
from candlelight.evaluation.perception.fit_psychometric import PsychometricFit as PsychometricFit
from candlelight.evaluation.perception.fit_psychometric import fit_psychometric as fit_psychometric
from candlelight.evaluation.perception.fit_rated_pairs import fit_rated_pairs as fit_rated_pairs
from candlelight.evaluation.perception.geometric_transforms import place_on_canvas as place_on_canvas
from candlelight.evaluation.perception.geometric_transforms import rotate_images as rotate_images
from candlelight.evaluation.perception.geometric_transforms import scale_images as scale_images
from candlelight.evaluation.perception.geometric_transforms import translate_images as translate_images
from candlelight.evaluation.perception.hue_chromaticity import hue_chromaticities as hue_chromaticities
from candlelight.evaluation.perception.human_ellipses import HUMAN_SATURATIONS as HUMAN_SATURATIONS
from candlelight.evaluation.perception.human_ellipses import experimental_ellipse as experimental_ellipse
from candlelight.evaluation.perception.human_ellipses import macadam_ellipse as macadam_ellipse
from candlelight.evaluation.perception.human_thresholds import HUMAN_THRESHOLDS as HUMAN_THRESHOLDS
from candlelight.evaluation.perception.human_thresholds import (
    PAPER_PIXELS_PER_DEGREE as PAPER_PIXELS_PER_DEGREE,
)
from candlelight.evaluation.perception.human_thresholds import human_verdict as human_verdict
from candlelight.evaluation.perception.illuminant_shift import PAPER_HUES as PAPER_HUES
from candlelight.evaluation.perception.illuminant_shift import PAPER_SATURATIONS as PAPER_SATURATIONS
from candlelight.evaluation.perception.illuminant_shift import TransformedImages as TransformedImages
from candlelight.evaluation.perception.illuminant_shift import shift_illuminant as shift_illuminant
from candlelight.evaluation.perception.illuminant_shift import spread_hues as spread_hues
from candlelight.evaluation.perception.illuminant_thresholds import COLOUR_AXES as COLOUR_AXES
from candlelight.evaluation.perception.illuminant_thresholds import (
    IlluminantThresholds as IlluminantThresholds,
)
from candlelight.evaluation.perception.illuminant_thresholds import (
    illuminant_thresholds as illuminant_thresholds,
)
from candlelight.evaluation.perception.image_distances import DISTANCES as DISTANCES
from candlelight.evaluation.perception.image_distances import rmse_distance as rmse_distance
from candlelight.evaluation.perception.image_plane_family import image_plane_family as image_plane_family
from candlelight.evaluation.perception.lpips import LPIPS as LPIPS
from candlelight.evaluation.perception.lpips import load_lpips as load_lpips
from candlelight.evaluation.perception.measure_distances import TransformDistances as TransformDistances
from candlelight.evaluation.perception.measure_distances import measure_distances as measure_distances
from candlelight.evaluation.perception.mirror_resampling import ResamplingKernel as ResamplingKernel
from candlelight.evaluation.perception.psychometric import psychometric as psychometric
from candlelight.evaluation.perception.published_transductions import DETECTION_LEVELS as DETECTION_LEVELS
from candlelight.evaluation.perception.published_transductions import (
    published_transduction as published_transduction,
)
from candlelight.evaluation.perception.raid_agreement import raid_agreement as raid_agreement
from candlelight.evaluation.perception.response_curves import invert_curves as invert_curves
from candlelight.evaluation.perception.response_curves import mean_response as mean_response
from candlelight.evaluation.perception.score_perception import MoveSource as MoveSource
from candlelight.evaluation.perception.score_perception import score_perception as score_perception
from candlelight.evaluation.perception.transduction import Transduction as Transduction
from candlelight.evaluation.perception.transduction import fit_transduction as fit_transduction
from candlelight.evaluation.perception.transduction import normalised_dmos as normalised_dmos
from candlelight.evaluation.perception.transform_families import TransformFamily as TransformFamily
from candlelight.evaluation.perception.transform_families import paper_families as paper_families
from candlelight.evaluation.perception.transform_sensitivity import HUMAN_ORDER as HUMAN_ORDER
from candlelight.evaluation.perception.transform_sensitivity import SensitivityOrder as SensitivityOrder
from candlelight.evaluation.perception.transform_sensitivity import sensitivity_order as sensitivity_order
from candlelight.evaluation.perception.transform_sensitivity import (
    transform_sensitivity as transform_sensitivity,
)
