"""Keeps implausible prices out: bands per row, contradictions within a sweep, changes against history, sweeps that cannot be true."""

from tracker.guard.bands import offer_fault as offer_fault
from tracker.guard.bands import rate_fault as rate_fault
