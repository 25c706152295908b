"""A new version of the course under a student's answers, and nothing is ever thrown away."""
