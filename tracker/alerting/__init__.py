"""Alerts: what is told, once, to whom, and when; and how it gets there."""
