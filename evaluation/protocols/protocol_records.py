"""The records of all protocols; here those with true reflectance and shading."""

from dataclasses import replace
from functools import partial

from candlelight.evaluation.protocols.evaluation_protocol import DecompositionRule, EvaluationProtocol
from candlelight.evaluation.protocols.judgement_records import JUDGEMENT_RECORDS
from candlelight.evaluation.protocols.marigold_values import (
    hypersim_item,
    hypersim_values,
    interiorverse_item,
    interiorverse_values,
)
from candlelight.evaluation.protocols.protocol_values import (
    barron_values,
    crefnet_values,
    grosse_values,
    orb_values,
    ordinal_input,
    ordinal_values,
    sintel_values,
)
from candlelight.evaluation.protocols.published_scores import ARAP_TABLE, ORB_TABLE

_MEAN = "arithmetic, over images"
_SINTEL_COLUMNS = tuple(
    f"{score}{part}" for score in ("si_mse", "si_lmse", "dssim") for part in ("", "_reflectance", "_shading")
)
_LPIPS = "LPIPS, which `candlelight.evaluation.perception.load_lpips` computes."


_MARIGOLD = "Ke et al., Marigold, 2025; prs-eth/Marigold b1dffaa, script/iid/eval.py"


_INTERIORVERSE = EvaluationProtocol(
    name="interiorverse-marigold",
    version=2,
    reads="decompositions",
    better="higher",
    columns=("psnr_reflectance", "ssim_reflectance"),
    rule=DecompositionRule(partial(interiorverse_values, encoded=True, scaled=False), interiorverse_item),
    files="InteriorVerse, 85 degrees: 2,672 test frames of 210 scenes; the download is gone since 2026",
    colour_space="power 1/2.2",
    scale="none",
    mask="none: every pixel counts, also those without a truth; an image of black truth is left out",
    resize="none after the network, which works at 640 pixels in the program",
    window="SSIM of torchmetrics 1.6 to 1.8, range 1",
    mean=_MEAN,
    source=_MARIGOLD,
    left_out=f"{_LPIPS} Material is not scored.",
)


def _interiorverse(name: str, *, encoded: bool, scaled: bool) -> EvaluationProtocol:
    scale = f"one for the image, of least squares{' in linear light' if encoded else ''}"
    values = partial(interiorverse_values, encoded=encoded, scaled=scaled)
    return replace(
        _INTERIORVERSE,
        name=name,
        rule=DecompositionRule(values, interiorverse_item),
        files=f"as `{_INTERIORVERSE.name}`",
        colour_space="power 1/2.2" if encoded else "linear",
        scale=scale if scaled else "none",
        source="ours: no paper publishes a program with this choice",
        left_out="",
    )


_RECORDS = (
    EvaluationProtocol(
        name="mit-grosse",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse", "lmse_reflectance", "lmse_shading"),
        rule=DecompositionRule(grosse_values),
        files="MIT Intrinsic Images: 16 objects (`--split grosse`), `diffuse`",
        colour_space="linear, mean of the channels",
        scale="one for each window",
        mask="the object, as a factor of each pixel",
        resize="none",
        window="20x20, 10 apart, wholly in the image; errors / squared truth, summed over windows",
        mean=f"{_MEAN}; mean of reflectance and shading",
        source="Grosse et al., ICCV 2009; intrinsic.py, comparison.py",
        trial="run on the real files, in the cropped copy of Barron and Malik",
        left_out="Thresholds of the paper's methods are chosen by leave-one-out: `--methods` does so.",
    ),
    EvaluationProtocol(
        name="mit-barron",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse", "mse_reflectance", "mse_shading"),
        rule=DecompositionRule(barron_values, average="geometric"),
        files="MIT Intrinsic Images: 10 objects (`--split barron-test`)",
        colour_space="linear, each channel; gray true shading is repeated",
        scale="LMSE: one for each window and channel; MSE: one for all pixels and channels",
        mask="the object",
        resize="none",
        window="blocks of 20x20 from pixel 0 and from pixel 9, in both directions, filled with zeros",
        mean="geometric, over images; LMSE is the mean of reflectance and shading",
        source="Barron and Malik, TPAMI 2015; Fan et al., CVPR 2018 (compute_MIT_error.m)",
        trial="run on the real files of the 16 objects of `mit-grosse`, not on its own ten, of which pear "
        "and potato were not at hand",
    ),
    EvaluationProtocol(
        name="arap-ordinal",
        version=1,
        reads="decompositions",
        better="lower",
        columns=("lmse_reflectance", "rmse_reflectance"),
        rule=DecompositionRule(ordinal_values, ordinal_input),
        files="ARAP: 52 scenes in the paper; the list is not published",
        colour_space="linear, all channels",
        scale="LMSE: one for each window; RMSE: one for the image",
        mask="that of the files",
        resize="long side 512, for the model and for scoring; the input is white-balanced by the true "
        "reflectance and clipped to [0, 1]",
        window="16x16, 8 apart, wholly in the image; errors / squared truth, summed over windows",
        mean=_MEAN,
        source="Careaga and Aksoy, Ordinal Shading, TOG 2023; chrislib; answers 19, 20 and 22 in the issues "
        "of compphoto/Intrinsic",
        left_out="SSIM: which image it takes is not known. The filter of the resizing is not published; "
        "here it is bilinear with anti-aliasing. CD-IID takes other scenes and a coloured input.",
        published=(ARAP_TABLE,),
    ),
    EvaluationProtocol(
        name="sintel",
        version=1,
        reads="decompositions",
        better="lower",
        columns=_SINTEL_COLUMNS,
        rule=DecompositionRule(sintel_values),
        files="MPI-Sintel: scene split of 450 test frames and its reverse, averaged; papers also take 400 "
        "frames without defects, image splits, and crops",
        colour_space="stored 8-bit values, here sRGB clipped to [0, 1], of prediction and truth",
        scale="si-MSE, DSSIM: one for the image; si-LMSE: one for each window; cut at 1, but for DSSIM",
        mask="none on MPI-Sintel; that of the data elsewhere",
        resize="none",
        window="si-LMSE: a tenth of the longer side, half of that apart, cut off at the edge, mean over "
        "windows; SSIM 11x11, wholly in the image",
        mean=f"{_MEAN}; mean of reflectance and shading",
        source="Chen and Koltun, ICCV 2013; Narihira et al., ICCV 2015; Fan et al., CVPR 2018 (MATLAB)",
        left_out="Another program of theirs searches the scale of the best SSIM.",
    ),
    EvaluationProtocol(
        name="sintel-crefnet",
        version=1,
        reads="decompositions",
        better="lower",
        columns=_SINTEL_COLUMNS,
        rule=DecompositionRule(crefnet_values),
        files="MPI-Sintel: scene split of 400 test frames without defects and its reverse",
        colour_space="truth: stored 8-bit values, here sRGB; prediction: sRGB clipped to [0, 1], not rounded",
        scale="as `sintel`, not cut at 1; DSSIM: the scale of a search for the best SSIM",
        mask="that of the files",
        resize="none",
        window="as `sintel`, with further windows at the edges; windows outside the mask count as perfect",
        mean=_MEAN,
        source="Luo et al., CRefNet, TVCG 2024 (solver/metrics_intrinsic_images.py)",
        left_out="The program scores reflectance or shading in a run; the mean of both is ours.",
    ),
    EvaluationProtocol(
        name="hypersim-marigold",
        version=2,
        reads="decompositions",
        better="higher",
        columns=("psnr_reflectance", "ssim_reflectance", "psnr_shading", "ssim_shading"),
        rule=DecompositionRule(hypersim_values, hypersim_item, prepared=("hypersim",)),
        files="Hypersim: 5,238 test frames of 44 scenes (hypersim_test.txt)",
        colour_space="reflectance: power 1/2.2; shading: linear, mapped so that the 90th percentile of the "
        "true brightness is 0.8, clipped to [0, 1]",
        scale="reflectance: none; shading: one for all channels",
        mask="reflectance known and not black, shading known; SSIM: black outside, all windows count; "
        "shading that the program maps to black is left out",
        resize="none; image tone-mapped to 8 bits; true shading clipped at its 98th percentile and divided "
        "by it",
        window="SSIM of torchmetrics 1.6 to 1.8, range 1",
        mean=_MEAN,
        source=_MARIGOLD,
        left_out=f"{_LPIPS} The residual, which a decomposition does not have; so the shading of other data "
        "than Hypersim is cut off at its own percentile, not at the larger one of shading and residual. "
        "Reflectance and shading have masks of their own in the program. torchmetrics 1.2 computes another "
        "SSIM, and the program does not say its version.",
    ),
    _INTERIORVERSE,
    _interiorverse("interiorverse-scaled", encoded=True, scaled=True),
    _interiorverse("interiorverse-linear", encoded=False, scaled=False),
    _interiorverse("interiorverse-linear-scaled", encoded=False, scaled=True),
    EvaluationProtocol(
        name="stanford-orb",
        version=2,
        reads="decompositions",
        better="higher",
        columns=("psnr_reflectance",),
        rule=DecompositionRule(orb_values, average="groups"),
        files="Stanford-ORB: 42 captures of 14 objects (SCENES_FULL), 512x512",
        colour_space="linear, though the program calls it psnr_ldr",
        scale="one for each channel, then clipped to [0, 1]",
        mask="the object, eroded by 5x5 pixels; the black rest counts, hence values near 40 dB; an object "
        "of black truth is left out",
        resize="none here; the program reduces the truth by 4",
        window="none; never below the score of 0.5 everywhere",
        mean="arithmetic, over the views of a capture, then over captures (groups)",
        source="Kuang et al., Stanford-ORB, NeurIPS 2023; orb/utils/metrics.py, test.py",
        left_out="SSIM (window 3) and LPIPS (VGG).",
        published=(ORB_TABLE,),
    ),
)
PROTOCOLS = {record.name: record for record in (*_RECORDS, *JUDGEMENT_RECORDS)}
