"""A month of token usage at API rates, held against what was rented."""
