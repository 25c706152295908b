"""The figures of week 2: positions counted, cosines, bytes, and what fits beside them."""

from math import ceil, cos, exp, floor, log

from .literals import Derived, Given

GB, KiB, GiB = 1e9, 2**10, 2**30
TOKEN = 2 * 32 * 8 * 128 * 2  # bytes a token of the 8B's cache, 16 bits
TOKEN_MHA, TOKEN_MQA = TOKEN * 32 // 8, TOKEN // 8
TOKEN_70B = 2 * 80 * 8 * 128 * 2
TEXT = 8192 * TOKEN
# q and out, k and v, the three matrices of the feed-forward block, norms, embedding and output matrix
PARAMS_8B = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336 + 2 * 4096) + 4096 + 2 * 128_256 * 4096
PARAMS_8B_MHA = PARAMS_8B + 32 * 2 * 4096 * (4096 - 1024)
PARAMS_70B = 80 * (2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28_672 + 2 * 8192) + 8192 + 2 * 128_256 * 8192
PARAMS_SMALL = 16 * (4 * 2048**2 + 3 * 2048 * 8192 + 2 * 2048) + 2048 + 50_304 * 2048
READ_8B = 2 * (PARAMS_8B - 128_256 * 4096 - 65 * 4096)  # multiplied: no embedding, no norms
W = 3.35e12
FREE = 0.9 * 80 * GB
TESTED = "what the tests of the exercise use"
TIME = "measured on one two-core machine"
MINUTES = "a plan for three minutes"
UNIT = "what a unit or a letter means"


def uncached(prompt, new):
    """Positions counted pass by pass."""
    return sum(prompt + written for written in range(new))


def softmax(scores, values):
    """One query's output, all numbers."""
    weights = [exp(score) for score in scores]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def step_seconds(batch, cache):
    """A decode step of the 8B on an H100, where arithmetic is the shorter part."""
    return (READ_8B + batch * cache) / W


TABLE = [
    # The idea
    Derived("a widening block of 39 squares", {"39": uncached(4, 6)}),
    Derived("at the end of its row, 9 in all", {"9": 4 + 6 - 1}),
    Given("how fast rotary angles slow down, 10,000", "the shipped model's"),
    Given("GB is 10⁹ bytes, GiB is 2³⁰ bytes.", UNIT),
    Given("A prompt of 8 tokens, then 16 new tokens."),
    # By hand: counting
    Given(
        "Take three new tokens after a prompt of 8. Without a cache the passes run 8, then 8 and the token just written"
    ),
    Derived("8 + 9 + 10 = 27 positions", {"27": uncached(8, 3)}),
    Derived("With a cache 8 + 1 + 1 = 10.", {"10": 8 + 3 - 1}),
    Given("n·p + n(n − 1)/2 positions", "a sum of n numbers from p on"),
    # By hand: attending
    Given("| key | 0 | 0.693 | 0 | | value | 4 | 8 | 0 |"),
    Given("so 0, 0.693 and 0."),
    Derived(
        "Their exponentials are 1, 2 and 1, the weights ¼, ½ and ¼.",
        {"2": exp(log(2)), "¼": 1 / (1 + 2 + 1), "½": 2 / 4},
    ),
    Derived("¼ · 4 + ½ · 8 + ¼ · 0 = **5**", {"5": softmax([0, log(2), 0], [4, 8, 0])}),
    Derived("weights ⅓ and ⅔, output 6.67", {"⅓": 1 / 3, "⅔": 2 / 3, "6.67": softmax([0, log(2)], [4, 8])}),
    Derived("Only the first key is seen: output 4.", {"4": softmax([0], [4])}),
    Derived(
        "the weights are 1, 2, 1, 1 and 1 sixths, output 3.33",
        {"2": 6 * 2 / (1 + 2 + 1 + 1 + 1), "3.33": softmax([0, log(2), 0, 0, 0], [4, 8, 0, 0, 0])},
    ),
    Derived("a fourth token with key 1.386 (which is ln 4), value 2 and query 1", {"1.386": log(4)}),
    Derived(
        "The exponentials are 1, 2, 1 and 4, together 8.", {"8": 1 + exp(log(2)) + 1 + exp(log(4)), "4": exp(1.3863)}
    ),
    Derived("(1 · 4 + 2 · 8 + 1 · 0 + 4 · 2)/8 = 3.5", {"3.5": softmax([0, log(2), 0, log(4)], [4, 8, 0, 2])}),
    # Exercises 2.2 and 2.3
    Given("and 50 pairs of lengths against counting", TESTED),
    Derived("156 and 24 for twelve tokens", {"156": 2 * uncached(1, 12), "24": 2 * (1 + 12 - 1)}),
    Derived(
        "8 + 9 + … + 23 is 16 numbers with a mean of 15.5, so 248",
        {"16": len(range(8, 24)), "15.5": sum(range(8, 24)) / 16, "248": uncached(8, 16)},
    ),
    Given("For 16 new tokens:"),
    Derived("With a cache 8 + 15 = 23, which is 10.8 times fewer", {"23": 8 + 16 - 1, "10.8": uncached(8, 16) / 23}),
    # Where a token stands
    Given(r"\theta^{-2i/H}", "the definition of rotary embedding"),
    Given(
        "θ is a number of the model, 10,000 here. Number i of a head is paired with number i + H/2.",
        "the shipped model's",
    ),
    Given("Other code pairs 2i with 2i + 1", "the other convention"),
    Given("H = 2, query and key both (1, 0), so one hand each. The key stands at position 3, the query at 5."),
    Derived(
        "The hands are at 3 and at 5 radians, and the score (before the root) is cos 2 = −0.42.",
        {"2": 5 - 3, "−0.42": cos(5 - 3)},
    ),
    Derived("the score with the key at 3 is cos 3 = −0.99", {"−0.99": cos(0 - 3)}),
    Derived(
        "the key's hand stands at 3 radians and the query's at 5, and the cosine of the angle between them is -0.42",
        {"-0.42": cos(2)},
    ),
    Derived("the query's hand stands at 0, and the cosine is -0.99", {"-0.99": cos(3)}),
    Given("at offsets from 0 to 30,000", TESTED),
    Given("times the H/2 speeds θ^(−2i/H)", "the definition of rotary embedding"),
    # The cache
    Given("In a pass over one token, with 5 in the past:"),
    Given("| | layer 0 | layer 1 | layer 2 |"),
    Derived("| `update(0, k, v)` | writes position 5 | | | 5 |", {"5": len(range(5))}),
    Given("| `update(1, k, v)` | | writes position 5 | | 5 |", "the same"),
    Given("| `update(2, k, v)` | | | writes position 5 | 5 |", "the same"),
    Derived("| `advance(1)` | | | | 6 |", {"6": 5 + 1}),
    Derived("layer 1 would write position 6 and leave 5 empty", {"6": 5 + 1}),
    Derived("the mean of 0 to 5, which is 2.5", {"2.5": sum(range(6)) / 6}),
    Given("view the projection as (B, T, N + 2K, H)", "keys and values"),
    Derived(
        "two thirds of a layer in the shipped model",
        {"two": 3 * 128 * 1024 / (2 * 128**2 + 2 * 128 * 64 + 3 * 128 * 384)},
        within=0.05,
    ),
    Derived(
        "more than two layers in an 8B",
        {"two": floor(4096 * 128_256 / (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336))},
    ),
    # Linear and quadratic
    Given("over 16 positions and over 256, and one decode pass"),
    Given("A prompt of 16 tokens. With these times: how many seconds do 128 tokens take without a cache, and 256?"),
    Given("(The next cell takes about 15 seconds.)", TIME),
    Derived(
        "the factor lies between 2 and 3.6: it would be 2 if only a counted",
        {"2": 256 / 128, "3.6": uncached(16, 256) / uncached(16, 128)},
    ),
    Derived("and 3.6 if only b·n did", {"3.6": uncached(16, 256) / uncached(16, 128)}),
    Derived("the nearer the factor comes to 4", {"4": uncached(16, 2_000_000) / uncached(16, 1_000_000)}, within=0.001),
    # What it costs: bytes
    Given(r"= 2 \cdot L \cdot K \cdot H \cdot \frac{\text{bits}}{8}", "keys and values; bits in a byte"),
    Given("a model shaped like Llama 3 8B: L = 32, K = 8, H = 128, 16 bits.", "its config.json"),
    Derived(
        "2 · 32 · 8 · 128 = 65,536 numbers, 131,072 bytes, 128 KiB *for a single token*",
        {"65,536": 2 * 32 * 8 * 128, "131,072": TOKEN, "128": TOKEN / KiB},
    ),
    Derived("A text of 8,192 tokens: 1,073,741,824 bytes, one GiB exactly", {"1,073,741,824": TEXT, "one": TEXT / GiB}),
    Derived(
        "Sixteen such texts: 17,179,869,184 bytes, 17.18 GB", {"17,179,869,184": 16 * TEXT, "17.18": 16 * TEXT / GB}
    ),
    Derived("whose 8·10⁹ parameters take 16 GB. Together 33.18 GB", {"16": 2 * 8e9 / GB, "33.18": 16 + 16 * TEXT / GB}),
    Given("Five models with their heads shared in different ways, 8, 4 and 3 bits", TESTED),
    Given("times bits over 8; round up with math.ceil", UNIT),
    Derived("among them 1 GiB and 16 GiB exactly", {"16": 16 * TEXT / GiB}),
    # MHA, GQA and MQA side by side
    Given("32 query heads of one new token look at 4,096 cached positions, in float32"),
    Given("the softmax of 32 heads over 4,096 scores"),
    # What fits
    Given("8, 70 and 671 billion parameters at 16, 8 and 4 bits; 4.125 bits; a started byte.", TESTED),
    Derived(
        "59, 15 and 476 requests on 80 GB, with int8 134",
        {
            "59": floor(64 * GB / TEXT),
            "15": floor(64 * GB / (32_000 * TOKEN)),
            "476": floor(64 * GB / (1024 * TOKEN)),
            "134": floor(72 * GB / (TEXT / 2)),
        },
    ),
    Given("Five settings on 80 GB, and 50 random ones", TESTED),
    Derived(
        "the dashed line of the weights, 16 GB, at 122,000 tokens; MHA at 30,500",
        {"16": 2 * 8e9 / GB, "122,000": round(16 * GB / TOKEN, -3), "30,500": round(16 * GB / TOKEN_MHA, -2)},
    ),
    Derived("loads about 15 GB of weights", {"15": READ_8B / GB}),
    Derived(
        "At 131,072 tokens that is 15 + 17.18 GB, so the pass takes 2.15 times as long",
        {"17.18": 131_072 * TOKEN / GB, "2.15": (15 + 131_072 * TOKEN / GB) / 15},
    ),
    # The capacity calculator
    Derived(
        "`LLAMA_3_8B` has 8.03·10⁹ parameters, `LLAMA_3_70B` 70.554·10⁹ and 327,680 bytes of cache a token",
        {"8.03·10⁹": PARAMS_8B, "70.554·10⁹": PARAMS_70B, "327,680": TOKEN_70B},
    ),
    Given("an H100 has 80 GB", "data sheet"),
    Given("8B, all in 16 bits, one H100, nothing kept free. How many texts of 8,192 tokens at a time?"),
    Given("The same with a cache in 8 bits. Exactly twice as many?"),
    Given("but with MHA: 32 key/value heads. Exactly a quarter?"),
    Given("70B with weights in 4 bits, the cache in 16, a batch of 8, a tenth kept free."),
    Given("As 1, but with MHA"),
    Derived(
        "80 − 16.06 GB leave room for 59.5 texts, so 59.",
        {
            "16.06": 2 * PARAMS_8B / GB,
            "59.5": (80 * GB - 2 * PARAMS_8B) / TEXT,
            "59": floor((80 * GB - 2 * PARAMS_8B) / TEXT),
        },
    ),
    Derived(
        "twice 59.5, so 119 and not 118",
        {"119": floor((80 * GB - 2 * PARAMS_8B) / (TEXT / 2)), "118": 2 * 59},
    ),
    Derived(
        "a quarter of 59.5 is 14.9, so 14 and not 15, by rounding alone",
        {
            "14.9": (80 * GB - 2 * PARAMS_8B) / TEXT / 4,
            "14": floor((80 * GB - 2 * PARAMS_8B) / TEXT / 4),
            "15": ceil(59.5 / 4),
        },
    ),
    Derived(
        "to 17.67 GB; that makes it 14.5, and still 14.",
        {
            "17.67": 2 * PARAMS_8B_MHA / GB,
            "14.5": (80 * GB - 2 * PARAMS_8B_MHA) / (4 * TEXT),
            "14": floor((80 * GB - 2 * PARAMS_8B_MHA) / (4 * TEXT)),
        },
    ),
    Derived("(72 − 35.28) GB / (8 · 327,680)", {"72": FREE / GB, "35.28": PARAMS_70B / 2 / GB, "327,680": TOKEN_70B}),
    Given("The 8B at 1,024 tokens each: from 1 sequence to 64, how much longer"),
    Given("*small MHA* has a seventh of the 8B's parameters", "1.18·10⁹ of 8.03·10⁹"),
    Given("beside one of the 8B? At 8,192 tokens each and 64 sequences"),
    Given("does a single text of the 8B with MHA fit on the H100? For 16 users with 32,768 tokens each and MHA"),
    Given("GQA, 8-bit weights or an 8-bit cache?"),
    Derived(
        "From 4.52 to 7.04 ms, 1.56 times, and from 221 to 9,085 tokens/s, 41 times.",
        {
            "4.52": 1e3 * step_seconds(1, 1024 * TOKEN),
            "7.04": 1e3 * step_seconds(64, 1024 * TOKEN),
            "1.56": step_seconds(64, 1024 * TOKEN) / step_seconds(1, 1024 * TOKEN),
            "221": 1 / step_seconds(1, 1024 * TOKEN),
            "9,085": 64 / step_seconds(64, 1024 * TOKEN),
            "41": 64 * step_seconds(1, 1024 * TOKEN) / step_seconds(64, 1024 * TOKEN),
        },
    ),
    Derived(
        "131,072 bytes, the same: 16 layers of 16 heads are as many as 32 layers of 8.",
        {"131,072": 2 * 16 * 16 * 128 * 2},
    ),
    Derived(
        "64 caches of 1.07 GB are 68.7 GB beside 2.35 GB of weights, so a token takes 21 ms",
        {
            "1.07": TEXT / GB,
            "68.7": 64 * TEXT / GB,
            "2.35": 2 * PARAMS_SMALL / GB,
            "21": 1e3 * (64 * TEXT + 2 * PARAMS_SMALL) / W,
        },
    ),
    Derived(
        "65,536 in the list, 103,624 in the table, where a tenth is kept free.",
        {"65,536": 2 ** floor(log(103_624, 2)), "103,624": floor((FREE - 2 * PARAMS_8B_MHA) / TOKEN_MHA)},
    ),
    Derived(
        "GQA saves 206 GB of cache, an 8-bit cache 137 GB, 8-bit weights 9 GB.",
        {
            "206": 16 * 32_768 * (TOKEN_MHA - TOKEN) / GB,
            "137": 16 * 32_768 * TOKEN_MHA / 2 / GB,
            "9": PARAMS_8B_MHA / GB,
        },
    ),
    Given("128 tokens each and 512 sequences", "two choices; the calculator then says compute"),
    Derived(
        "The 4 bits of the list have a scale for each 128 weights, 4.125 bits in all, so question 4 comes out "
        "as 13,588 there.",
        {"4.125": 4 + 16 / 128, "13,588": floor((FREE - PARAMS_70B * 4.125 / 8) / (8 * TOKEN_70B))},
    ),
    Given(
        "take the 95th percentile of their lengths, not the mean, and leave 10 to 20 % of the memory free", "practice"
    ),
    # What else makes it smaller
    Derived(
        "one vector of 512 and one rotary key of 64 a layer, where GQA with K = 8 and H = 128 keeps 2,048 "
        "numbers: 3.6 times "
        "less",
        {"2,048": 2 * 8 * 128, "3.6": 2 * 8 * 128 / (512 + 64)},
    ),
    Derived(
        "8 bits, 4 bits ([week 5](../week05_quantization/week05_quantization.ipynb)) | 2 or 4 times less",
        {"2": 16 / 8, "4": 16 / 4},
    ),
    Given("small at 8 bits; at 4 it shows", "week 5 measures it"),
    # The library, SmolLM2
    Given("(The cell takes about 20 seconds, most of them to import.)", TIME),
    Derived("what is left of the 90 %", {"90 %": 100 * 0.9}),
    Given(
        "SmolLM2 has 30 layers with 3 key/value heads of 64. How many bytes does a token of its cache take in 16 bits?"
    ),
    Given("do 12 tokens after a prompt of 32 take without a cache? (About 30 seconds;", TIME),
    Given("**The factor 2 forgotten.** Keys *and* values.", UNIT),
    # Back of the envelope
    Given("**1.** The 8B model of this lesson, 16 GB of weights, on 80 GB with nothing kept free."),
    Given("How many texts of 1,024, of 8,192 and of 32,000 tokens fit?"),
    Derived("64 GB are left.", {"64": 80 - 2 * 8}),
    Derived(
        "1,024 tokens: 134,217,728 B, 64·10⁹/134,217,728 = 476.8, so 476.",
        {"134,217,728": 1024 * TOKEN, "476.8": 64e9 / 134_217_728, "476": floor(64e9 / 134_217_728)},
    ),
    Derived("8,192 tokens: 59.6, so 59.", {"59.6": 64e9 / TEXT, "59": floor(64e9 / TEXT)}),
    Derived(
        "32,000 tokens: 4.19 GB, 15.3, so 15.",
        {
            "4.19": 32_000 * TOKEN / GB,
            "15.3": 64e9 / (32_000 * TOKEN),
            "15": floor(64e9 / (32_000 * TOKEN)),
        },
    ),
    Given(
        "**2.** The same model, 16 texts of 8,192 tokens. How large are the caches with 32 key/value heads, "
        "and with one?"
    ),
    Derived(
        "With 32 heads 524,288 B a token, four times as much: 68.72 GB.",
        {"524,288": 2 * 32 * 32 * 128 * 2, "four": TOKEN_MHA / TOKEN, "68.72": 16 * 8192 * TOKEN_MHA / GB},
    ),
    Derived(
        "With one 16,384 B, an eighth: 2.15 GB.", {"16,384": 2 * 32 * 1 * 128 * 2, "2.15": 16 * 8192 * TOKEN_MQA / GB}
    ),
    Given("**3.** 80 layers, 64 query heads, 8 key/value heads, H = 128, 70·10⁹ parameters."),
    Given("For 32,768 tokens? For four of them? How many GPUs of 80 GB with the weights in 16 bits, and in 8?"),
    Derived("2 · 80 · 8 · 128 · 2 B = 327,680 B, 320 KiB", {"327,680": TOKEN_70B, "320": TOKEN_70B / KiB}),
    Given("the 64 query heads do not matter"),
    Derived(
        "32,768 tokens: 10.74 GB. Four: 42.95 GB.",
        {"10.74": 32_768 * TOKEN_70B / GB, "42.95": 4 * 32_768 * TOKEN_70B / GB},
    ),
    Derived(
        "Weights in 16 bits 140 GB, together 182.95 GB, 3 GPUs.",
        {"140": 2 * 70, "182.95": 140 + 4 * 32_768 * TOKEN_70B / GB, "3": ceil(182.95 / 80)},
    ),
    Derived("In 8 bits 70 GB, together 112.95 GB, 2 GPUs.", {"112.95": 70 + 42.95, "2": ceil(112.95 / 80)}),
    Derived("At 4 bits the weights alone would be 35 GB.", {"35": 70 * 4 / 8}),
    Given(
        "**4.** 80 GB, a tenth kept free. The longest context for a batch of 16 on the 8B (16 GB)? With a "
        "cache in 8 bits?"
    ),
    Given("For the 70B: a batch of 4 with weights in 16 bits; a batch of 8 with weights in 4 bits (35 GB)"),
    Given("the latter with a cache in 8 bits?"),
    Derived("72 GB to share.", {"72": FREE / GB}),
    Derived(
        "8B: 56·10⁹/(16 · 131,072) = 26,702 tokens, with 8 bits 53,405.",
        {"56·10⁹": FREE - 16 * GB, "26,702": floor(56e9 / (16 * TOKEN)), "53,405": floor(56e9 / (16 * TOKEN / 2))},
    ),
    Derived("70B: 140 GB do not fit, 0.", {"140": 2 * 70}),
    Derived(
        "At 4 bits 37·10⁹/(8 · 327,680) = 14,114, with a cache in 8 bits 28,228.",
        {"37·10⁹": FREE - 35 * GB, "14,114": floor(37e9 / (8 * TOKEN_70B)), "28,228": floor(37e9 / (4 * TOKEN_70B))},
    ),
    Given(
        "**5.** A pass of the 8B loads 15 GB of weights. How much longer does it take at 131,072 tokens than "
        "at the start?"
    ),
    Given("And with 32 key/value heads?"),
    Derived(
        "17.18 GB of cache: (15 + 17.18)/15 = 2.15 times. With 32 heads 68.72 GB: 5.6 times.",
        {
            "17.18": 131_072 * TOKEN / GB,
            "2.15": (15 + 17.18) / 15,
            "68.72": 131_072 * TOKEN_MHA / GB,
            "5.6": (15 + 68.72) / 15,
        },
    ),
    Given("**6.** Someone proposes to cache the queries too"),
    Given("what would it cost in the 8B?"),
    Derived(
        "32 · 32 · 128 · 2 B = 262,144 B a token, twice what keys and values take",
        {"262,144": 32 * 32 * 128 * 2, "2": 262_144 / TOKEN},
    ),
    # The interview, the proof
    Given('*"Our 8B service on one 80 GB GPU passed every test.'),
    Derived("Weights 16 GB, fixed. Caches: 128 KiB a token", {"16": 2 * 8e9 / GB, "128": TOKEN / KiB}),
    Derived("At 8,192 tokens about 1 GB each, so about 59 of them.", {"1": TEXT / GB, "59": floor(64 * GB / TEXT)}),
    Given("(40 seconds)", MINUTES),
    Given("95th percentile, not mean. It happens when several long ones meet (30 seconds)", MINUTES),
    Given("with 10 to 20 % kept free", "practice"),
    Given("(30 seconds)", MINUTES),
    Given("an 8-bit cache doubles it", "half of the bytes"),
    Derived(
        "8-bit weights free 8 GB, which is seven more texts", {"8": (2 - 1) * 8e9 / GB, "seven": floor(8 * GB / TEXT)}
    ),
    Given("(45 seconds)", MINUTES),
    Given("(35 seconds)", MINUTES),
    Derived("differ by about 10⁻¹⁵ all the same", {"10⁻¹⁵": 2**-50}, within=1e-15),
    Derived("**Mark scheme (6).**", {"6": 1 + 1 + 1 + 1 + 1 + 1}),
    Given("at most 1 of the first 4", "the mark scheme"),
]
