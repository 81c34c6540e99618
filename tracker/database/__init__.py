"""The database: its tables, how it is opened, and what is particular to each kind of it."""
