"""Budgets of ledgers that are extended in view of their answers: kept by a filter that is fixed at the first request."""

import pytest

from privet.accounting import account, fixed_price
from privet.adjacency import AddRemove
from privet.caveats import Caveat
from privet.cli import main
from privet.errors import BudgetExceeded, InvalidArgument, Unreadable
from privet.events import DiscreteGaussian, Opaque
from privet.filters import BasicFilter, GaussianFilter, OneRequestFilter, RenyiFilter
from privet.ledger import Entry, Ledger
from privet.releasing import Budget, MemoryStore, filter_state
from privet.releasing.budget import extend_ledger
from privet.releasing.durable import DurableLedger

_BUDGET = Budget(epsilon=1.0, delta=1e-5)
_COUNT = Entry("count", Opaque(epsilon=0.02))


@pytest.fixture(params=["memory", "durable"])
def spend(request, tmp_path):
    """Spends on one ledger, in memory or in a file that is opened anew each time."""
    stores = {}

    def run(*entries, budget=_BUDGET):
        if request.param == "memory":
            store = stores.setdefault(str(budget), MemoryStore(AddRemove(), budget=budget))
            return store.spend(entries)
        path = tmp_path / "ledger.json"
        with DurableLedger(path=path, adjacency=AddRemove(), budget=budget).open() as held:
            return held.spend(entries)

    return run


def test_a_ledger_ends_where_its_filter_does(spend):
    """182 counts would be within the budget if they were fixed beforehand; an analyst who looks gets fewer."""
    ledger = spend(*[_COUNT] * 150)
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        for _ in range(30):
            ledger = spend(_COUNT)
    assert len(ledger) == 154  # a tenth of δ is set aside for claims
    state = filter_state(ledger)
    assert isinstance(state.filter, RenyiFilter)
    assert 0.99 < state.reached <= 1.0
    assert 0 < state.remaining < 0.02
    assert spend(Entry("rest", Opaque(epsilon=state.remaining * 0.999))).filter == ledger.filter
    assert fixed_price(ledger).epsilon(delta=1e-5) < state.reached  # the price beside it


def test_a_refusal_leaves_all_as_it_was(spend):
    before = spend(_COUNT)
    with pytest.raises(BudgetExceeded, match=r"One answer of up to ε = 0\.9\d* is left"):
        spend(Entry("much", Opaque(epsilon=1.5)))
    assert spend() == before


def test_pure_answers_add_up_as_before_within_a_budget_with_delta(spend):
    ledger = spend(*[Entry("half", Opaque(epsilon=0.5))] * 2)
    assert filter_state(ledger).reached == 1.0
    with pytest.raises(BudgetExceeded):
        spend(Entry("more", Opaque(epsilon=1e-3)))


def test_at_delta_zero_the_filter_is_the_sum(spend):
    pure = Budget(epsilon=1.0)
    ledger = spend(*[Entry("tenth", Opaque(epsilon=0.125))] * 8, budget=pure)
    assert ledger.filter == BasicFilter(epsilon=1.0, delta=0.0)
    with pytest.raises(BudgetExceeded, match="would reach ε = 1.125"):
        spend(Entry("tenth", Opaque(epsilon=0.125)), budget=pure)


def test_one_request_may_have_all_of_the_budget(spend):
    """180 counts at once are fixed beforehand, so the accountant prices them; then the ledger is closed."""
    ledger = spend(*[_COUNT] * 180)
    assert ledger.filter == OneRequestFilter(epsilon=1.0, delta=1e-5)
    assert filter_state(ledger).remaining == 0
    with pytest.raises(BudgetExceeded, match="used up the whole budget"):
        spend(Entry("tiny", Opaque(epsilon=1e-6)))
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        MemoryStore(AddRemove(), budget=_BUDGET).spend((_COUNT,) * 190)


def test_claims_have_their_share(spend):
    claim = Entry("keys", Opaque(epsilon=0.05, delta=2e-6))
    ledger = spend(claim)
    assert ledger.filter.claimable == pytest.approx(5e-6)
    spend(claim)
    with pytest.raises(BudgetExceeded, match="thresholds for keys would use δ = 6e-06"):
        spend(claim)
    spend(_COUNT)


def test_a_first_request_with_most_of_delta_is_under_basic_composition(spend):
    ledger = spend(Entry("keys", Opaque(epsilon=0.5, delta=9e-6)))
    assert ledger.filter == BasicFilter(epsilon=1.0, delta=1e-5)
    spend(Entry("more", Opaque(epsilon=0.5, delta=1e-6)))
    with pytest.raises(BudgetExceeded):
        spend(_COUNT)


def test_what_no_filter_covers_is_refused_before_it_is_spent():
    store = MemoryStore(AddRemove(), budget=GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0))
    with pytest.raises(BudgetExceeded, match="not proved"):
        store.spend((Entry("lattice", DiscreteGaussian(50.0)),))
    assert len(store.ledger) == 0
    assert len(store.spend((_COUNT,))) == 1


class TestAFileKeepsItsFilter:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "ledger.json"

    def spend(self, path, budget, *entries):
        with DurableLedger(path=path, adjacency=AddRemove(), budget=budget).open() as held:
            return held.spend(entries)

    def test_also_where_no_budget_is_given_again(self, path):
        first = self.spend(path, _BUDGET, _COUNT)
        assert (
            self.spend(path, None, _COUNT).filter == first.filter == Ledger.from_json(path.read_text()).filter
        )
        with pytest.raises(BudgetExceeded):
            self.spend(path, None, Entry("much", Opaque(epsilon=2.0)))

    def test_a_budget_that_comes_later_is_marked(self, path):
        assert Caveat.LATE_BUDGET not in self.spend(path, None, _COUNT).caveats
        assert Caveat.LATE_BUDGET in self.spend(path, _BUDGET, _COUNT).caveats
        assert Caveat.LATE_BUDGET in self.spend(path, None, _COUNT).caveats

    def test_a_late_budget_is_recorded(self, path):
        self.spend(path, None, _COUNT, _COUNT)
        (change,) = self.spend(path, _BUDGET, _COUNT).changes
        assert (change.place, change.before, change.reason) == (2, None, "given after the first answer")

    def test_another_budget_is_refused_and_nothing_is_spent(self, path):
        self.spend(path, _BUDGET, _COUNT)
        before = path.read_bytes()
        for other in (Budget(epsilon=2.0, delta=1e-5), Budget(epsilon=0.5, delta=1e-5), Budget(epsilon=1.0)):
            with pytest.raises(InvalidArgument, match="already, and .* was given now.*--change-budget"):
                self.spend(path, other, _COUNT)
        assert path.read_bytes() == before
        assert len(self.spend(path, _BUDGET, _COUNT)) == 2  # the same one may be repeated

    def test_a_budget_is_changed_by_a_command_that_is_recorded(self, path):
        self.spend(path, _BUDGET, _COUNT)
        with DurableLedger(path=path, adjacency=AddRemove(), budget=_BUDGET).open() as held:
            held.change_budget(Budget(epsilon=2.0, delta=1e-5), reason="a second wave")
            held.spend((Entry("much", Opaque(epsilon=1.5)),))
        ledger = Ledger.from_json(path.read_text())
        assert Caveat.LATE_BUDGET in ledger.caveats
        assert ledger.filter.epsilon == 2.0
        (change,) = ledger.changes
        assert (change.place, change.before.epsilon, change.after, change.reason) == (
            1,
            1.0,
            ledger.filter,
            "a second wave",
        )
        with pytest.raises(InvalidArgument, match="was given now"):
            self.spend(path, _BUDGET, _COUNT)
        with pytest.raises(BudgetExceeded):
            self.spend(path, None, Entry("much", Opaque(epsilon=1.0)))

    def test_a_budget_cannot_go_below_what_was_spent(self, path):
        self.spend(path, _BUDGET, Entry("much", Opaque(epsilon=0.9)))
        before = path.read_bytes()
        with DurableLedger(path=path, adjacency=AddRemove(), budget=None).open() as held:
            with pytest.raises(BudgetExceeded, match=r"reaches ε = 0\.9.*nothing was changed"):
                held.change_budget(Budget(epsilon=0.5, delta=1e-5), reason="less")
            for wrong, match in ((_BUDGET, "already"), (None, "must be a Budget")):
                with pytest.raises(InvalidArgument, match=match):
                    held.change_budget(wrong, reason="none")
            with pytest.raises(InvalidArgument, match="Say why"):
                held.change_budget(Budget(epsilon=3.0), reason=" ")
        assert path.read_bytes() == before

    def test_an_empty_ledger_has_no_budget_to_change(self, path):
        durable = DurableLedger(path=path, adjacency=AddRemove(), budget=None)
        with durable.open() as held, pytest.raises(InvalidArgument, match="with the first release"):
            held.change_budget(_BUDGET, reason="early")
        assert not path.exists()

    def test_a_ledger_that_one_request_closed_is_opened_by_a_larger_budget(self, path):
        self.spend(path, _BUDGET, *[_COUNT] * 180)
        with DurableLedger(path=path, adjacency=AddRemove(), budget=None).open() as held:
            held.change_budget(Budget(epsilon=2.0, delta=1e-5), reason="more")
            assert len(held.spend((_COUNT,))) == 181

    def test_a_filter_that_cannot_be_read_refuses_the_file(self, path):
        self.spend(path, _BUDGET, _COUNT)
        path.write_text(path.read_text().replace('"renyi"', '"other"'))
        with pytest.raises(Unreadable, match="one of basic, renyi"):
            self.spend(path, _BUDGET, _COUNT)


def test_two_ledgers_together_have_no_filter():
    one = MemoryStore(AddRemove(), budget=_BUDGET).spend((_COUNT,))
    assert (one + one).filter is None
    assert filter_state(one + one) is None
    with pytest.raises(InvalidArgument, match="privet.filters"):
        Ledger(AddRemove(), filter=_BUDGET)


class TestGuarantee:
    """A ledger that was extended in view of its answers is worth what its filter proves, not what fixed questions cost."""

    def ledger(self, budget, count=20):
        found = Ledger(AddRemove())
        for _ in range(count):
            found = extend_ledger(found, [Entry("count", Opaque(epsilon=0.02))], frozenset(), budget)
        return found

    def test_it_is_that_of_the_filter_and_the_price_of_fixed_questions_is_smaller(self):
        ledger = self.ledger(Budget(epsilon=1.0, delta=1e-5))
        claim = account(ledger)
        assert claim.accountant == "privacy filter"
        assert claim.epsilon(delta=1e-5) == pytest.approx(1.0)
        assert Caveat.FIXED_PARAMETERS not in claim.caveats
        price = fixed_price(ledger)
        assert price.epsilon(delta=1e-5) < 0.5
        assert Caveat.FIXED_PARAMETERS in price.caveats

    def test_at_delta_zero_the_sum_so_far_holds(self):
        assert account(self.ledger(Budget(epsilon=1.0))).epsilon(delta=0.0) == pytest.approx(0.4)

    def test_a_late_budget_proves_nothing_by_its_filter(self):
        late = extend_ledger(self.ledger(None), [_COUNT], frozenset(), Budget(epsilon=1.0, delta=1e-5))
        assert Caveat.LATE_BUDGET in late.caveats
        assert account(late).accountant != "privacy filter"

    def test_the_command_line_heads_with_the_filter(self, tmp_path, capsys):
        path = tmp_path / "ledger.json"
        path.write_text(self.ledger(Budget(epsilon=1.0, delta=1e-5)).to_json(), encoding="utf-8")
        assert main(["account", str(path), "--delta", "1e-5"]) == 0
        said = capsys.readouterr().out
        assert said.startswith("ε ≤ 1 at δ = 1e-05")
        assert "if every question had been fixed beforehand" in said
        assert main(["explain", str(path), "--delta", "1e-5"]) == 0
        assert capsys.readouterr().out.startswith("ε ≤ 1 at δ = 1e-05")
