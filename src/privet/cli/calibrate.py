"""``privet calibrate``: how much noise, or how small a rate, or how many steps, for a target."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import final

from privet.accounting import (
    AdvantageTarget,
    Calibration,
    EpsilonTarget,
    PosteriorTarget,
    Target,
    TprTarget,
    calibrate,
)
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.cli.account import claim_document, epsilon_of, neighbours, warnings_of
from privet.cli.output import CliAnswer, caveat_text, facts, percent, rounded_down, rounded_up
from privet.cli.query import GuaranteeQuery, adjacency_of, apply_training_sizes, delta_of, mechanism
from privet.errors import InvalidArgument
from privet.events import BestOfNegativeBinomial, Compose, DiscreteGaussian, Event
from privet.guarantees import Guarantee, delta_warning

__all__ = ["run"]

_MOST_STEPS = 10**9


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Solve for the parameter that was left out, rounded to the private side of the target."""
    apply_training_sizes(arguments)
    goal = _goal(arguments)
    free = _free(arguments)
    found = calibrate(
        _event_of(arguments, free),
        goal.target,
        adjacency=adjacency_of(arguments),
        between=free.between,
        whole=free.whole,
    )
    settings = {
        "noise_multiplier": arguments.noise_multiplier,
        "sampling_rate": arguments.sampling_rate,
        "steps": arguments.steps,
        free.name: int(found.value) if free.whole else found.value,
    }
    question, bounds = _account_for(arguments, found)
    reached = goal.measure(found.guarantee)
    document = {
        **claim_document(question, bounds),
        **settings,
        "solved": free.name,
        "target": {"kind": goal.kind, **asdict(goal.target)},  # type: ignore[call-overload]
        "reached": reached,
    }
    if arguments.delta is None:
        document |= {"epsilon": None, "epsilon_lower": None, "delta": None}
    at_limit = found.value in free.between and not (free.whole and found.value == 1)
    shown = free.format_value(found.value)
    rows = [
        *((p.title, shown if p is free else f"{settings[p.name]:g}") for p in _PARAMETERS),
        ("reached", rounded_up(reached)),
        *_epsilon_row(arguments, goal, bounds),
        ("accountant", found.guarantee.accountant),
        ("adjacency", neighbours(found.guarantee.adjacency, chosen=question.chosen)),
    ]
    blocks = [
        f"{free.verdict} {shown} {'already' if at_limit else 'just'} reaches {goal.sentence}.",
        *warnings_of(question.guarantee.caveats),
        facts(rows),
        *caveat_text(question.guarantee.caveats - {Caveat.DELTA_TOO_LARGE}),
    ]
    return CliAnswer(blocks, document)


@final
@dataclass(frozen=True)
class _Goal:
    """A target: its name, its sentence, and the figure of a guarantee that it limits."""

    kind: str
    target: Target
    sentence: str
    measure: Callable[[Guarantee], float]


@final
@dataclass(frozen=True)
class _Free:
    """The parameter to solve for: the range of the search, and which direction is private."""

    name: str
    title: str
    verdict: str
    between: tuple[float, float]
    whole: bool = False
    private_above: bool = False

    def format_value(self, value: float) -> str:
        """The value, rounded to the private side."""
        if self.whole:
            return f"{int(value)}"
        return rounded_up(value) if self.private_above else rounded_down(value)


_PARAMETERS = (
    _Free("noise_multiplier", "noise multiplier", "A noise multiplier of", (1e-3, 1e8), private_above=True),
    _Free("sampling_rate", "sampling rate", "A sampling rate of", (1e-6, 1.0)),
    _Free("steps", "steps", "A number of steps of", (1.0, float(_MOST_STEPS)), whole=True),
)


def _free(arguments: argparse.Namespace) -> _Free:
    settings = vars(arguments)
    missing = [parameter for parameter in _PARAMETERS if settings[parameter.name] is None]
    if len(missing) != 1:
        options = [f"--{parameter.name.replace('_', '-')}" for parameter in missing]
        raise InvalidArgument(
            f"Exactly one of --noise-multiplier, --sampling-rate and --steps must be left out, to be "
            f"solved for, got {' and '.join(options) or 'none'} left out. For a mechanism that sees "
            f"everybody give --sampling-rate 1; for one that runs once, --steps 1."
        )
    return missing[0]


def _event_of(arguments: argparse.Namespace, free: _Free) -> Callable[[float], Event]:
    def event(value: float) -> Event:
        one = mechanism(
            value if free.name == "noise_multiplier" else arguments.noise_multiplier,
            value if free.name == "sampling_rate" else arguments.sampling_rate,
            int(value) if free.name == "steps" else arguments.steps,
        )
        return one if arguments.runs is None else _best_of(one, arguments.runs, arguments.score_noise)

    _check_score(arguments)
    return event


def _best_of(run: Event, mean: float, score_noise: float | None) -> Event:
    """The best of a geometric number of such runs, each with its noisy score, as in ``privet.tune``."""
    if not 1 < mean <= 10**6:
        raise InvalidArgument(
            f"--runs must be a mean number of runs above 1, got {mean:g}. 10 to 30 are common."
        )
    parts = (run,) if score_noise is None else (run, DiscreteGaussian(score_noise, 1))
    return BestOfNegativeBinomial((Compose(parts),), 1.0, 1 / mean)


def _check_score(arguments: argparse.Namespace) -> None:
    if arguments.score_noise is not None and arguments.runs is None:
        raise InvalidArgument(
            "--score-noise must be given with --runs, got --score-noise alone. Say how many runs, on average."
        )


def _goal(arguments: argparse.Namespace) -> _Goal:
    given = [
        name for name in ("epsilon", "tpr", "advantage", "posterior") if vars(arguments)[name] is not None
    ]
    if len(given) != 1:
        raise InvalidArgument(
            f"One target must be given, got {' and '.join(f'--{name}' for name in given) or 'none'}. "
            f"Give --epsilon with --delta, --tpr with --fpr, --advantage, or --posterior with --prior and "
            f"--delta."
        )
    _check_companions(arguments, given[0])
    match given[0]:
        case "epsilon":
            epsilon, delta = arguments.epsilon, delta_of(arguments)
            return _Goal(
                "epsilon",
                EpsilonTarget(epsilon=epsilon, delta=delta),
                f"ε ≤ {epsilon:g} at δ = {delta:g}",
                lambda guarantee: guarantee.epsilon(delta=delta),
            )
        case "tpr":
            tpr, fpr = arguments.tpr, arguments.fpr
            return _Goal(
                "tpr",
                TprTarget(tpr=tpr, fpr=fpr),
                f"a true-positive rate of at most {tpr:g} at a false-positive rate of {fpr:g}",
                lambda guarantee: guarantee.tpr(fpr=fpr),
            )
        case "advantage":
            advantage = arguments.advantage
            return _Goal(
                "advantage",
                AdvantageTarget(advantage=advantage),
                f"a membership advantage of at most {advantage:g}",
                lambda guarantee: guarantee.advantage(),
            )
    posterior, prior, delta = arguments.posterior, arguments.prior, delta_of(arguments)
    return _Goal(
        "posterior",
        PosteriorTarget(posterior=posterior, prior=prior, delta=delta),
        f"a belief of at most {percent(posterior)} from a prior of {percent(prior)}, "
        f"except with a probability of at most {delta:g}",
        lambda guarantee: guarantee.posterior(prior=prior, delta=delta).upper,
    )


def _check_companions(arguments: argparse.Namespace, target: str) -> None:
    """A false-positive rate belongs to ``--tpr`` and a prior to ``--posterior``, both or neither."""
    for owner, companion in (("tpr", "fpr"), ("posterior", "prior")):
        present = vars(arguments)[companion] is not None
        if (target == owner) != present:
            got, fix = (companion, "Leave it out") if present else (owner, f"Give --{companion}")
            raise InvalidArgument(
                f"--{owner} and --{companion} must be given together, got --{got} alone. {fix}."
            )


def _account_for(arguments: argparse.Namespace, found: Calibration) -> tuple[GuaranteeQuery, Interval]:
    guarantee = found.guarantee
    chosen = arguments.adjacency is None
    if arguments.delta is None:
        return GuaranteeQuery(guarantee, 0.0, chosen), Interval(0.0, 0.0)
    delta = delta_of(arguments)
    if arguments.population is not None:
        guarantee = replace(guarantee, caveats=guarantee.caveats | delta_warning(delta, arguments.population))
    question = GuaranteeQuery(guarantee, delta, chosen)
    return question, epsilon_of(question)


def _epsilon_row(arguments: argparse.Namespace, goal: _Goal, bounds: Interval) -> list[tuple[str, str]]:
    """A row for ε if the target is another figure and --delta was given."""
    if arguments.delta is None or goal.kind == "epsilon":
        return []
    return [("epsilon", f"{rounded_up(bounds.upper)} at δ = {arguments.delta:g}")]
