import numpy as np
import pytest

from candlelight.loaders.primaries import ADOBE_RGB, REC709, xyz_matrix


def test_matrices_are_those_of_the_standards():
    # IEC 61966-2-1 and the Adobe RGB (1998) encoding print four and five digits.
    rec709 = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    adobe = [[0.57667, 0.18556, 0.18823], [0.29734, 0.62736, 0.07529], [0.02703, 0.07069, 0.99134]]
    np.testing.assert_allclose(xyz_matrix(REC709), rec709, atol=1e-4)
    np.testing.assert_allclose(xyz_matrix(ADOBE_RGB), adobe, atol=3e-5)


@pytest.mark.parametrize("primaries", [REC709, ADOBE_RGB])
def test_white_and_primaries_keep_their_chromaticities(primaries):
    columns = [*np.eye(3), np.ones(3)]
    for rgb, (x, y) in zip(columns, primaries, strict=True):
        xyz = xyz_matrix(primaries) @ rgb
        np.testing.assert_allclose(xyz[:2] / xyz.sum(), (x, y), rtol=1e-12)
    assert (xyz_matrix(primaries) @ np.ones(3))[1] == pytest.approx(1)
