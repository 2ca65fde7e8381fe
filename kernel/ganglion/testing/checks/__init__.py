"""Checks that an author calls in a test: each names the clause of the contract that a class does not keep."""
