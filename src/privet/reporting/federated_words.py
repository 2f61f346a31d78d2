"""What attacks on federated runs mean, in sentences."""

from privet.reporting.federated_facts import AttackedDefence, FederatedContent
from privet.reporting.numbers import percent

__all__ = ["federated_sentence", "observer_words"]

_OBSERVERS = {
    "server": "The server sees the sum, and every message as far as the defence leaves it open.",
    "participant": "A participant sees the model of each round, and no message of another client.",
}


def observer_words(observer: str) -> str:
    """What an observer sees, in one sentence."""
    return _OBSERVERS.get(observer, f"The {observer} is described in the documentation.")


def federated_sentence(content: FederatedContent) -> str:
    """What was found, in one or two sentences."""
    if content.exceeded:
        name, key = content.exceeded[0]
        return (
            f"{_capital(key)} succeeds more often under {name!r} than its proof allows: the guarantee does "
            f"not hold there. Look for noise that is missing, or for a unit that is in more than one client."
        )
    worst = max(content.defences, key=_largest_leak)
    best = min(content.defences, key=_largest_leak)
    strongest = max(worst.attacks, key=lambda attack: attack.leak.value, default=None)
    if strongest is None:
        return "No attack was run. Name at least one."
    sentence = (
        f"The strongest attack is {strongest.key}, under {worst.name!r}: it names "
        f"{percent(strongest.success.value)} of the targets that are in, and "
        f"{percent(strongest.baseline.value)} of those left out."
    )
    if best is not worst:
        sentence += f" Attacks find least under {best.name!r}."
    proved = [defence.name for defence in content.defences if defence.epsilon_proved is not None]
    if proved:
        sentence += f" Only {_list_words(proved)} {'has' if len(proved) == 1 else 'have'} a proof."
    return sentence


def _largest_leak(defence: AttackedDefence) -> float:
    return max((attack.leak.value for attack in defence.attacks), default=0.0)


def _list_words(names: list[str]) -> str:
    quoted = [f"{name!r}" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
