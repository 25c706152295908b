"""A student's own folder, `work/`: made, followed, taken answers from and set back, on both tracks."""
