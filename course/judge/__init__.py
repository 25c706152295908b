"""Answers of people one does not know, graded in processes that can harm nobody."""
