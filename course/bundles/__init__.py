"""What an instructor hands out: a release for students, with proof of what is not in it; a Gradescope autograder."""
