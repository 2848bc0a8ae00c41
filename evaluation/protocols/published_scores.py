"""Published numbers of protocols, with how they were read; numbers from memory are not among them."""

from candlelight.evaluation.protocols.evaluation_protocol import PublishedTable

THIRD_PARTY = "as transcribed by a third party (tmkhang1999/CARI, 2026); the papers' tables were not opened"

ARAP_TABLE = PublishedTable(
    f"Careaga and Aksoy 2023, Table 1, albedo, {THIRD_PARTY}",
    ("method", "LMSE", "RMSE"),
    (
        ("Chromaticity", ".024", ".296"),
        ("Bell et al. 2014", ".028", ".317"),
        ("NIID-Net", ".022", ".206"),
        ("BigTime (Li and Snavely 2018)", ".018", ".227"),
        ("PIE-Net", ".026", ".273"),
        ("Ordinal Shading", ".021", ".252"),
    ),
    "The table also has SSIM, of an input that is not known.",
)
WHDR_TABLES = (
    PublishedTable(
        f"Careaga and Aksoy 2023, Table 2, networks not trained on IIW, {THIRD_PARTY}",
        ("method", "WHDR"),
        (
            ("Bell et al. 2014", ".206"),
            ("CGIntrinsics", ".178"),
            ("NIID-Net", ".166"),
            ("PIE-Net", ".213"),
            ("Ordinal Shading", ".249"),
        ),
        "Linear values for Bell et al. and Ordinal Shading; the programs of CGIntrinsics and NIID-Net "
        "compare gamma-encoded ones.",
    ),
    PublishedTable(
        f"Wang et al., Table I, full test split, {THIRD_PARTY}",
        ("method", "WHDR"),
        (
            ("Bell et al. 2014", ".206"),
            ("CGIntrinsics", ".154"),
            ("NIID-Net", ".166"),
            ("CRefNet", ".145"),
            ("Texture-aware IID", ".136"),
        ),
        "The table mixes linear and gamma-encoded values, and networks trained with and without IIW.",
    ),
)
GAMMA_TABLE = PublishedTable(
    "read in Gupta et al. 2022 (CSM), Table 1",
    ("method", "WHDR"),
    (("BigTime", ".203"), ("USI3D", ".1869"), ("CGIntrinsics", ".148")),
    "The colour space of USI3D's number is not known.",
)
SAW_TABLE = PublishedTable(
    "read in Gupta et al. 2022 (CSM), Table 1",
    ("method", "SAW AP %"),
    (("BigTime", "91.87"), ("USI3D", "78.69"), ("CGIntrinsics", "97.93")),
    "The table mixes protocols: BigTime's program computes the plain area with thresholds up to log 8, that "
    "of CGIntrinsics the challenge.",
)
MAW_TABLE = PublishedTable(
    f"CD-IID (Careaga and Aksoy 2024), Table 1, {THIRD_PARTY}",
    ("method", "100 x intensity", "chromaticity"),
    (
        ("Bell et al. 2014", "3.11", "6.61"),
        ("CGIntrinsics", "2.71", "5.15"),
        ("BigTime (Li and Snavely 2018)", "1.72", "6.56"),
        ("NIID-Net", "1.24", "4.73"),
        ("IRISformer", "1.44", "4.94"),
        ("Kocsis et al. 2024", "1.13", "5.35"),
        ("IntrinsicAnything", ".98", "4.12"),
        ("Ordinal Shading", ".57", "6.56"),
        ("CD-IID", ".54", "3.37"),
    ),
    "The release has fewer images than the paper. The third party's own run of Ordinal Shading gave .657 and "
    "6.884.",
)
ORB_TABLE = PublishedTable(
    "read in the result files of the repository of Stanford-ORB (visualize/methods)",
    ("method", "PSNR"),
    (
        ("NVDiffRecMC", "41.60"),
        ("NVDiffRec", "40.70"),
        ("InvRender", "40.32"),
        ("NeRFactor", "40.11"),
        ("NeRD", "40.59"),
        ("SIRFS", "37.90"),
        ("PhySG", "36.82"),
        ("Neural-PIL", "36.89"),
        ("SingleImage", "34.94"),
    ),
)
