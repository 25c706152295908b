"""What an instructor hands out: a release for students, an autograder for Gradescope, and proof of what is not in them."""
