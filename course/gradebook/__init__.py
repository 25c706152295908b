"""Marks of a class: graded as they come, kept, compared, and written to nbgrader's gradebook, a table and files."""
