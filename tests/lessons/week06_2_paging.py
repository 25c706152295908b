"""The figures of week 6, second evening."""

import math
from statistics import NormalDist

from nanolm.workload import load_trace

from .literals import Derived, Given

TRACE = load_trace()
LONGEST = max(arrival.n_prompt_tokens for arrival in TRACE), max(arrival.n_output_tokens for arrival in TRACE)
SIXTEEN = sorted(TRACE, key=lambda arrival: -arrival.n_output_tokens)[:16]

# The 8B model of the examples: a token's cache, and milliseconds to load the weights, for a position, for a cache of
# 1,024.
TOKEN = 2 * 32 * 8 * 128 * 2
LOAD_MS, POSITION_MS, CACHE_MS = 1e3 * 15e9 / 3.35e12, 1e3 * 2 * 7.5e9 / 1e15, 1e3 * 1024 * TOKEN / 3.35e12


def blocks(positions):
    return math.ceil(positions / 16)


TABLE_7_2_5 = [7, 2, 5]


def place(position):
    return 4 * TABLE_7_2_5[position // 4] + position % 4


ONE_PASS = 4032 * POSITION_MS + 32 * CACHE_MS
CHUNK = 544 * POSITION_MS + 32 * CACHE_MS
LAST = (4000 - 7 * 512 + 32) * POSITION_MS + 32 * CACHE_MS

TABLE = [
    Given("a bound notebook of 300 pages"),
    Given("GB is 10⁹ bytes", "the unit"),
    # --- two ways to keep a cache ---
    Derived(
        "With an average of 1,000 tokens and reservations for 8,192, the share in use is at most 1,000/8,192 = 12 %.",
        {"12": 100 * 1000 / 8192},
    ),
    Given("Blocks of g = 4. A request holds the blocks 7, 2, 5, in this order, and has 10 positions."),
    Derived(
        "Where is position 9? 9 // 4 = 2, the third block, which is block 5; 9 mod 4 = 1, the second place in it.",
        {"2": 9 // 4, "5": TABLE_7_2_5[9 // 4], "1": 9 % 4},
    ),
    Derived(
        "So place 4 · 5 + 1 = **21**. Position 0 is in place 28, position 5 in place 9.",
        {"21": place(9), "28": place(0), "9": place(5)},
    ),
    Given(
        "block 7, which has positions 0 to 3; the second to block 2, with 4 to 7; the third to block 5, with 8 and 9"
    ),
    Given("Take blocks of 4, and two tables of 6 positions over blocks 0 and 1"),
    Given("| | twin's table | original's table | references of 0, 1, 2 |"),
    Derived("| after the fork | 0, 1 | 0, 1 | 2, 2, 0 |", {"2": 1 + 1}),
    Given("| the twin appends position 6: it falls into block 1", "6 // 4 is 1"),
    Given("| 0, **2** (block 1 is copied to 2) | 0, 1 | 2, 1, 1 |", "tests/paging/test_blocks.py runs it"),
    Given("| the original appends position 6: block 1 has one holder again | 0, 2 | 0, 1 (no copy) | 2, 1, 1 |"),
    # --- sizing ---
    Given("the pool has room for 20,000 positions"),
    Given("the length that 95 % stay below (p95), the batch that you want, and 10 to 20 % headroom", "usual practice"),
    # --- the scheduler ---
    Given("A budget of 8 tokens a pass. a has a prompt of 5, b one of 9, both want 3 tokens."),
    Derived("| 1 | 5 | 3 | a's whole prompt", {"3": 8 - 5}),
    Derived("| 2 | 1 | 6 | a's second token", {"6": 9 - 3}),
    Given("| 3 | 1 | 1 | a's third token"),
    Given("| 4 | | 1 | b's third"),
    Derived("a needed 5 + 2 = 7 positions, not 8", {"7": 5 + 3 - 1, "8": 5 + 3}),
    Derived("would have been five: three of a's, one for 8 tokens of b's prompt", {"five": 3 + math.ceil(9 / 8)}),
    Given("a pool of 24 blocks for ten requests, chunks of at most 48 tokens a pass"),
    Given("In float32 or 16 bits"),
    # --- reservation against paging ---
    Derived("A pool of 128 blocks of 16 positions, 2,048 positions.", {"2,048": 128 * 16}),
    Derived(
        "The longest prompt of the trace has 193 tokens, the longest answer 149. Who reserves has to be ready "
        "for both: "
        "342 positions, 22 blocks",
        {"193": LONGEST[0], "149": LONGEST[1], "342": sum(LONGEST), "22": blocks(sum(LONGEST))},
    ),
    Derived("All 64 requests come at once", {"64": len(TRACE)}),
    Derived("Complete, they need 127 blocks.", {"127": sum(blocks(arrival.n_tokens - 1) for arrival in SIXTEEN)}),
    Given("With 48 blocks, what share"),
    # --- chunked prefill ---
    Given("Then a prompt of 1,000 tokens arrives."),
    Derived(
        "In chunks of 64 tokens a pass (8 of which go to the decoding requests), everybody's passes are short, but the "
        "newcomer needs eighteen",
        {"64": 64, "8": 8},
    ),
    Given("with a budget of 1,024 than with 64?"),
    # --- forks ---
    Derived(
        "The longest prompt of the trace has 193 tokens; each continuation has 40 new ones, of which the last "
        "is never run: "
        "232 positions, 15 blocks of 16.",
        {"193": LONGEST[0], "232": 193 + 40 - 1, "15": blocks(232)},
    ),
    Derived("Four separate requests: 60 blocks. Forked: the 12 full blocks", {"60": 4 * 15, "12": 193 // 16}),
    Derived("The 13th holds a single position", {"13": 193 // 16 + 1}),
    Derived("each has 15 − 12 = 3 blocks of its own: 12 + 4 · 3 = **24**.", {"3": 15 - 12, "24": 12 + 4 * 3}),
    Derived("The distance between the lines is 12 full blocks", {"12": 193 // 16}),
    Derived("In the first pass it is 13: the forks part only after it", {"13": 193 // 16 + 1}),
    Given("a pool of 128 blocks serves them"),
    Given("or 32 run (places do)", "the engine's max_running"),
    Given("16 is a usual choice", "vLLM's and this engine's default"),
    Given("the pool is what is left of 90 % of the memory"),
    Given("SmolLM2-135M, if it is installed here. A cache of 60 MB, and eight prompts with answers of 12 tokens"),
    Given("with reservations for 512 positions"),
    # --- envelope ---
    Derived(
        "The model is the 8B one of the first evening: 131,072 B a token, 4.48 ms to load the weights, 15 µs",
        {"131,072": TOKEN, "4.48": LOAD_MS, "15": 1e3 * POSITION_MS},
    ),
    Given("**1.** 80 GB, 16 GB of weights, 10 % of the rest kept free."),
    Given("with reservations for 8,192 tokens, and how many with paging, if texts have 1,000 tokens on average?"),
    Given("what share of the blocks of 16?"),
    Derived(
        "57.6 GB. Reserved: 8,192 · 131,072 B = 1.074 GB each, 53 requests. Paged: 131 MB each, 439 on average.",
        {
            "57.6": (80 - 16) * 0.9,
            "1.074": 8192 * TOKEN / 1e9,
            "53": 57.6e9 // (8192 * TOKEN),
            "131": 1000 * TOKEN / 1e6,
            "439": 57.6e9 // (1000 * TOKEN),
        },
    ),
    Derived(
        "Wasted: 1 − 1,000/8,192 = 88 %, against about half a block, (16 − 1)/2 = 7.5 positions of 1,007.5, so 0.7 %.",
        {"88": 100 * (1 - 1000 / 8192), "7.5": (16 - 1) / 2, "1,007.5": 1000 + 7.5, "0.7": 100 * 7.5 / 1007.5},
    ),
    Given("**2.** 32 requests write, each with 1,024 tokens in its cache. A prompt of 4,000 tokens arrives."),
    Given("if at most 544 tokens run in a pass?"),
    Derived("Caches: 32 · 0.040 = 1.3 ms a pass.", {"0.040": CACHE_MS, "1.3": 32 * CACHE_MS}),
    Derived("One pass: 4,032 · 15 µs = 60.5 ms, together 62 ms", {"60.5": 4032 * POSITION_MS, "62": ONE_PASS}),
    Derived(
        "In chunks of 544 − 32 = 512: 544 · 15 µs = 8.2 ms and 1.3 are 9.4 ms a pass; 4,000/512 makes 8 passes",
        {"512": 544 - 32, "8.2": 544 * POSITION_MS, "9.4": CHUNK, "8": math.ceil(4000 / 512)},
    ),
    Derived("the last one shorter: 74 ms.", {"74": 7 * CHUNK + LAST}),
    Derived(
        "The newcomer waits 12 ms longer; the others 9.4 ms instead of 62. (Without it they wait 4.48 + 1.3 = 5.8.)",
        {"12": 7 * CHUNK + LAST - ONE_PASS, "5.8": LOAD_MS + 32 * CACHE_MS},
    ),
    Given(
        "**3.** A pool of 3,600 blocks of 16. Texts have 1,000 tokens on average when they end, with a "
        "standard deviation of "
        "600, and 60 requests run."
    ),
    Given("And with 50?"),
    Derived(
        "Room for 57,600 tokens; the sum has mean 60,000 and standard deviation 600 · √60 = 4,650.",
        {"57,600": 3600 * 16, "60,000": 60 * 1000, "4,650": 600 * math.sqrt(60)},
        within=5,
    ),
    Derived(
        "The room is 0.52 standard deviations below the mean: about 70 %.",
        {"0.52": 2400 / (600 * math.sqrt(60)), "70": 100 * NormalDist().cdf(2400 / (600 * math.sqrt(60)))},
    ),
    Derived("With 50 requests the mean is 50,000, the deviation 4,240,", {"4,240": 600 * math.sqrt(50)}, within=5),
    Derived(
        "and the room 1.8 of them above: about 4 %.",
        {"1.8": 7600 / (600 * math.sqrt(50)), "4": 100 * NormalDist().cdf(-7600 / (600 * math.sqrt(50)))},
    ),
    # --- interview ---
    Given('"Our GPU is at 25 % of its arithmetic'),
    Given("each pass (30 seconds)", "time to speak"),
    Given("would really fit? (45 seconds)", "time to speak"),
    Given("an 8-bit cache, a model with fewer KV heads, then more machines (45 seconds)", "time to speak"),
    Given("not the mean (30 seconds)", "time to speak"),
    Derived(
        "From 16 to 64 requests the bound goes from 3,126 to 9,089 tokens/s and a token from 5.1 to 7.0 ms.",
        {
            "3,126": 16e3 / (LOAD_MS + 16 * CACHE_MS),
            "9,089": 64e3 / (LOAD_MS + 64 * CACHE_MS),
            "5.1": LOAD_MS + 16 * CACHE_MS,
            "7.0": LOAD_MS + 64 * CACHE_MS,
        },
    ),
    Given("keep 10 to 20 % headroom for several long ones at once (30 seconds)", "usual practice"),
    # --- written ---
    Given("**Mark scheme (8).**", "points"),
    Given("**Mark scheme (6).**", "points"),
    Given("is E[X(X + 1)] / (2 M E[X])", "half of the sum 1 + … + X"),
    Given("below 2 % with g = 16?"),
    Given("so the share is (x + 1)/(2M).", "the mean of 1 … x over M"),
    Given("1 + 2 + … + X = X(X + 1)/2"),
    Given("E[X(X + 1)/2] / (M E[X])"),
    Derived("(M + 1)/(2M), about one half", {"half": (1000 + 1) / 2000}, within=0.001),
    Given("(g − 1)/2 / (μ + (g − 1)/2)"),
    Derived(
        "7.5/(μ + 7.5) < 0.02 exactly if μ > 367.5, so from 368 tokens on",
        {"7.5": 15 / 2, "367.5": 7.5 / 0.02 - 7.5, "368": math.ceil(367.5)},
    ),
    Given("five requests in 24 blocks of 8", "of the cell below"),
    Given("For g = 16:"),
    *(
        Given(f"{who}, [*", "a year")
        for who in ("Kwon et al. 2023", "Agrawal et al. 2023", "Agrawal et al. 2024", "Wu et al. 2023")
    ),
]
