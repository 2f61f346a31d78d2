"""Privet's linear models and naive Bayes as they come, and the models of scikit-learn that are not private."""

import math

import numpy as np
from scoring import Quality
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.linear_model import Ridge as PlainRidge
from sklearn.naive_bayes import GaussianNB as PlainBayes
from sklearn.svm import LinearSVC as PlainSVC
from tables import Table

from privet.accounting import account
from privet.adjacency import ReplaceOne
from privet.learning import (
    GaussianNB,
    LinearSVC,
    LogisticRegression,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Ridge,
)
from privet.learning.solver import gaussian_multiplier

DELTA = 1e-6
PRIVATE = {
    "logistic": ("default", "fixed steps", "objective", "output"),
    "svm": ("default", "objective", "output"),
    "ridge": ("default", "objective", "output"),
    "bayes": ("default",),
}


def fixed_steps(table: Table, epsilon: float) -> NoisySGD:
    """The default until this benchmark: 200 steps of R/(G√T), R = 10, no momentum, the mean of all; with alpha = 1e-3."""
    steps, radius, alpha = 200, 10.0, 1e-3
    rows, width = table.train.shape
    noise = gaussian_multiplier(epsilon, DELTA, steps, ReplaceOne()) / rows
    longest = math.sqrt((1 + alpha * radius) ** 2 + (width + 1) * noise**2)
    return NoisySGD(
        steps,
        radius=radius,
        step_size=radius / (longest * math.sqrt(steps)),
        averaged_share=1.0,
        momentum=0.0,
    )


def private_model(kind: str, how: str, table: Table, epsilon: float):
    """An estimator of that kind, all of it by default but for the solver."""
    if kind == "bayes":
        return GaussianNB(epsilon, classes=(0, 1), bounds=(-1.0, 1.0), adjacency=ReplaceOne())
    solvers = {"default": None, "objective": ObjectivePerturbation(), "output": OutputPerturbation()}
    solver = fixed_steps(table, epsilon) if how == "fixed steps" else solvers[how]
    alpha = 1e-3 if how == "fixed steps" else None
    public = {"delta": DELTA, "solver": solver, "alpha": alpha, "norm_bound": table.norm}
    if kind == "ridge":
        return Ridge(epsilon, **public)
    return {"logistic": LogisticRegression, "svm": LinearSVC}[kind](epsilon, classes=(0, 1), **public)


def plain_model(kind: str):
    """scikit-learn's own, with its default regularisation."""
    if kind == "svm":
        return PlainSVC(dual=False)
    return {"logistic": PlainLogistic(max_iter=5000), "ridge": PlainRidge(), "bayes": PlainBayes()}[kind]


def measure_model(kind: str, model, table: Table) -> Quality:
    """Fit once and ask the rows that were left out; a private model must have kept its budget."""
    model.fit(table.train, table.train_answers)
    if hasattr(model, "ledger_"):
        assert account(model.ledger_).epsilon(delta=DELTA) <= model.epsilon * (1 + 1e-9)
    if kind == "ridge":
        return Quality.of_predictions(model.predict(table.test), table.test_answers)
    if hasattr(model, "decision_function"):
        return Quality.of_scores(np.asarray(model.decision_function(table.test)), table.test_answers)
    likely = model.predict_log_proba(table.test)
    return Quality.of_scores(likely[:, 1] - likely[:, 0], table.test_answers)
