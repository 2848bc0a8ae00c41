"""Metrics of predicted reflectance and shading: against the truth, against judgements, and over lights.

The records `LMSE`, `WHDR`, `SAW_PRECISION`, `MAW_ERROR`, `CONSTANCY` and `LEAKS` score models by them,
`ONE_LAYER`, `NORMALS` and `DEPTH` score one layer; an evaluation of one's own reads images with their
decomposition by `DECOMPOSITIONS`.
"""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.intrinsic.alignment import align as align
from candlelight.evaluation.intrinsic.constancy import chroma_drift as chroma_drift
from candlelight.evaluation.intrinsic.constancy import chroma_retention as chroma_retention
from candlelight.evaluation.intrinsic.constancy import material_variation as material_variation
from candlelight.evaluation.intrinsic.image_errors import ciede2000 as ciede2000
from candlelight.evaluation.intrinsic.image_errors import mae as mae
from candlelight.evaluation.intrinsic.image_errors import mse as mse
from candlelight.evaluation.intrinsic.image_errors import psnr as psnr
from candlelight.evaluation.intrinsic.image_errors import si_mse as si_mse
from candlelight.evaluation.intrinsic.intrinsic_records import CONSTANCY as CONSTANCY
from candlelight.evaluation.intrinsic.intrinsic_records import DECOMPOSITIONS as DECOMPOSITIONS
from candlelight.evaluation.intrinsic.intrinsic_records import LMSE as LMSE
from candlelight.evaluation.intrinsic.intrinsic_records import MAW_ERROR as MAW_ERROR
from candlelight.evaluation.intrinsic.intrinsic_records import SAW_PRECISION as SAW_PRECISION
from candlelight.evaluation.intrinsic.intrinsic_records import WHDR as WHDR
from candlelight.evaluation.intrinsic.judgements import SAWCurve as SAWCurve
from candlelight.evaluation.intrinsic.judgements import SAWVariant as SAWVariant
from candlelight.evaluation.intrinsic.judgements import count_smooth as count_smooth
from candlelight.evaluation.intrinsic.judgements import saw_average_precision as saw_average_precision
from candlelight.evaluation.intrinsic.judgements import saw_curve as saw_curve
from candlelight.evaluation.intrinsic.judgements import whdr as whdr
from candlelight.evaluation.intrinsic.layer_records import DEPTH as DEPTH
from candlelight.evaluation.intrinsic.layer_records import NORMALS as NORMALS
from candlelight.evaluation.intrinsic.layer_records import ONE_LAYER as ONE_LAYER
from candlelight.evaluation.intrinsic.layer_scores import DepthErrors as DepthErrors
from candlelight.evaluation.intrinsic.layer_scores import NormalErrors as NormalErrors
from candlelight.evaluation.intrinsic.layer_scores import depth_errors as depth_errors
from candlelight.evaluation.intrinsic.layer_scores import normal_errors as normal_errors
from candlelight.evaluation.intrinsic.leaks import LEAKS as LEAKS
from candlelight.evaluation.intrinsic.leaks import VarianceShares as VarianceShares
from candlelight.evaluation.intrinsic.leaks import variance_shares as variance_shares
from candlelight.evaluation.intrinsic.lmse import geometric_mean as geometric_mean
from candlelight.evaluation.intrinsic.lmse import lmse as lmse
from candlelight.evaluation.intrinsic.lmse import lmse_barron as lmse_barron
from candlelight.evaluation.intrinsic.lmse import lmse_barron_score as lmse_barron_score
from candlelight.evaluation.intrinsic.lmse import lmse_chrislib_rgb as lmse_chrislib_rgb
from candlelight.evaluation.intrinsic.lmse import lmse_score as lmse_score
from candlelight.evaluation.intrinsic.lmse import lmse_sintel as lmse_sintel
from candlelight.evaluation.intrinsic.material_albedo import maw_chromaticity as maw_chromaticity
from candlelight.evaluation.intrinsic.material_albedo import maw_intensity as maw_intensity
from candlelight.evaluation.intrinsic.material_albedo import region_means as region_means
from candlelight.evaluation.intrinsic.material_albedo import resize_for_maw as resize_for_maw
from candlelight.evaluation.intrinsic.protocol_records import dssim_crefnet as dssim_crefnet
from candlelight.evaluation.intrinsic.protocol_records import lmse_crefnet as lmse_crefnet
from candlelight.evaluation.intrinsic.ssim import SSIM_DEFINITION as SSIM_DEFINITION
from candlelight.evaluation.intrinsic.ssim import dssim as dssim
from candlelight.evaluation.intrinsic.ssim import ms_ssim as ms_ssim
from candlelight.evaluation.intrinsic.ssim import ssim as ssim
from candlelight.evaluation.intrinsic.ssim import ssim_padded as ssim_padded
