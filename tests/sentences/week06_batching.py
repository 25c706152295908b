"""Week 6, batching without a model: the sentences of its docstrings, and the planted mistake that breaks each."""

_NAMES = "- names an argument, whose part in the result other sentences say"

SENTENCES = {
    "ServingRun": {
        "Slots at work, over all steps": "idle steps left out of the utilisation",
        "For each request the number of steps that had been run": "a request ends when its last step begins",
        "For each request the steps between its arrival": "waiting counted from step 0",
        "For each request the steps from its arrival": "latency counted from step 0",
    },
    "simulate_static_batching": {
        "Return the run of a server": "a static batch that takes new requests while it runs",
        "When no batch runs": "waiting for a full batch",
        "Each request works in its slot": "the batch ends with its shortest request",
        "While nobody has arrived": "a static server that ends when nobody is there",
        "A request that needs 0 steps": "a request for nothing takes a slot of a batch",
        "needs: for each request": _NAMES,
        "n_slots: sequences": "rows without the empty slots",
        "arrivals: for each request": "static batching blind to arrivals",
        "ValueError: n_slots": "a batch that needs no arrivals in order",
        "Source:": "- names a source",
    },
    "simulate_continuous_batching": {
        "Return the run of a server": "a continuous batch refilled when it is empty",
        "Before every step": "the highest slot first",
        "Each request works in its slot": "a slot refilled one step late",
        "While nobody has arrived": "a continuous server that ends when nobody is there",
        "A request that needs 0 steps": "a request for nothing takes a slot",
        "needs: for each request": _NAMES,
        "n_slots: sequences": "a continuous batch that ends with request 0 at work",
        "arrivals: for each request": "continuous batching blind to arrivals",
        "ValueError: n_slots": "slots that need no arrivals in order",
        "Source:": "- names a source",
    },
}
