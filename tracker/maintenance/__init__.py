"""Upkeep of the database: how long things are kept, how large they are, and ways to copy and move them."""
