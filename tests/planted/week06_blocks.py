"""Week 6, the pool of blocks and who holds which."""

_ALLOCATE = "test_allocate_gives_every_block_once_and_then_says_that_none_is_left"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "an allocated block stays on the free list",
        "block = self._free.pop()",
        "block = self._free[-1]",
        _ALLOCATE,
        "given out twice",
    ),
    (
        "an allocated block without a holder",
        "self._references[block] = 1",
        "self._references[block] = 0",
        "test_allocate_gives_a_block_one_holder",
        "has one holder",
    ),
    (
        "blocks taken from the other end",
        "block = self._free.pop()",
        "block = self._free.pop(0)",
        "test_allocate_takes_the_block_freed_last",
        "the free blocks are a stack",
    ),
    (
        "a block freed twice unnoticed",
        'raise ValueError(f"block {block} is free already; freed twice, it would be given to two requests")',
        "self._references[block] = 1",
        "test_free_refuses_a_block_that_is_free",
        "freed twice unnoticed",
    ),
    (
        "share without a count",
        "self._references[block] += 1",
        "pass",
        "test_share_counts_one_more_holder",
        "count the second",
    ),
    (
        "free although others hold the block",
        "if not self._references[block]:",
        "if True:",
        "test_free_keeps_a_block_that_others_hold",
        "although somebody holds it",
    ),
    (
        "an empty free list popped",
        "        if not self._free:\n",
        "        if False:\n",
        _ALLOCATE,
        "raise OutOfBlocks, which says so",
    ),
    (
        "a freed block put below the others",
        "self._free.append(block)",
        "self._free.insert(0, block)",
        "test_free_puts_the_block_on_top_of_those_that_are_free",
        "freed last, so it is taken first",
    ),
    (
        "block -1 shared as the last one",
        'if self.references(block) < 1:\n            raise ValueError(f"block {block} is free; only',
        'if self._references[block] < 1:\n            raise ValueError(f"block {block} is free; only',
        "test_share_refuses_a_number_outside_the_pool",
        "counts it from the end",
    ),
    (
        "block -1 freed as the last one",
        'if self.references(block) < 1:\n            raise ValueError(f"block {block} is free already',
        'if self._references[block] < 1:\n            raise ValueError(f"block {block} is free already',
        "test_free_refuses_a_number_outside_the_pool",
        "counts it from the end",
    ),
    (
        "a free block shared",
        'if self.references(block) < 1:\n            raise ValueError(f"block {block} is free; only',
        'if self.references(block) < 0:\n            raise ValueError(f"block {block} is free; only',
        "test_share_refuses_a_free_block",
        "a free block was shared",
    ),
    (
        "two holders whatever there were",
        "self._references[block] += 1",
        "self._references[block] = 2",
        "test_share_counts_one_more_holder",
        "each adds one to those there are",
    ),
    (
        "a block that the last holder does not give back",
        "            self._free.append(block)\n",
        "            pass\n",
        "test_free_keeps_a_block_that_others_hold",
        "it is lost for ever",
    ),
    (
        "all holders gone with the first",
        "        self._references[block] -= 1\n",
        "        self._references[block] = 0\n",
        "test_free_keeps_a_block_that_others_hold",
        "take one off the count",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "paging/blocks.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
