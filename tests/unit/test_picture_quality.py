"""PSNR, SSIM and ranks: against a direct formula and numbers of scikit-image."""

import numpy as np
import pytest

from privet.attacks.inversion.identification import first_of, rank_truths
from privet.attacks.inversion.picture_quality import measure_psnr, measure_ssim, psnr_at_least, ssim_at_least
from privet.errors import InvalidArgument


def direct_ssim(x, y, window=7):
    """Wang et al. 2004, equation 13, window by window, in loops."""
    values = []
    for i in range(x.shape[0] - window + 1):
        for j in range(x.shape[1] - window + 1):
            a, b = x[i : i + window, j : j + window].ravel(), y[i : i + window, j : j + window].ravel()
            covariance = np.cov(a, b)
            values.append(
                (2 * a.mean() * b.mean() + 1e-4)
                * (2 * covariance[0, 1] + 9e-4)
                / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (covariance[0, 0] + covariance[1, 1] + 9e-4))
            )
    return np.mean(values)


def test_ssim_is_the_formula():
    draws = np.random.default_rng(0)
    x, y = draws.random((3, 12, 15)), draws.random((3, 12, 15))
    y[0] = np.clip(x[0] + 0.1 * draws.standard_normal(x[0].shape), 0, 1)
    assert np.allclose(measure_ssim(x, y), [direct_ssim(a, b) for a, b in zip(x, y, strict=True)], atol=1e-12)
    assert np.allclose(measure_ssim(x[:, None], y[:, None]), measure_ssim(x, y))  # one channel
    assert np.allclose(measure_ssim(255 * x, 255 * y, span=255), measure_ssim(x, y))


def test_ssim_agrees_with_scikit_image():
    """Golden: skimage.metrics.structural_similarity(a, b, data_range=1.0) of scikit-image 0.26.0."""
    a = np.add.outer(np.arange(16), np.arange(16)) % 7 / 6.0
    b = np.multiply.outer(np.arange(16), np.arange(16)) % 5 / 4.0
    assert measure_ssim(a[None], b[None])[0] == pytest.approx(-0.0642270440050394, abs=1e-9)
    assert measure_ssim(a[None], 0.5 * a[None] + 0.25)[0] == pytest.approx(0.80126154305405, abs=1e-9)


def test_a_missing_picture_is_a_miss_and_bad_input_is_refused():
    draws = np.random.default_rng(1)
    x = draws.random((2, 8, 8))
    missing = np.full_like(x, np.nan)
    for criterion in (ssim_at_least(0.5), psnr_at_least(20), first_of(x)):
        assert not criterion.hits(criterion.distance(missing, x)).any()
        assert criterion.hits(criterion.distance(x, x)).all()
    with pytest.raises(InvalidArgument, match="pixels within the given span"):
        measure_psnr(x, 255 * x)
    with pytest.raises(InvalidArgument, match="pictures of one shape"):
        measure_ssim(x, x[:1])
    with pytest.raises(InvalidArgument, match="rows of one shape"):
        rank_truths(x, x, x[:, :4])


def test_ranks_count_ties_against_the_attack():
    """A recovery that says nothing has the last rank, and the truth is not its own rival."""
    draws = np.random.default_rng(2)
    listed = draws.random((50, 30))
    assert (rank_truths(listed, listed, listed) == 1).all()
    assert (rank_truths(3 * listed + 1, listed, listed) == 1).all()  # brightness and contrast do not matter
    assert (rank_truths(np.ones_like(listed), listed, listed) == 50).all()
    # Random recoveries: ranks are uniform, mean 25.5 ± 4 standard errors over 2,000.
    ranks = rank_truths(draws.random((2000, 30)), listed[draws.integers(0, 50, 2000)], listed)
    assert abs(ranks.mean() - 25.5) < 4 * 14.4 / np.sqrt(2000)
