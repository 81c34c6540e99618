"""``/metrics``: what is told of a snapshot and of the program itself, under which names, and as which bytes."""
