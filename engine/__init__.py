"""What the facts, offers and rates mean: pure arithmetic over frozen values. No clock, files, network or database."""
