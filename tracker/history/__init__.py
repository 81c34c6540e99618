"""Price series recorded by others: one small adapter a shape, one way into the book (``tracker.history.load``)."""
