"""Ledgers: counts and digests of delivered records, kept in files."""

from __future__ import annotations

from gpufeed.ledger.counts import Run
from gpufeed.ledger.ledger import Differences, EpochReport, Ledger, merge

__all__ = ["Differences", "EpochReport", "Ledger", "Run", "merge"]
