"""The engine for Ray on a real cluster of one node, where Ray is installed (it is no dependency of Privet)."""

import numpy as np
import pytest
from torch import nn

from privet.attacks.shadows import Ray, ScikitRecipe, Sequential, TorchRecipe, conduct
from privet.private_folders import private_folder
from privet.scores import Records

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """One node with two cores; everything that it writes is in a private folder that is removed."""
    with private_folder() as home:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            _temp_dir=str(home),
            object_store_memory=80 * 2**20,
            logging_level="error",
            log_to_driver=False,
        )
        try:
            yield home
        finally:
            ray.shutdown()
    assert not home.exists()


def records() -> Records:
    random = np.random.default_rng(0)
    return Records(random.normal(size=(80, 12)).astype(np.float32), random.integers(0, 3, 80))


def test_a_torch_recipe_gives_the_same_models(cluster):
    width = 9  # a closure: the recipe goes to the cluster whole
    recipe = TorchRecipe(
        model=lambda: nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 3)), epochs=3
    )
    alone = conduct(recipe, records(), 4, seed=1, engine=Sequential())
    there = conduct(recipe, records(), 4, seed=1, engine=Ray())
    assert there.choice.engine == Ray()
    assert "2 cores" in there.choice.engine.name
    np.testing.assert_allclose(alone.references.signals, there.references.signals, atol=1e-4)
    assert list(cluster.iterdir())  # the home of the cluster


def test_a_scikit_recipe_gives_the_same_models_and_confidences(cluster):
    from sklearn.ensemble import RandomForestClassifier

    recipe = ScikitRecipe(RandomForestClassifier(5))
    found = [
        conduct(recipe, records(), 4, seed=1, engine=engine, keep_confidences=True)
        for engine in (Sequential(), Ray())
    ]
    one, other = (study.references for study in found)
    assert np.array_equal(one.signals, other.signals)
    assert np.array_equal(one.log_confidences, other.log_confidences)


def test_a_failure_in_the_cluster_reaches_the_caller(cluster):
    def train(inputs, labels, seed):
        raise ValueError("no model today")

    with pytest.raises(Exception, match="no model today"):
        conduct(train, records(), 2, seed=0, engine=Ray())
