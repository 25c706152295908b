"""The command `course`, by who types what: a student, an instructor, whoever ends with the capstone."""
