"""Answers read before they are run: which there are, and what in them no answer needs."""
