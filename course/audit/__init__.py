"""What marks are worth: wrong answers that must be caught, right ones that must not, and how often either fails."""
