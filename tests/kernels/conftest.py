"""Which tests of this folder a process may run: those under Triton's interpreter, or the others.

Triton decides once and for a whole process whether its kernels are compiled or interpreted, so the interpreted tests
(test_triton_*.py) have a process to themselves: test_interpreter.py starts it, with TRITON_INTERPRET=1. By hand:

    TRITON_INTERPRET=1 python -m pytest tests/kernels
"""

import os

from hypothesis import Phase, settings

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# No kernel of Triton runs in these.
OTHERS = ["test_interpreter.py", "test_compiles.py", "test_compiled.py", "test_products.py"]
collect_ignore_glob = OTHERS if INTERPRETED else ["test_triton_*.py"]

# Without shrinking: examples are small as they are, and under the interpreter a smaller one takes minutes to find.
settings.register_profile("interpreted", settings.get_profile("course"), phases=[Phase.explicit, Phase.generate])
if INTERPRETED:
    settings.load_profile("interpreted")
