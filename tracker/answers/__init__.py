"""Answers: from the book to the cheapest setup, the bill and the break-even of each question, and what they were before."""
