"""What was delivered, counted and kept in files."""

from __future__ import annotations

from gpufeed.ledger.counts import Run
from gpufeed.ledger.ledger import Differences, EpochReport, Ledger, merge

__all__ = ["Differences", "EpochReport", "Ledger", "Run", "merge"]
