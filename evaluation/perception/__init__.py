"""Perceptual distances of images, and their invariance to transforms compared with that of people."""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.intrinsic.lpips import LPIPS as LPIPS
from candlelight.evaluation.intrinsic.lpips import load_lpips as load_lpips
from candlelight.evaluation.perception.curve_scores import SensitivityOrder as SensitivityOrder
from candlelight.evaluation.perception.curve_scores import sensitivity_order as sensitivity_order
from candlelight.evaluation.perception.curve_scores import transform_sensitivity as transform_sensitivity
from candlelight.evaluation.perception.detection import DetectionThreshold as DetectionThreshold
from candlelight.evaluation.perception.detection import IlluminantThresholds as IlluminantThresholds
from candlelight.evaluation.perception.detection import Transduction as Transduction
from candlelight.evaluation.perception.detection import detection_threshold as detection_threshold
from candlelight.evaluation.perception.detection import fit_rated_pairs as fit_rated_pairs
from candlelight.evaluation.perception.detection import fit_transduction as fit_transduction
from candlelight.evaluation.perception.detection import illuminant_thresholds as illuminant_thresholds
from candlelight.evaluation.perception.detection import invert_curves as invert_curves
from candlelight.evaluation.perception.detection import mean_response as mean_response
from candlelight.evaluation.perception.detection import normalised_dmos as normalised_dmos
from candlelight.evaluation.perception.detection import published_transduction as published_transduction
from candlelight.evaluation.perception.distances import DISTANCES as DISTANCES
from candlelight.evaluation.perception.distances import check_distance as check_distance
from candlelight.evaluation.perception.distances import open_distance as open_distance
from candlelight.evaluation.perception.distances import pair_distances as pair_distances
from candlelight.evaluation.perception.distances import rmse_distance as rmse_distance
from candlelight.evaluation.perception.measure_distances import TransformDistances as TransformDistances
from candlelight.evaluation.perception.measure_distances import measure_distances as measure_distances
from candlelight.evaluation.perception.people import COLOUR_AXES as COLOUR_AXES
from candlelight.evaluation.perception.people import HUMAN_ORDER as HUMAN_ORDER
from candlelight.evaluation.perception.people import HUMAN_SATURATIONS as HUMAN_SATURATIONS
from candlelight.evaluation.perception.people import HUMAN_THRESHOLDS as HUMAN_THRESHOLDS
from candlelight.evaluation.perception.people import Ellipse as Ellipse
from candlelight.evaluation.perception.people import ellipse_error as ellipse_error
from candlelight.evaluation.perception.people import experimental_ellipse as experimental_ellipse
from candlelight.evaluation.perception.people import fit_ellipse as fit_ellipse
from candlelight.evaluation.perception.people import human_verdict as human_verdict
from candlelight.evaluation.perception.people import macadam_ellipse as macadam_ellipse
from candlelight.evaluation.perception.psychometric import DETECTION_LEVELS as DETECTION_LEVELS
from candlelight.evaluation.perception.psychometric import DetectionLevels as DetectionLevels
from candlelight.evaluation.perception.psychometric import MeasuredThresholds as MeasuredThresholds
from candlelight.evaluation.perception.psychometric import PsychometricFit as PsychometricFit
from candlelight.evaluation.perception.psychometric import detection_levels as detection_levels
from candlelight.evaluation.perception.psychometric import fit_psychometric as fit_psychometric
from candlelight.evaluation.perception.psychometric import psychometric as psychometric
from candlelight.evaluation.perception.score_perception import PerceptionData as PerceptionData
from candlelight.evaluation.perception.transforms import PAPER_HUES as PAPER_HUES
from candlelight.evaluation.perception.transforms import PAPER_PIXELS_PER_DEGREE as PAPER_PIXELS_PER_DEGREE
from candlelight.evaluation.perception.transforms import PAPER_SATURATIONS as PAPER_SATURATIONS
from candlelight.evaluation.perception.transforms import ResamplingKernel as ResamplingKernel
from candlelight.evaluation.perception.transforms import TransformedImages as TransformedImages
from candlelight.evaluation.perception.transforms import TransformFamily as TransformFamily
from candlelight.evaluation.perception.transforms import hue_chromaticities as hue_chromaticities
from candlelight.evaluation.perception.transforms import image_plane_family as image_plane_family
from candlelight.evaluation.perception.transforms import paper_families as paper_families
from candlelight.evaluation.perception.transforms import place_on_canvas as place_on_canvas
from candlelight.evaluation.perception.transforms import rotate_images as rotate_images
from candlelight.evaluation.perception.transforms import scale_images as scale_images
from candlelight.evaluation.perception.transforms import shift_illuminant as shift_illuminant
from candlelight.evaluation.perception.transforms import spread_hues as spread_hues
from candlelight.evaluation.perception.transforms import translate_images as translate_images
