"""Which tests of this folder a process may run: those under Triton's interpreter, or the others.

Triton decides once and for a whole process whether its kernels are compiled or interpreted, so the interpreted tests
(test_triton_*.py) have a process to themselves: test_interpreter.py starts it, with TRITON_INTERPRET=1. By hand:

    TRITON_INTERPRET=1 python -m pytest tests/kernels
"""

import os

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = ["test_interpreter.py", "test_compiles.py"] if INTERPRETED else ["test_triton_*.py"]
