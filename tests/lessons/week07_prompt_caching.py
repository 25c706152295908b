"""The figures of week 7."""

import math

from .literals import Derived, Given

# The 8B model of the examples: a token's cache, and what a position of prefill takes on round numbers of a chip.
TOKEN = 2 * 32 * 8 * 128 * 2
POSITION_MS, LOAD_MS, BANDWIDTH = 1e3 * 2 * 7.5e9 / 1e15, 1e3 * 15e9 / 3.35e12, 3.35e12
WRITE, READ, PRICE = 1.25, 0.1, 3 / 1e6
FIRST = 10_000 * WRITE * PRICE + 500 * PRICE
OTHER = 10_000 * READ * PRICE + 500 * PRICE
BILL = FIRST + 99 * OTHER
PAYS_FROM = (WRITE - 1) / (WRITE - READ)  # the share of hits from which caching pays

ATTENTION = 4 * 4096 * 32  # operations for a pair of positions: scores and sums, 2 each, 32 heads of 128, 32 layers
WITHOUT = 10_500 * POSITION_MS + 1e3 * ATTENTION * 10_500 * 5250 / 1e15
CACHED = 500 * POSITION_MS + 1e3 * ATTENTION * 500 * 10_250 / 1e15 + 1e3 * 10_000 * TOKEN / BANDWIDTH

AGENT = 1500 * sum(range(1, 41))
AGENT_CACHED = 40 * 1500 * WRITE + 1500 * sum(range(40)) * READ

TABLE = [
    Given("GB is 10⁹ bytes", "the unit"),
    Given("a token's cache is 2 · L · K · H numbers", "a key and a value"),
    Given("the same system prompt of 1,000 tokens, and each goes on with a question of 7"),
    # --- by hand ---
    Given("| 1 | the cat | sat on | the mat | | 2 | the cat | sat on | a hat | | 3 | a cat | sat on | the mat |"),
    Given("Prompt 2 finds *the cat* and *sat on*, 4 of its 6 words. Prompt 3 finds nothing", "7.1's lab prints it"),
    Derived("So prompt 3 gets three blocks of its own: 3 + 1 + 3 = 7 blocks in all", {"7": 3 + 1 + 3}),
    Given("but blocks are whole. 4 words are reused, 2 are run", "7.1's lab prints it"),
    Derived("so 5 may be reused, and in whole blocks that is 4", {"5": 6 - 1, "4": 5 // 2 * 2}),
    Given("both from prompt 3."),
    Derived("20 · 1,000 = **20,000** tokens", {"20,000": 20 * 1000}),
    Given("With: **1,000**."),
    Derived("The questions, 20 · 7 = 140 tokens", {"140": 20 * 7}),
    Derived(
        "For a model like Llama-3-8B (L = 32, K = 8, H = 128, 2 bytes a number) a token's keys and values are "
        "2 · 32 · 8 · 128 · 2 = 131,072 bytes",
        {"131,072": TOKEN},
    ),
    Derived(
        "| 20 · 1,000 = 20,000 | 20,000 · 131,072 B = **2.62 GB** |",
        {"20,000": 20 * 1000, "2.62": 20_000 * TOKEN / 1e9},
    ),
    Derived("| shared | 1,000 | 1,000 · 131,072 B = **131 MB** |", {"131": 1000 * TOKEN / 1e6}),
    Derived(
        "0.015 ms of arithmetic on an H100 (2 · 7.5·10⁹ operations at 989·10¹² a second), so 19,000 tokens "
        "less are 0.29 s",
        {"0.015": 1e3 * 2 * 7.5e9 / 989e12, "19,000": 20_000 - 1000, "0.29": 19_000 * 2 * 7.5e9 / 989e12},
    ),
    Given("of its tokens 2 to 40 differ"),
    Given("(No difference at all is drawn at 10⁻⁸.)", "the plot's floor"),
    Given("multiples of 2,048, empty texts, 80 random pairs", "tests/paging/test_prefix.py"),
    Derived(
        "with 8 of 8 equal and a granularity of 4 the answer is 4, not 7",
        {"4": (8 - 1) // 4 * 4, "7": 8 - 1},
    ),
    Given("*the mat* (prompt 1), *a hat*, *the mat* (prompt 3)"),
    Given("the rest of prompt 3"),
    Given("and 20 conversations whose system prompt is run once", "tests/paging/test_prefix.py"),
    # --- a newcomer ---
    Given(
        "Eight blocks of 4 positions. Four are held by somebody who writes, two by the tree alone (8 tokens of *our*"
    ),
    Derived(
        "A prompt of 20 tokens comes, the 8 among them. Its other 12 tokens need 3 blocks. Free are 2, and the "
        "tree could "
        "evict 2",
        {"12": 20 - 8, "3": 12 / 4, "2": 8 - 4 - 2},
    ),
    Given("and 3 blocks are more than 2"),
    Given("and 300 random texts on a real tree", "tests/engine/test_prefix_admission.py"),
    Given("a pass over 7 positions adds its products up in another order than one over 1,007"),
    # --- twenty conversations ---
    Derived("conversation i waits for i prompts: i · 1,007 tokens", {"1,007": 1000 + 7}),
    Derived("the first runs 1,007 tokens", {"1,007": 1000 + 7}),
    Given("the same 1,000 tokens beside it"),
    Derived("Then each has 7 left, which fit into one pass: 133 tokens", {"133": 19 * 7}),
    Given("in turns (about 20 seconds)", "a quiet laptop"),
    Derived(
        "**20,000 against 1,000.** 1,000 + 20 · 7 = 1,140 tokens are run in place of 20,140",
        {"1,140": 1000 + 20 * 7, "20,140": 20 * 1007},
    ),
    Given("still attends over 1,007 keys and values"),
    Given("Messages of 30 tokens, answers of 24, six turns."),
    Given("in the cache at turn 2, and at turn 6?"),
    # --- a pool too small ---
    Derived(
        "Take 40 customers, each with a system prompt of 256 tokens, which are 16 blocks of 16: 640 blocks for "
        "all. Every "
        "request adds 16 tokens of its own. Two loads of 800 requests",
        {"16": 256 / 16, "640": 40 * 16},
    ),
    Given("in rotation, 1, 2, …, 40, 1, 2, …"),
    Derived("The pool has 340 blocks, half of what all prompts need.", {"half": 340 / 640}, within=0.04),
    Derived("256 of 272 tokens can be hits: 94 %", {"272": 256 + 16, "94": 100 * 256 / 272}),
    Given("more than the 640 blocks of the prompts"),
    Derived("so about 640 + 40 = 680 blocks", {"680": 640 + 40}),
    Derived(
        "for the 8B model: 131,072 B a token at 25 GB/s (PCIe, in practice) are 5.2 µs; prefill takes 15 µs a "
        "token. Three "
        "times faster.",
        {"131,072": TOKEN, "5.2": 1e6 * TOKEN / 25e9, "15": 1e3 * POSITION_MS},
    ),
    Derived("a disk that reads 5 GB/s it would be 26 µs", {"26": 1e6 * TOKEN / 5e9}),
    Given("with a document of 1,000 tokens"),
    Given("rules (300 tokens), examples (300 tokens)"),
    Given('"09:41:07"', "a time of day"),
    # --- several machines ---
    Given("24 customers with system prompts of 512 tokens and requests of 64 more"),
    Given("does the work of 10,000 positions a second"),
    Given("and 400 for its answer"),
    Given("has room for 8 system prompts"),
    # --- what it costs ---
    Given("w = 1.25 times, and to *read* it there much less, r = 0.1 times (0.05 with some)", "usual prices"),
    Given("An entry lives τ = 5 minutes, and each use starts the 5 minutes anew.", "usual prices"),
    Derived(
        "At 2 and 10 dollars a million, 1,000 tokens in and 500 out: 0.002 + 0.005 = 0.007 dollars.",
        {"0.002": 1000 * 2 / 1e6, "0.005": 500 * 10 / 1e6, "0.007": 0.007},
    ),
    Given(
        "100 requests within a few minutes, each with the same 10,000 tokens in front and 500 of its own, at 3 dollars"
    ),
    Derived("| without | 100 · 10,500 · 3/10⁶ | **3.15** |", {"10,500": 10_000 + 500, "3.15": 100 * 10_500 * PRICE}),
    Derived(
        "| 10,000 · 1.25 · 3/10⁶ + 500 · 3/10⁶ = 0.0375 + 0.0015 | **0.0390** |",
        {"0.0375": 10_000 * WRITE * PRICE, "0.0015": 500 * PRICE, "0.0390": FIRST},
    ),
    Derived(
        "| 10,000 · 0.1 · 3/10⁶ + 500 · 3/10⁶ = 0.0030 + 0.0015 | **0.0045** |",
        {"0.0030": 10_000 * READ * PRICE, "0.0045": OTHER},
    ),
    Derived("| all | 0.0390 + 99 · 0.0045 | **0.4845** |", {"0.4845": BILL}),
    Derived("85 % saved. The 500 fresh tokens are 1/21", {"85": 100 * (1 - BILL / 3.15), "21": 10_500 / 500}),
    Derived(
        "With 100 fresh tokens behind 10,000 read at a tenth, a request costs as much as 1,000 + 100 = 1,100 tokens in "
        "place of 10,100: 9.2 times less. At a twentieth 600 tokens, 16.8 times less.",
        {
            "1,100": 10_000 / 10 + 100,
            "10,100": 10_000 + 100,
            "9.2": 10_100 / 1100,
            "600": 10_000 / 20 + 100,
            "16.8": 10_100 / 600,
        },
    ),
    Derived(
        "in multiples of 2,048: 10,000 = 4 · 2,048 + 1,808, so 8,192 are cached and 1,808 cost the plain price",
        {"4": 10_000 // 2048, "1,808": 10_000 % 2048, "8,192": 4 * 2048},
    ),
    Given(r"\frac{\text{price}}{10^6}", "dollars a million"),
    Given("multiples of 2,048, no request", "tests/budget/test_pricing.py"),
    Derived(
        "saves 85 % of one product's bill and adds 24 % to another's",
        {"85": 100 * (1 - BILL / 3.15), "24": 100 * (FIRST / (10_500 * PRICE) - 1)},
    ),
    Given("the entry lives 5 minutes. Up to which G does caching pay? Below 5 minutes, at 5, or beyond?"),
    Given("beyond 5 minutes every request"),
    Derived("ever reads, 24 % more than without", {"24": 100 * (FIRST / (10_500 * PRICE) - 1)}),
    Derived(r"\frac{0.25}{1.15} = 22\,\%", {"0.25": WRITE - 1, "1.15": WRITE - READ, "22": 100 * PAYS_FROM}),
    Given(r"\frac{w - 1}{w - r}"),
    Derived(
        "a mean gap of 4.1 · τ, **20 minutes**",
        {"4.1": -1 / math.log(1 - PAYS_FROM), "20": -5 / math.log(1 - PAYS_FROM)},
    ),
    # --- depth ---
    Derived(
        "A prompt of 100,000 tokens that parts from no other is 6,250 nodes in our tree, at 16 tokens a block",
        {"6,250": 100_000 / 16},
    ),
    Given("| 1 | the cat · sat on | 2, 3 | | 2 | the mat | | | 3 | a hat | | | 4 | a cat · sat on · the mat | |"),
    Derived("All four: 2,000 random events", {"2,000": 8 * 250}),
    Given("an answer of 40 tokens more"),
    Derived("An 8-bit cache keeps twice as many prefixes as one of 16 bits", {"8": 16 / 2}),
    Given("SmolLM2-135M", "a name"),
    # --- envelope ---
    Derived(
        "The model is the 8B one from above: 131,072 B and 15 µs of prefill a token, 4.48 ms",
        {"131,072": TOKEN, "15": 1e3 * POSITION_MS, "4.48": LOAD_MS},
    ),
    Given("**1.** A prompt of 10,500 tokens, of which 10,000 are cached."),
    Derived("Without: 10,500 · 15 µs = 158 ms", {"158": 10_500 * POSITION_MS}),
    Derived(
        "Attention adds 4 · 4,096 · 32 operations for each pair of positions, 10,500 · 5,250 pairs: "
        "28.9·10¹², 29 ms at "
        "10¹⁵ a second, together 186 ms.",
        {
            "5,250": 10_500 / 2,
            "28.9·10¹²": ATTENTION * 10_500 * 5250,
            "29": ATTENTION * 10_500 * 5250 / 1e12,
            "186": WITHOUT,
        },
    ),
    Derived("With: 500 · 15 µs = 7.5 ms, above the 4.48 ms of loading", {"7.5": 500 * POSITION_MS}),
    Derived(
        "attention of 500 positions over 10,250 on average, 2.7 ms",
        {"10,250": 10_000 + 500 / 2, "2.7": 1e3 * ATTENTION * 500 * 10_250 / 1e15},
    ),
    Derived(
        "10,000 · 131,072 B = 1.31 GB of cache to read at 3.35 TB/s, 0.4 ms.",
        {"1.31": 10_000 * TOKEN / 1e9, "0.4": 1e3 * 10_000 * TOKEN / BANDWIDTH},
    ),
    Derived(
        "Together 10.6 ms: 18 times faster, not 21",
        {"10.6": CACHED, "18": WITHOUT / CACHED, "21": 10_500 / 500},
    ),
    Given("**2.** An agent takes 40 steps. Each adds 1,500 tokens"),
    Given("at 3 dollars a million, without caching and with w = 1.25, r = 0.1, a few seconds"),
    Derived(
        "1,500 · (1 + 2 + … + 40) = 1,500 · 820 = 1.23 million, 3.69 dollars.",
        {"820": sum(range(1, 41)), "1.23": AGENT / 1e6, "3.69": AGENT * PRICE},
    ),
    Derived(
        "its 1,500 new tokens and reads what came before: 40 · 1,500 · 1.25 = 75,000 and 1,500 · (0 + 1 + … + "
        "39) · 0.1 = "
        "1,500 · 780 · 0.1 = 117,000 plain tokens, together 192,000: 0.58 dollars, 6.4 times less",
        {
            "75,000": 40 * 1500 * WRITE,
            "780": sum(range(40)),
            "117,000": 1500 * 780 * READ,
            "192,000": AGENT_CACHED,
            "0.58": AGENT_CACHED * PRICE,
            "6.4": AGENT / AGENT_CACHED,
        },
    ),
    Given("**3.** A system prompt of 10,000 tokens is used every G minutes"),
    Given("by reading it every 5 minutes for nothing"),
    Derived(
        "A write costs 1.25, a read 0.1 of the plain price. With k extra reads a use costs 0.1 (k + 1), "
        "against 1.25: k up "
        "to 11.",
        {"11": math.floor(1.25 / 0.1 - 1)},
    ),
    Derived("gaps of up to 5 (k + 1) minutes, so up to G = 60 minutes", {"60": 5 * (11 + 1)}),
    Derived("it pays for k up to 8: 45 minutes", {"8": 9 - 1, "45": 5 * (8 + 1)}),
    Given(
        "**4.** 80 GB, 16 GB of weights, 10 % of the rest kept free. 20 customers with system prompts of 10,000 tokens"
    ),
    Given("How many requests of 8,192 tokens behind them can run at once, if all 20 prompts are to stay?"),
    Derived("64 GB · 0.9 = 57.6 GB.", {"64": 80 - 16, "57.6": 64 * 0.9}),
    Derived("200,000 · 131,072 B = 26.2 GB. Left are 31.4 GB", {"26.2": 200_000 * TOKEN / 1e9, "31.4": 57.6 - 26.2}),
    Derived(
        "a request's own 8,192 tokens are 1.074 GB: 29.",
        {"1.074": 8192 * TOKEN / 1e9, "29": (57.6e9 - 200_000 * TOKEN) // (8192 * TOKEN)},
    ),
    Derived(
        "a request is 18,192 tokens, 2.38 GB: 24 in all, and every one of them prefills 10,000 tokens more",
        {"18,192": 10_000 + 8192, "2.38": 18_192 * TOKEN / 1e9, "24": 57.6e9 // (18_192 * TOKEN)},
    ),
    Given("**5.** Your dashboard says 60 % of *requests* hit, and 20 % of *tokens*."),
    Derived("fewer than 22 % of uses come within the time to live (w = 1.25, r = 0.1)", {"22": 100 * PAYS_FROM}),
    # --- interview ---
    Given("a system prompt of 10,000 tokens with every request"),
    Given("10,000 tokens of prefill are the suspect"),
    Given("caching does not touch it (30 seconds)", "time to speak"),
    Given("one tokenizer (45 seconds)", "time to speak"),
    Given("warm up after a deployment (30 seconds)", "time to speak"),
    Given("gaps against the time to live (30 seconds)", "time to speak"),
    Derived(
        "Prefill from 10,500 to 500 tokens; bill 3.15 to 0.48 dollars per hundred requests; break-even at 22 % hits.",
        {"3.15": 100 * 10_500 * PRICE, "0.48": BILL, "22": 100 * PAYS_FROM},
    ),
    Given("up to near ties (45 seconds)", "time to speak"),
    # --- written ---
    Given("**Mark scheme (6).** Induction with a claim about states (not only about one layer), 2.", "points"),
    Given("at most 2 for (a)", "points"),
    Given("in general and for w = 1.25, r = 0.1. (b) A longer life is offered at w = 2"),
    Given("and its value for w = 1.25, r = 0.1. (d)"),
    Derived(
        "For 1.25 and 0.1: 1.15/0.9 = 1.28, so n = 2. (One use: 1.25 against 1. Two: 1.35 against 2.)",
        {"1.15": 1.25 - 0.1, "0.9": 1 - 0.1, "1.28": 1.15 / 0.9, "2": math.ceil(1.15 / 0.9), "1.35": 1.25 + 0.1},
    ),
    Derived("1.9/0.9 = 2.11, so n = 3", {"1.9": 2 - 0.1, "2.11": 1.9 / 0.9, "3": math.ceil(1.9 / 0.9)}),
    Given("six prompts share 64 tokens", "of the cell below"),
    Derived("= 0.25/1.15 = 0.217", {"0.217": PAYS_FROM}),
    Given("**Mark scheme (6).** (a) both costs written down, 1; inequality solved, 1; n = 2, 1.", "points"),
    Given("Numbers without derivation: at most 2 in all", "points"),
    *(Given(f"{who}, [*", "a year") for who in ("Zheng et al. 2024", "Kwon et al. 2023", "Gim et al. 2024")),
]
