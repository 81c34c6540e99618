"""The running program: its start, what it does when, how it is doing, and its end."""
