"""Everything that touches the world: schedule, HTTP, database, metrics, alerts, web, finance and command line."""
