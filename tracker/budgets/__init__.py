"""Budgets of ``tracker.toml``: what a calendar month has cost so far, and what it comes to."""
