"""What a number does not say by itself. Caveats are data: they travel from where they arise to the report."""

from enum import Enum
from typing import final

__all__ = ["Caveat"]


@final
class Caveat(Enum):
    """A condition under which a claim holds, with the sentence that a reader needs."""

    IDEALISED_REALS = (
        "The noise is accounted as a real number; a float sampler leaks more unless it is discrete."
    )
    CHECKED_ROUND_OFF = (
        "Truncation and discretisation are bounded by theorem; float64 round-off is bounded by an "
        "estimate that is checked against 30-digit arithmetic, not proved."
    )
    WORST_OF_CLASS = (
        "The lower bound is that of the worst mechanism with the stated parameters, "
        "which need not be the one that ran."
    )
    LOOSE_LOWER_BOUND = (
        "The gap between lower and upper bound comes from the theorem that was available, "
        "not from the numerics."
    )
    POISSON_SAMPLING = (
        "Batches are accounted as Poisson samples; shuffled or fixed-size batches are not covered by this ε."
    )
    FIXED_SIZE_SAMPLING = (
        "Batches are accounted as uniform subsets of a fixed size, drawn afresh for every step."
    )
    DELTA_TOO_LARGE = (
        "δ is at least 1/(10 n): a mechanism that publishes a whole record now and then would pass."
    )
    SEEDED_NOISE = "The noise came from a seed: whoever knows the seed can remove it."
    FIXED_PARAMETERS = (
        "Mechanisms may be chosen adaptively, but their parameters were fixed before the data was seen."
    )
    ADAPTIVE_PARAMETERS = (
        "Noise was chosen in view of earlier answers: the proof is that their total stays within a budget "
        "that was fixed beforehand, and it holds for that budget."
    )
    LATE_BUDGET = (
        "The budget was given or changed after answers had been seen, so it is proved for questions that "
        "were fixed beforehand only."
    )
    RUNNING_TOTAL = (
        "The ledger has no budget that was fixed before its first answer: its ε holds for questions and "
        "noise that were fixed beforehand, not for those chosen in view of earlier answers."
    )
    STOPPED_EARLY = (
        "The run was ended, or looked at, before its planned steps: this ε holds if that did not depend on "
        "what the run gave; the ε of all planned steps holds in any case."
    )
    KEYS_FROM_DATA = (
        "Names of classes or keys were read off the data; that one occurs at all is not protected."
    )
    SIZE_TAKEN_AS_PUBLIC = (
        "The number of records set the sampling rate, the noise and the divisor, so it is taken as public: "
        "this ε is for neighbours that share these numbers, as under zero-out adjacency, and does not hide "
        "the number itself."
    )
    PLACES_TAKEN_AS_PUBLIC = (
        "Which lot a record is in follows from its place in the data, which is taken as public: this ε is "
        "for neighbours in which all other records keep their places, as under zero-out adjacency."
    )
    BEST_OF_SECRET_RUNS = (
        "Of a random number of runs only the best is shown: this ε holds if the number of runs, the other "
        "runs and all other scores stay secret."
    )
    ONE_KEY_HOLDER = (
        "One party holds the secret key: whatever is encrypted under its public key, single vectors too, "
        "it can open if it gets hold of it."
    )
    APPROXIMATE_DECRYPTION = (
        "A decrypted CKKS answer has an error that depends on the secret key: handed to others without added "
        "noise that drowns the error, it can give the key away (IND-CPA-D)."
    )
    UNVETTED = "The privacy proof of a part has not been vetted."

    @property
    def code(self) -> str:
        """The stable name that documents carry."""
        return self.name

    @property
    def sentence(self) -> str:
        """What a reader needs to know."""
        return str(self.value)
