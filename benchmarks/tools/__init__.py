"""What all benchmarks share: the machine under them, and where their figures go."""
