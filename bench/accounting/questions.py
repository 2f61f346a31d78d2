"""What is asked of every tool, and the answer where it is known to more digits than any tool gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A true value, written with the digits that are known."""

    text: str

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def resolution(self) -> float:
        """One unit of the last digit, relative: what a smaller difference says nothing beyond."""
        mantissa, _, exponent = self.text.partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 10.0 ** (int(exponent or 0) - decimals) / self.value


@dataclass(frozen=True)
class DpSgd:
    """Poisson-sampled Gaussian sums under add-remove adjacency."""

    rate: float
    noise_multiplier: float
    steps: int


@dataclass(frozen=True)
class Gaussians:
    """Gaussian sums on all of the data."""

    noise_multiplier: float
    steps: int


@dataclass(frozen=True)
class Laplaces:
    """Laplace sums on all of the data."""

    noise_multiplier: float
    steps: int


@dataclass(frozen=True)
class Epsilon:
    """ε at this δ."""

    mechanism: DpSgd | Gaussians | Laplaces
    delta: float


@dataclass(frozen=True)
class Tpr:
    """The most that an attack can reach at this false-positive rate."""

    mechanism: DpSgd
    fpr: float


@dataclass(frozen=True)
class NoiseForEpsilon:
    """The noise multiplier of DP-SGD for a target (ε, δ)."""

    rate: float
    steps: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class NoiseForTpr:
    """The noise multiplier of DP-SGD for a target risk."""

    rate: float
    steps: int
    tpr: float
    fpr: float


Question = Epsilon | Tpr | NoiseForEpsilon | NoiseForTpr


@dataclass(frozen=True)
class Setting:
    label: str
    question: Question
    reference: Reference | None = None


@dataclass(frozen=True)
class Group:
    title: str
    unit: str
    settings: tuple[Setting, ...]


MNIST = DpSgd(256 / 60_000, 1.1, 14_062)


def _dp_sgd(label: str, mechanism: DpSgd, delta: float, exact: str) -> Setting:
    return Setting(label, Epsilon(mechanism, delta), Reference(exact))


# Exact values: at small δ and of the TPR by tests/oracle, to 12 digits; σ for a TPR is Privet's own, at which
# the oracle's TPR is the target to 2e-7; all others were computed to 30 digits when the bars were set.
GROUPS = (
    Group(
        "DP-SGD: ε",
        "ε",
        (
            _dp_sgd("q 256/60000, σ 1.1, T 14062, δ 1e-5", DpSgd(256 / 60_000, 1.1, 14_062), 1e-5, "2.38160"),
            _dp_sgd("q 1e-4, σ 0.6, T 1e5, δ 1e-6", DpSgd(1e-4, 0.6, 100_000), 1e-6, "0.963278"),
            _dp_sgd("q 1024/1e6, σ 0.7, T 1e4, δ 1e-7", DpSgd(1024 / 1e6, 0.7, 10_000), 1e-7, "2.13720"),
            _dp_sgd("q 0.5, σ 20, T 1e3, δ 1e-6", DpSgd(0.5, 20.0, 1_000), 1e-6, "3.75509"),
            _dp_sgd("q 1e-3, σ 10, T 1e3, δ 1e-8", DpSgd(1e-3, 10.0, 1_000), 1e-8, "0.0133524"),
            _dp_sgd("q 0.01, σ 0.4, T 2e3, δ 1e-5", DpSgd(0.01, 0.4, 2_000), 1e-5, "38.7360"),
        ),
    ),
    Group(
        "Unsampled noise: ε",
        "ε",
        (
            Setting(
                "Gaussian σ 10, T 100, δ 1e-6", Epsilon(Gaussians(10.0, 100), 1e-6), Reference("4.886554")
            ),
            Setting("Laplace b 10, k 100, δ 1e-6", Epsilon(Laplaces(10.0, 100), 1e-6), Reference("4.69267")),
            Setting(
                "Laplace b 10, k 1000, δ 1e-6", Epsilon(Laplaces(10.0, 1_000), 1e-6), Reference("18.9503")
            ),
        ),
    ),
    Group(
        "Small δ: ε of q 256/60000, σ 1.1, T 14062",
        "ε",
        tuple(
            Setting(f"δ {delta:g}", Epsilon(MNIST, delta), Reference(exact))
            for delta, exact in ((1e-12, "4.174469"), (1e-16, "4.958832"), (1e-20, "5.680461"))
        ),
    ),
    Group(
        "Attack risk: highest TPR of q 256/60000, σ 1.1, T 14062",
        "TPR",
        tuple(
            Setting(f"FPR {fpr:g}", Tpr(MNIST, fpr), Reference(exact))
            for fpr, exact in ((1e-5, "1.170197e-4"), (1e-10, "4.042341e-9"))
        ),
    ),
    Group(
        "Calibration to (ε, δ): σ",
        "σ",
        (
            Setting(
                "q 256/60000, T 14062, ε 2, δ 1e-5",
                NoiseForEpsilon(256 / 60_000, 14_062, 2.0, 1e-5),
                Reference("1.22415"),
            ),
            Setting(
                "q 1e-4, T 1e5, ε 1, δ 1e-6",
                NoiseForEpsilon(1e-4, 100_000, 1.0, 1e-6),
                Reference("0.596787"),
            ),
        ),
    ),
    Group(
        "Calibration to attack risk: σ",
        "σ",
        tuple(
            Setting(
                f"q 256/60000, T 14062, TPR {tpr:g} at FPR {fpr:g}",
                NoiseForTpr(256 / 60_000, 14_062, tpr, fpr),
                Reference(exact),
            )
            for tpr, fpr, exact in ((1e-2, 1e-3, "0.926346"), (1e-3, 1e-5, "0.748165"))
        ),
    ),
)
