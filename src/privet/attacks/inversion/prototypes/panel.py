"""A panel of judges: classifiers of several kinds that say whom a picture shows, and that the attack never
touched.

Judges that are alike are fooled alike. A picture that a linear model finds convincing may be noise to a
person. So a panel has judges of different kinds, and a picture counts as recognised where *every* judge names
the right person.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.estimators import discriminant_judge, kernel_judge
from privet.attacks.inversion.prototypes.pictures import correlate_pictures, read_pictures
from privet.errors import InvalidArgument
from privet.views import Labels, Numbers, Rows

__all__ = ["JudgePanel"]

_Judge = Callable[[Numbers], Labels]  # from pictures to the person on each


@final
@dataclass(frozen=True, eq=False)
class JudgePanel:
    """Three judges: a linear discriminant, the correlation with each person's mean picture, and a kernel
    machine.

    ``people`` is how many persons they choose from.
    """

    judges: Mapping[str, _Judge]
    people: int

    @classmethod
    def learn(cls, pictures: Rows, people: Labels) -> "JudgePanel":
        """From pictures of everybody who may be recognised, the persons of the model and others.

        Give pictures that the model was *not* trained on: then a judge recognises the person, and not the
        very picture.
        """
        shown, names = read_pictures("pictures", pictures), np.asarray(people)
        if names.shape != (len(shown),) or names.dtype.kind not in "iu" or len(np.unique(names)) < 3:
            raise InvalidArgument(
                f"'people' must be the number of the person on each of {len(shown)} pictures, at least "
                f"three persons in all, got an array of shape {names.shape}. Add pictures of other people."
            )
        flat = shown.reshape(len(shown), -1)
        persons = np.unique(names)
        means = np.stack([shown[names == person].mean(axis=0) for person in persons])
        linear, kernel = discriminant_judge(flat, names), kernel_judge(flat, names)
        judges: dict[str, _Judge] = {
            "linear discriminant": lambda drawn: linear(drawn.reshape(len(drawn), -1)),
            "correlation": lambda drawn: persons[correlate_pictures(drawn, means).argmax(axis=1)],
            "kernel machine": lambda drawn: kernel(drawn.reshape(len(drawn), -1)),
        }
        return cls(judges, len(persons))

    def recognize(self, pictures: Numbers, people: Labels) -> Mapping[str, Numbers]:
        """For each judge, whether it names the right person on each picture: 1 or 0."""
        return {name: (judge(pictures) == people).astype(np.float64) for name, judge in self.judges.items()}
