"""Whose code is tested, by which tests, and what they found."""
