"""Week 6, paging and scheduling: each sentence of the docstrings, and the planted mistake that breaks it."""

SENTENCES = {
    "BlockAllocator": {
        "Return the free block that lies on top of the stack": "blocks taken from the other end",
        "OutOfBlocks: none is free.": "an empty free list popped",
        "Count one more holder of a block": "two holders whatever there were",
        "ValueError: the block is free, so there is nothing": "a free block shared",
        "Count one holder less": "a block that the last holder does not give back",
        "ValueError: the block is free already": "a block freed twice unnoticed",
    },
    "BlockTable": {
        "Return where in the pool": "positions taken for slots",
        "Place s, which vLLM calls a slot": "the place before the block",
        "ValueError: positions that are not reserved": "stop before start answered",
        "Reserve n more positions": "a copy that nobody makes",
        "A new block is allocated when a position": "a block one position early",
        "If the first new position falls into": "copy on write forgotten",
        "ValueError: n is negative.": "a negative number of positions appended",
        "OutOfBlocks: not enough blocks": "blocks taken before all are known to be there",
        "Return a second table over the same blocks": "a fork with new blocks",
    },
}
