"""Side-by-side measurements. Each prints one table, writes one JSON into benchmarks/results/ and has --quick.

`python -m benchmarks.decode` compares NanoLM with transformers, `python -m benchmarks.speculation` speculation with
plain decoding. With --card they also write their table into the model card, nanolm/shipped/README.md, whose other
sections `python -m training.card` writes.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
