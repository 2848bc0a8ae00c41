"""Perceptual distances of images, and how they respond to transforms that people hardly see."""

from evaluation.perception.distance_spec import check_distance as check_distance
from evaluation.perception.distance_spec import open_distance as open_distance
from evaluation.perception.distance_spec import pair_distances as pair_distances
from evaluation.perception.geometric_transforms import place_on_canvas as place_on_canvas
from evaluation.perception.geometric_transforms import rotate_images as rotate_images
from evaluation.perception.geometric_transforms import scale_images as scale_images
from evaluation.perception.geometric_transforms import translate_images as translate_images
from evaluation.perception.illuminant_shift import PAPER_HUES as PAPER_HUES
from evaluation.perception.illuminant_shift import PAPER_SATURATIONS as PAPER_SATURATIONS
from evaluation.perception.illuminant_shift import TransformedImages as TransformedImages
from evaluation.perception.illuminant_shift import shift_illuminant as shift_illuminant
from evaluation.perception.image_distances import DISTANCES as DISTANCES
from evaluation.perception.image_distances import dssim_distance as dssim_distance
from evaluation.perception.image_distances import lmse_distance as lmse_distance
from evaluation.perception.image_distances import ms_ssim_distance as ms_ssim_distance
from evaluation.perception.image_distances import rmse_distance as rmse_distance
from evaluation.perception.image_distances import ssim_distance as ssim_distance
from evaluation.perception.image_plane_view import ImagePlaneView as ImagePlaneView
from evaluation.perception.lpips import LPIPS as LPIPS
from evaluation.perception.lpips import load_lpips as load_lpips
from evaluation.perception.measure_distances import TransformDistances as TransformDistances
from evaluation.perception.measure_distances import measure_distances as measure_distances
from evaluation.perception.mirror_resampling import ResamplingKernel as ResamplingKernel
from evaluation.perception.transform_families import PAPER_PIXELS_PER_DEGREE as PAPER_PIXELS_PER_DEGREE
from evaluation.perception.transform_families import TransformFamily as TransformFamily
from evaluation.perception.transform_families import paper_families as paper_families
