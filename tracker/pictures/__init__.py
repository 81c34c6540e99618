"""Pictures of prices over time for messages: what is drawn, how it is drawn, and where it is read from."""
