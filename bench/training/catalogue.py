"""Every model by its name, and the two tables of the bench."""

from foreign_models import FOREIGN
from models import CLAIMED, OWN

TASKS = {**OWN, **FOREIGN}
TABLES = {"own": CLAIMED, "foreign": tuple(FOREIGN)}
