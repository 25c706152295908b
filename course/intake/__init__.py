"""What students hand in, in whatever form: whose it is, and their answers as text, nothing of it run."""
