"""Side-by-side measurements. Each prints one table, writes one JSON into benchmarks/results/ and has --quick.

`python -m benchmarks.decode` compares NanoLM with transformers, `python -m benchmarks.speculation` speculation with
plain decoding. With --card they also write their table into the model card, nanolm/shipped/README.md, whose other
sections `python -m training.card` writes.
"""

import os

# Read by torch at import, so set here, before any module of this package imports it: threads that spin while they
# wait disturb whatever else runs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
