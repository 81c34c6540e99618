"""The book: what was listed at a moment, by what was known then, in USD."""
