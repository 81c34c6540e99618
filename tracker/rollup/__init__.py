"""Figures a day: what GPUs cost at each provider and which setup won, kept so that years are read at once."""
