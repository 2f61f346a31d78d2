"""The distribution of the noise on buffers. Every check has a false-alarm rate of 10⁻⁹ or less.

With n = 2¹⁹ numbers the checks see, with a chance of over 99.9 %: a mean off by 0.013 σ, a variance off by 2
%, a fourth moment off by 2 %, a distance of 0.007 between the distribution functions, and tails beyond 4 σ
that are 3 times too heavy or absent.
"""

import math
import os

import numpy as np
import pytest
import torch
from scipy import stats

from privet.randomness import SecureNoise
from privet.training.noise import compiled_normals
from privet.training.noise.correlated import BandedNoise, TreeNoise
from privet.training.noise.gradient_noise import add_gaussian_, add_student_
from privet.training.noise.secure_stream import expand_source

SIZE = 2**19
Z = 6.2  # P[|N| > 6.2] < 10⁻⁹
SMALLEST = 1e-9


def failures(sample: np.ndarray, deviation: float) -> list[str]:
    """Which checks of N(0, deviation²) the sample fails."""
    z = sample / deviation
    n = z.size
    far = int((np.abs(z) > 4).sum())
    checks = {
        "mean": abs(z.mean()) * math.sqrt(n) < Z,
        "variance": abs(z.var() - 1) * math.sqrt(n / 2) < Z,
        "third moment": abs((z**3).mean()) * math.sqrt(n / 15) < Z,
        "fourth moment": abs((z**4).mean() - 3) * math.sqrt(n / 96) < Z,
        "distribution": stats.kstest(z[: 2**17], "norm").pvalue > SMALLEST,
        "tails": stats.binomtest(far, n, 2 * stats.norm.sf(4)).pvalue > SMALLEST,
        "neighbours": abs(float(np.mean(z[:-1] * z[1:]))) * math.sqrt(n) < Z,
        "pairs": abs(float(np.mean(z[: n // 2] * z[n // 2 :]))) * math.sqrt(n / 2) < Z,
        "sizes of pairs": abs(float(np.mean((z[: n // 2] ** 2 - 1) * (z[n // 2 :] ** 2 - 1))))
        * math.sqrt(n / 8)
        < Z,
    }
    return [name for name, passed in checks.items() if not passed]


@pytest.fixture(params=["torch", "numba"], scope="module")
def sample(request):
    if request.param == "numba" and not compiled_normals.is_available():
        pytest.skip("numba is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_normals, "is_available", lambda: request.param == "numba")
        return add_gaussian_(torch.zeros(SIZE), 3.0, SecureNoise()).double().numpy()


def test_secure_noise_is_normal(sample):
    assert failures(sample, 3.0) == []


def test_the_checks_see_what_is_wrong(sample):
    """Mutations: each would be a mistake in the noise, and each must be found."""
    assert "variance" in failures(sample / 2, 3.0)
    assert "variance" in failures(sample * 0.98, 3.0)
    assert "mean" in failures(sample + 0.06, 3.0)
    assert "tails" in failures(np.clip(sample, -11.9, 11.9), 3.0)
    assert "distribution" in failures(3 * math.sqrt(3) * (2 * stats.norm.cdf(sample / 3) - 1), 3.0)
    assert "neighbours" in failures((sample + np.roll(sample, 1)) / math.sqrt(2), 3.0)
    assert "pairs" in failures(np.tile(sample[: SIZE // 2], 2), 3.0)
    polar = np.abs(sample[: SIZE // 2])
    signs = np.sign(sample[SIZE // 2 :])
    assert "sizes of pairs" in failures(np.concatenate((sample[: SIZE // 2], polar * signs)), 3.0)
    student = add_student_(torch.zeros(SIZE), 3.0 / math.sqrt(3), 3.0, SecureNoise()).double().numpy()
    assert "fourth moment" in failures(student, 3.0)


def test_calls_are_independent():
    """Correlation of 2¹⁷ numbers of two calls: false alarm 10⁻⁹, finds a correlation of 0.03."""
    first, second = (add_gaussian_(torch.zeros(2**17), 1.0, SecureNoise()).double() for _ in range(2))
    assert abs(float((first * second).mean())) * 2**8.5 < Z
    assert abs(float(((first**2 - 1) * (second**2 - 1)).mean())) * 2**8.5 / 2 < Z


@pytest.mark.parametrize("degrees", [1.0, 3.0, 10.0])
def test_student_noise_has_its_law(degrees):
    """Kolmogorov and Smirnov with 2¹⁶ numbers: false alarm 10⁻⁹, finds half the degrees."""
    found = add_student_(torch.zeros(2**16), 2.0, degrees, SecureNoise()).double().numpy() / 2
    assert stats.kstest(found, stats.t(degrees).cdf).pvalue > SMALLEST
    assert stats.kstest(found, stats.t(degrees / 2).cdf).pvalue < SMALLEST


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_after_a_fork_never_share_noise():
    """512 bits from each of two children and their parent: equal by chance with probability below 2⁻⁵⁰⁰."""
    add_gaussian_(torch.zeros(64), 1.0, SecureNoise())  # whatever state there could be, there is
    seen = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, expand_source(SecureNoise()).bits(8).tobytes())
                os.write(writer, add_gaussian_(torch.zeros(64), 1.0, SecureNoise()).numpy().tobytes())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            seen.append(pipe.read())
        os.waitpid(child, 0)
    seen.append(
        expand_source(SecureNoise()).bits(8).tobytes()
        + add_gaussian_(torch.zeros(64), 1.0, SecureNoise()).numpy().tobytes()
    )
    assert all(len(found) == 64 + 256 for found in seen)
    assert len({found[:64] for found in seen}) == 3
    assert len({found[64:] for found in seen}) == 3


def covariance(stream, steps, width):
    return np.cov(np.stack([stream.add_(torch.zeros(width)).double().numpy() for _ in range(steps)]))


@pytest.mark.parametrize("column", [(1.0, 0.5, 0.375), (2.0, 1.0)])
def test_banded_noise_has_the_covariance_of_its_matrix(column):
    """(CᵀC)⁻¹ from 40,000 coordinates: false alarm 2·10⁻⁸ over all entries; finds an error of 5 %."""
    steps, width = 6, 40_000
    matrix = sum(value * np.eye(steps, k=-place) for place, value in enumerate(column))
    expected = 4.0 * np.linalg.inv(matrix.T @ matrix)
    found = covariance(BandedNoise(column).stream(width, 2.0, SecureNoise()), steps, width)
    scale = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / width)
    assert (np.abs(found - expected) < Z * scale).all()
    assert not (
        np.abs(covariance(BandedNoise((1.0,)).stream(width, 2.0, SecureNoise()), steps, width) - expected)
        < Z * scale
    ).all()


@pytest.mark.parametrize("efficient", [False, True])
def test_tree_noise_has_the_variance_of_its_nodes(efficient):
    """Running sums of 40,000 coordinates: false alarm 10⁻⁸ over all steps; finds a variance 5 % off."""
    steps, width = 8, 40_000
    stream = TreeNoise(efficient).stream(width, 2.0, SecureNoise())
    total = torch.zeros(width, dtype=torch.float64)
    for step in range(1, steps + 1):
        total += stream.add_(torch.zeros(width)).double()
        heights = [height for height in range(4) if step >> height & 1]
        expected = 4.0 * sum(1 / (2 - 2.0**-height) if efficient else 1.0 for height in heights)
        assert abs(float(total.var()) / expected - 1) * math.sqrt(width / 2) < Z
