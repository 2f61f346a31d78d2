"""Settings that the references choose: the target has no part in it, and a complement never tells the coin."""

import inspect
import math

import numpy as np
import pytest
from scipy.stats import chi2, invgamma, multivariate_normal, norm
from scipy.stats import t as student

from privet.attacks import Ensemble, LiRA
from privet.attacks.membership import crossfit
from privet.attacks.membership.bavaria import StudentPredictive, _SidePrior, joint_predictive
from privet.attacks.membership.crossfit import choose_setting
from privet.attacks.membership.ensemble import _fixed_weight
from privet.attacks.membership.reference_attack import summarize_in, summarize_out
from privet.attacks.membership.variances import Moderated, Overall, estimate_prior_weight
from privet.scores import References


def pairs(rng, count, records, gain=0.0):
    half = np.stack([rng.permutation(records) < records // 2 for _ in range(count)])
    members = np.stack([half, ~half], axis=1).reshape(2 * count, records)
    hard = 2 * rng.normal(size=records)
    return References((hard + gain * members + rng.normal(size=members.shape))[:, None], members)


def constant(target, rest):
    return [np.zeros(target.phi.shape[1])]


class TestTheChoice:
    def test_takes_no_target(self):
        assert list(inspect.signature(choose_setting).parameters) == [
            "references", "settings", "published", "least",
        ]  # fmt: skip

    def test_the_better_setting_is_taken_and_a_published_one_where_none_leads(self):
        references = pairs(np.random.default_rng(0), 3, 600, gain=2.0)

        def settings(target, rest):
            good, noise = LiRA(rest, Overall()).judge(target), np.random.default_rng(1).normal(size=len(rest))
            return [noise, good, good]

        assert choose_setting(references, settings, published=1) == 1
        assert choose_setting(references, settings, published=2) == 1

    def test_both_figures_count(self):
        """The second setting has a better AUC and nothing at a low rate; the published one stays."""
        references = pairs(np.random.default_rng(2), 3, 2000, gain=1.0)

        def settings(target, rest):
            scores = LiRA(rest, Overall()).judge(target)
            order = np.argsort(np.argsort(scores)) / len(scores)
            return [scores + 0.0, np.where(order > 0.9, -order, order)]

        assert choose_setting(references, settings, published=1) == 0

    def test_one_pair_and_one_sided_references_choose_nothing(self):
        rng = np.random.default_rng(3)
        assert choose_setting(pairs(rng, 1, 100), constant, published=1) is None
        out = References(rng.normal(size=(4, 1, 100)), np.zeros((4, 100), dtype=bool))
        assert choose_setting(out, constant, published=1) is None
        assert choose_setting(pairs(rng, 2, 100), constant, published=1, least=2) is None

    def test_a_complement_is_left_out(self, monkeypatch):
        """Where nothing leaks, LiRA's AUC against a reference is ½ within 5 standard errors (false alarm 6e-7 for each);
        with its complement among the references it would be 0.46, 7 of them away."""
        seen = []
        figures = crossfit._figures

        def watch(scores, coin):
            seen.append(figures(scores, coin)[0])
            return figures(scores, coin)

        monkeypatch.setattr(crossfit, "_figures", watch)
        references = pairs(np.random.default_rng(4), 2, 16000)
        choose_setting(references, lambda target, rest: [LiRA(rest, Overall()).judge(target)], published=1)
        assert len(seen) == 4
        error = math.sqrt(16001 / (12 * 8000 * 8000))
        assert max(abs(area - 0.5) for area in seen) < 5 * error


class TestTheEnsemble:
    def test_trusts_bavaria_more_where_training_moves_more(self):
        rng = np.random.default_rng(5)
        weights = [_fixed_weight(pairs(rng, 1, 4000, gain=gain)) for gain in (0.0, 1.1, 4.0)]
        assert weights[0] == 0.0
        assert 0.0 < weights[1] < 0.5
        assert weights[2] == 0.5

    def test_swapped_sides_are_below_chance(self):
        """IN taken for OUT: the AUC falls below ½ by as much as it was above."""
        rng = np.random.default_rng(6)
        references = pairs(rng, 2, 2000, gain=2.0)
        coin = rng.random(2000) < 0.5
        centre = references.signals[:, 0].mean(axis=0) - 1.0
        target = (centre + 2.0 * coin + rng.normal(size=2000))[None]

        def area(known):
            return crossfit._figures(Ensemble(known).judge(target), coin)[0]

        assert area(references) > 0.75
        assert area(References(references.signals, ~references.members)) < 0.5


class TestTheJointPrior:
    def test_is_the_integral_over_the_scale(self):
        """Student's form against an integral over λ of Gaussians whose conditioning is done with matrices."""
        references = pairs(np.random.default_rng(7), 3, 50, gain=1.0)
        trained, left_out = summarize_in(references), summarize_out(references)
        weight, record, value = 5.0, 11, 2.5
        one, other = _SidePrior.of(trained, left_out, weight), _SidePrior.of(left_out, trained, weight)
        covariance = (one.offsets * other.offsets).mean() - one.offsets.mean() * other.offsets.mean()
        most = 0.98 * math.sqrt(one.between[0, 0] * other.between[0, 0])
        covariance = float(np.clip(covariance, -most, most))
        between = np.array([[one.between[0, 0], covariance], [covariance, other.between[0, 0]]])
        noise = np.diag([one.within[0, 0] / 3, other.within[0, 0] / 3])
        offsets = np.array([one.offsets[0, record], other.offsets[0, record]])
        gain = between @ np.linalg.inv(between + noise)
        centre = one.centre[0, 0] + (gain @ offsets)[0]
        variance = one.within[0, 0] + (between - gain @ between)[0, 0]
        grid = np.exp(np.linspace(-6, 6, 601))
        squares = trained.squares[0, record] / one.within[0, 0]
        weights = [
            invgamma.pdf(scale, weight / 2, scale=weight / 2)
            * multivariate_normal.pdf(offsets, cov=scale * (between + noise))
            * chi2.pdf(squares / scale, 2) / scale
            * scale  # the grid is even in ln λ
            for scale in grid
        ]  # fmt: skip
        density = np.dot(weights, norm.pdf(value, centre, np.sqrt(grid * variance))) / np.sum(weights)
        law, _ = joint_predictive(trained, left_out, weight)
        found = StudentPredictive().log_density(np.full((1, 50), value), law)[0, record]
        assert found == pytest.approx(math.log(density), abs=1e-6)
        assert found == pytest.approx(
            student.logpdf(
                value, weight + 2 + 2, law.centre[0, record], math.sqrt(law.squared_scale[0, record])
            )
        )

    def test_models_of_one_side_tell_of_the_other(self):
        """Records without a model with them: their μ_in follows from the models without them."""
        rng = np.random.default_rng(8)
        references = pairs(rng, 4, 2000, gain=1.0)
        members = references.members.copy()
        members[:, :200] = False
        hidden = References(references.signals, members)
        law, _ = joint_predictive(summarize_in(hidden), summarize_out(hidden), None)
        known = summarize_out(hidden).means[0, :200]
        assert np.corrcoef(law.centre[0, :200], known)[0, 1] > 0.99
        assert np.isfinite(law.squared_scale).all()


class TestModerated:
    @pytest.mark.parametrize("weight", [5.0, 20.0])
    def test_the_weight_is_found(self, weight):
        """40,000 records with inverse-gamma variances and four models each: within 15 %, some five standard errors."""
        rng = np.random.default_rng(9)
        variances = weight / rng.chisquare(weight, 40000)
        signals = np.sqrt(variances) * rng.normal(size=(4, 1, 40000))
        side = summarize_out(References(signals, np.zeros((4, 40000), dtype=bool)))
        assert estimate_prior_weight(side)[0, 0] == pytest.approx(weight, rel=0.15)

    def test_is_between_pooled_and_own(self):
        references = pairs(np.random.default_rng(10), 4, 300)
        side = summarize_out(references)
        pooled = np.array([[side.squares.sum() / side.freedom]])
        own = side.squares[0] / 3
        found = Moderated().of(side, pooled)[0]
        assert ((found - pooled[0, 0]) * (found - own) <= 1e-12).all()
        np.testing.assert_allclose(Moderated(weight=1e9).of(side, pooled)[0], pooled[0, 0], rtol=1e-6)

    def test_records_on_which_all_agree_do_not_decide_the_weight(self):
        rng = np.random.default_rng(11)
        signals = rng.normal(size=(4, 1, 2000))
        signals[:, :, :50] = 1.0
        side = summarize_out(References(signals, np.zeros((4, 2000), dtype=bool)))
        assert estimate_prior_weight(side)[0, 0] > 30
