"""What notebooks use besides `check`: figures, fair timing, memory counted, the capacity calculator."""
