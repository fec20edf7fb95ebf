"""Interleaving: two rankers in one slate, and whose rows the viewer cares for.

Team draft (Radlinski, Kurup and Joachims, CIKM 2008): in each round both rankers, in an order drawn
by lot, place their best row that does not stand there yet. What is done about a row is credited to
the team that placed it. One viewer sees both at once, so far fewer slates decide than when each
viewer sees one of two rankers.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from feed.order import Ids, Mask, Rows
from training.metrics import Values

SIGNIFICANT = 0.05

Teams = npt.NDArray[np.int8]
"""Who placed a row: 0 the champion, 1 the challenger."""


@dataclass(frozen=True)
class Interleaved:
    """One slate (n,) of two rankers, and which of them placed each row."""

    ids: Ids
    teams: Teams


@dataclass(frozen=True)
class Verdict:
    """Which ranker won more slates; ties say nothing. `p` is that of a two-sided sign test."""

    champion: int
    challenger: int
    ties: int
    p: float

    @property
    def winner(self) -> str | None:
        """Name the one that is preferred, if one is."""
        if self.p >= SIGNIFICANT:
            return None
        return "challenger" if self.challenger > self.champion else "champion"

    @property
    def sentence(self) -> str:
        """Say what was found."""
        n = self.champion + self.challenger + self.ties
        found = (
            f"of {n:,} slates the challenger won {self.challenger:,}, the champion "
            f"{self.champion:,}, {self.ties:,} were even (sign test: p = {self.p:.2g})"
        )
        if self.winner is None:
            return f"No preference can be told: {found}."
        return f"The {self.winner} is preferred: {found}."


def team_draft(champion: Ids, challenger: Ids, *, rng: np.random.Generator) -> Interleaved:
    """Interleave two orders of the same ids (n,).

    After each round, so many rows are of one team as of the other.
    """
    orders = (champion.tolist(), challenger.tolist())
    at, placed = [0, 0], set[int]()
    ids: list[int] = []
    teams: list[int] = []
    while len(ids) < len(champion):
        first = int(rng.integers(2))
        for team in (first, 1 - first):
            while at[team] < len(orders[team]) and orders[team][at[team]] in placed:
                at[team] += 1
            if at[team] < len(orders[team]):
                placed.add(orders[team][at[team]])
                ids.append(orders[team][at[team]])
                teams.append(team)
    return Interleaved(np.array(ids, dtype=np.int64), np.array(teams, dtype=np.int8))


def credit(slate: Interleaved, earned: Values | Mask | Rows) -> tuple[float, float]:
    """Return what the champion's and the challenger's rows earned; `earned` is (n,) by place."""
    champion, challenger = np.bincount(slate.teams, weights=earned, minlength=2)
    return float(champion), float(challenger)


def judged(credits: npt.NDArray[np.float64]) -> Verdict:
    """Judge slates by the credit (m, 2) of champion and challenger in each."""
    champion = int((credits[:, 0] > credits[:, 1]).sum())
    challenger = int((credits[:, 1] > credits[:, 0]).sum())
    ties = len(credits) - champion - challenger
    return Verdict(champion, challenger, ties, sign_test(champion, challenger))


def sign_test(wins: int, losses: int) -> float:
    """Return how likely wins differ from losses by so much or more when neither is better.

    Exact and two-sided: 2 P(X <= min) for X of a binomial of n fair coins, at most 1.

    >>> sign_test(9, 1), sign_test(0, 0)
    (0.021484375, 1.0)
    """
    n, least = wins + losses, min(wins, losses)
    # In whole numbers, which have no bounds: 2^-n is 0 as a float from 1,075 slates on.
    return min(1.0, 2 * sum(comb(n, k) for k in range(least + 1)) / (1 << n))
