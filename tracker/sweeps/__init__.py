"""Sweeps: a source is collected in its turn, resolved, judged and kept."""
