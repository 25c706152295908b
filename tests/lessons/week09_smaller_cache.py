"""Week 9's figures, each derived anew; what is measured on a GPU is quoted from benchmarks/README.md."""

import math

from .literals import Derived, Given

CHOSEN = "chosen for the example"
H200 = "measured on one H200, benchmarks/README.md"
TESTS = "what the tests try"
NAMES = "names of models and of their parts, from their papers"
READ, PEAK = 3.35e12, 989e12  # an H100: bytes and operations a second
L, N, K, H = 32, 32, 8, 128  # the 8B model
TOKEN = 2 * L * K * H * 2  # bytes of cache of a token, in 16 bits
LAYER = TOKEN // L
FAR = 131_072
GB = 1e9
C, R, U = 512, 64, 128  # DeepSeek's latent attention
LATENT = C + R
UP = C * (H + U)  # numbers of a head's two matrices, and multiplications to apply them
CHUNK = [3, 4, 5, 6, 7, 8]
SEVENTY = 80 * 8 * 128 * 2 * 2  # bytes of cache a token of the 70B
ROOM = 0.9 * 8 * 80 * GB


def softmax_mean(scores, values):
    weights = [math.exp(score) for score in scores]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def equal_ways(S):
    """Queries at which both ways take equally many multiplications, S positions in all."""
    return S * UP / (UP + S * (2 * C - H - U))


def users(weights_gb, bits):
    return math.floor((ROOM - weights_gb * GB) / (SEVENTY * bits / 16 * FAR))


MEAN = softmax_mean([0, math.log(2), math.log(4)], [3, 6, 12])
QUARTER, HALF = 0.25, 0.5
STATE = N * H * U * 4  # bytes of linear attention's state, one layer, 32 bits
SPREAD = 1_048_576

TABLE = [
    Given("A cache keeps 2 · K · H numbers a token and layer.", "a formula"),
    Derived("GB is 10⁹ bytes, GiB is 2³⁰ bytes.", {"10⁹": 1e9, "2³⁰": 1024**3}),
    Derived(
        "A prompt of 8,192 tokens has 67,108,864 of them; in 16 bits that is 134,217,728 B a head, and 4.29 GB for 32 "
        "heads",
        {"67,108,864": 8192**2, "134,217,728": 8192**2 * 2, "4.29": 32 * 8192**2 * 2 / GB},
    ),
    Given("two sequences, 32 bits, twice the tokens", TESTS),
    Given("bits, over 8.", "eight bits a byte"),
    Derived(
        "one head, 8,192 tokens, in float32: the scores alone take 8,192² · 4 B = 268 MB", {"268": 8192**2 * 4 / 1e6}
    ),
    # A softmax in pieces, by hand.
    Given("Three keys with the scores 0, ln 2 and ln 4, and the values 3, 6 and 12."),
    Derived(
        "the exponentials are 1, 2 and 4, the weights 1/7, 2/7 and 4/7, the mean (3 + 12 + 48)/7 = **9**",
        {"2": math.exp(math.log(2)), "4": math.exp(math.log(4)), "7": 1 + 2 + 4, "12": 2 * 6, "48": 4 * 12, "9": MEAN},
    ),
    Derived(
        "| keys 0 and 1 | ln 2 | ½ + 1 = 1.5 | ½ · 3 + 1 · 6 = 7.5 | 5 |",
        {"1.5": math.exp(-math.log(2)) + 1, "7.5": HALF * 3 + 6, "5": softmax_mean([0, math.log(2)], [3, 6])},
    ),
    Derived(
        "| correction: ln 2 → ln 4 | ln 4 | 1.5 · ½ = 0.75 | 7.5 · ½ = 3.75 | 5 |",
        {"0.75": 1.5 * math.exp(math.log(2) - math.log(4)), "3.75": 7.5 * HALF, "5": 3.75 / 0.75},
    ),
    Derived(
        "| key 2 | ln 4 | 0.75 + 1 = 1.75 | 3.75 + 1 · 12 = 15.75 | 15.75/1.75 = **9** |",
        {"1.75": 0.75 + 1, "15.75": 3.75 + 12, "9": 15.75 / 1.75},
    ),
    Derived("e^(old maximum − new maximum) = e^(ln 2 − ln 4) = ½", {"½": math.exp(math.log(2) - math.log(4))}),
    Derived("no correction: (7.5 + 12)/(1.5 + 1) = 7.8;", {"7.8": (7.5 + 12) / (1.5 + 1)}),
    Derived("corrected: 15.75/2.5 = 6.3;", {"6.3": 15.75 / (1.5 + 1)}),
    Derived(
        "e^(new − old) = 2: (15 + 12)/(3 + 1) = 6.75.",
        {"2": math.exp(math.log(4) - math.log(2)), "15": 2 * 7.5, "3": 2 * 1.5, "6.75": (15 + 12) / (3 + 1)},
    ),
    Given("In float32 e^89 is infinite, and scores of 89 occur.", "e^89 is 4.5·10³⁸, float32 ends at 3.4·10³⁸"),
    Given("key 2 first, then keys 0 and 1."),
    Derived(
        "After key 2: maximum ln 4, total 1, weighted 12. The maximum stays, so the correction is 1. Keys 0 and 1 "
        "have the "
        "weights ¼ and ½: total 1.75, weighted 12 + 0.75 + 3 = 15.75.",
        {
            "¼": math.exp(-math.log(4)),
            "½": 2 / 4,
            "1.75": 1 + QUARTER + HALF,
            "0.75": QUARTER * 3,
            "15.75": 12 + 0.75 + 3,
        },
    ),
    Given("one softmax, 60 random cases; scores of 1,000;", TESTS),
    Given("merged in any order, 60 random cases;", TESTS),
    Derived(
        "keys 0 and 1 have m = ln 2 and ℓ = 1.5, so lse = ln 3, and the mean 5. Key 2 has lse = ln 4 and the mean 12. "
        "Together lse = ln 7, and the mean is (3 · 5 + 4 · 12)/7 = 63/7 = **9** again.",
        {"3": 2 * 1.5, "7": 3 + 4, "63": 3 * 5 + 4 * 12, "9": 63 / 7},
    ),
    Given("H + 1 numbers a query where the open state has H + 2.", "a formula"),
    # Attention in tiles.
    Given("large scores; NaN in the hidden future; views, 16 bits;", TESTS),
    Derived("the scores (4 T² bytes), the masked scores (4 T²) and the mask (T²): 9 T².", {"9": 4 + 4 + 1}),
    Given("its result, 4 T · H, and a few tiles", "a formula: 4 bytes a number"),
    Given("For 2,048 tokens, which tile is fastest: 32, 64, 128, 256, 512, 1,024 or 2,048?", "what the cell tries"),
    Derived(
        "Take T = 8,192 and one head with H = 128. The products are 4 · T² · H / 2 = 17·10⁹ operations (half, because "
        "causal): 17 µs at the 989·10¹² a second of an H100.",
        {"17·10⁹": 4 * 8192**2 * 128 / 2, "17": 4 * 8192**2 * 128 / 2 / PEAK * 1e6, "989·10¹²": PEAK},
    ),
    Derived(
        "four times 134 MB, 160 µs at 3.35 TB/s. Memory needs nine times as long as the arithmetic. Tiles move "
        "queries, "
        "keys, values and the result, 8.4 MB, 2.5 µs.",
        {
            "134": 8192**2 * 2 / 1e6,
            "160": 4 * 8192**2 * 2 / READ * 1e6,
            "nine": 160 / 17.4,
            "8.4": 4 * 8192 * 128 * 2 / 1e6,
            "2.5": 4 * 8192 * 128 * 2 / READ * 1e6,
        },
    ),
    Given("An H100 has 132 **multiprocessors**", "NVIDIA's data sheet"),
    Given("| registers, in 32 bits |", "as the kernel keeps them"),
    Derived("with 128 × 128 in 32 bits, 64 KiB of the 256 KiB that a multiprocessor has", {"64": 128 * 128 * 4 / 1024}),
    Derived("with 128 positions, H = 128 and 16 bits 64 KiB a pair, of 228 KiB", {"64": 2 * 128 * 128 * 2 / 1024}),
    Given("On one H200, which has an H100's arithmetic and 4.8 TB/s, they were measured (in 16 bits;", H200),
    Derived(
        "T = 8,192, 32 query heads: the products of 32 heads are 550·10⁹ operations, 556 µs at full speed. Measured: "
        "1,245 µs, 0.45 of that speed, and 0.72 of the speed of torch's kernel.",
        {
            "550·10⁹": 32 * 4 * 8192**2 * 128 / 2,
            "556": 32 * 4 * 8192**2 * 128 / 2 / PEAK * 1e6,
            "0.45": 556 / 1245,
        },
    ),
    Given("read their weights at about 0.8 of the speed of a plain copy", H200),
    Given("one row, 4,096 × 4,096. With 8 bits they are 1.2 to 1.3 times as fast as with 16-bit floats", H200),
    Derived("where the bytes would allow 2 times.", {"2": 16 / 8}),
    Given("With 4 bits they are only as fast as 16-bit floats", H200),
    Derived("where the bytes would allow 3.6.", {"3.6": 16 / (4 + 16 / 32)}, within=0.06),
    # Depth: one query, many keys.
    Derived(
        "The 8B model at batch 1 has 8 key/value heads. With a text of 131,072 tokens these are 8 programs on a chip "
        "with "
        "132 multiprocessors, each program walking alone through 131,072 keys, while 124 multiprocessors stand idle. "
        "Cut "
        "the keys into 16 ranges, and 128 programs work.",
        {"124": 132 - 8, "128": 8 * 16},
    ),
    Given("against torch, 60 random cases;", TESTS),
    Derived(
        "with the 8B model's heads, 8,192 cached tokens and 16 bits, so 8,192 · 2 · 8 · 128 · 2 B = 33.6 MB to read, "
        "7 µs "
        "at 4.8 TB/s, for one text:",
        {"33.6": 8192 * 2 * 8 * 128 * 2 / 1e6, "7": 8192 * 2 * 8 * 128 * 2 / 4.8e12 * 1e6},
    ),
    *(
        Derived(
            f"| {texts} | {ranges} | {programs} | {us} | {speed} |",
            {str(programs): 8 * texts * ranges, speed: texts * 8192 * 4096 / (us * 1e-6) / 1e12},
            within=0.012,
        )
        for texts, ranges, programs, us, speed in (
            (1, 1, 8, 287, "0.12"),
            (1, 16, 128, 31, "1.08"),
            (1, 64, 512, 26, "1.30"),
            (16, 1, 128, 305, "1.76"),
        )
    ),
    Derived(
        "| 16 | 4 | 512 | 144 | 3.74 |", {"512": 8 * 16 * 4, "3.74": 16 * 8192 * 4096 / 144e-6 / 1e12}, within=0.02
    ),
    Derived("16 ranges are 9 times as fast as one.", {"9": 287 / 31}),
    Given("four ranges each read at 0.9 of the speed of a plain copy", H200),
    # Depth: the keys on several machines.
    Derived(
        "A text of 1,048,576 tokens of the 8B model has a cache of 137 GB",
        {"1,048,576": 2**20, "137": SPREAD * TOKEN / GB},
    ),
    Derived(
        "N · (H + 2) numbers of 4 bytes, 32 · 130 · 4 = 16,640 B a query",
        {"130": H + 2, "16,640": N * (H + 2) * 4},
    ),
    Given("| | 0 has met | 1 has met | 2 has met | 3 has met |", "the numbers of four processes"),
    Given("| at first | 0 | 1 | 2 | 3 |", "the numbers of four processes"),
    Given("| round 1: 0 with 1, 2 with 3 | 0 1 | 0 1 | 2 3 | 2 3 |", "the numbers of four processes"),
    Given("| round 2: 0 with 2, 1 with 3 | 0 1 2 3 | 0 1 2 3 | 0 1 2 3 | 0 1 2 3 |", "the numbers of four processes"),
    Derived(
        "rank 2 is 10, its partners are 11 and 00.",
        {"10": int(f"{2:b}"), "11": int(f"{2 ^ 1:b}"), "00": int(f"{2 ^ 2:b}")},
    ),
    Given("all four processes compute (0 + 1) + (2 + 3).", "the numbers of four processes"),
    Given("each of up to 13 processes counts", TESTS),
    Given("how many states are sent, up to 64 processes;", TESTS),
    Given("then distances 1, 2, 4, … below that power", "powers of two"),
    # Latent attention.
    Derived("GQA keeps 2 · K · H numbers a token and layer: with 8 heads of 128, 2,048.", {"2,048": 2 * 8 * 128}),
    Given("Think of an archive with 128 readers", "as many as DeepSeek's heads"),
    Given("C = 512 numbers.", NAMES),
    Given("in R = 64 more numbers", NAMES),
    Derived(
        "Together 512 + 64 = **576 numbers against 2,048**: 3.6 times less than GQA, at 128 heads 57 times less than "
        "MHA.",
        {"576": 512 + 64, "3.6": 2048 / 576, "57": 2 * 128 * 128 / 576},
    ),
    Given("One head with H = C = 2, no rotary part."),
    Given("The key matrix has the rows (1, 2) and (0, 1). The query is (1, 2), a latent vector is (3, 1)."),
    Derived(
        "The matrix times c is (1 · 3 + 2 · 1, 1) = (5, 1). Score (1, 2) · (5, 1) = 7.",
        {"5": 1 * 3 + 2 * 1, "7": 1 * 5 + 2 * 1},
    ),
    Derived(
        "times q is (1, 2 · 1 + 1 · 2) = (1, 4). The score is (1, 4) · (3, 1) = 7.",
        {"4": 2 * 1 + 1 * 2, "7": 1 * 3 + 4 * 1},
    ),
    Given("one row, (1, −1), and two latent vectors (3, 1) and (1, 1) have the weights ½ and ½."),
    Derived("the values are 2 and 0, their mean 1.", {"2": 3 - 1, "1": (2 + 0) / 2}),
    Derived(
        "the mean of the latent vectors is (2, 1), and the value matrix makes of it 2 − 1 = 1.",
        {"2": (3 + 1) / 2, "1": 2 - 1},
    ),
    Given("the query (0, 1) and the latent vector (4, 3) with the same key matrix."),
    Derived("the key is (4 + 6, 3) = (10, 3), the score 3.", {"6": 2 * 3, "10": 4 + 6, "3": 0 * 10 + 1 * 3}),
    Derived(
        "makes of (0, 1) its second row, (0, 1), and (0, 1) · (4, 3) = 3. Whoever forgot the transpose has (2, 1) and "
        "the "
        "score 11.",
        {"3": 0 * 4 + 1 * 3, "2": 1 * 0 + 2 * 1, "11": 2 * 4 + 1 * 3},
    ),
    Derived("all heads read the same 576 numbers.", {"576": LATENT}),
    Given("come from a latent vector of 1,536 of their own", NAMES),
    Derived(
        "have 128 · 1,536 + 128 · 512 = 262,144 numbers. Folded it is one of 512 · 1,536 = 786,432: three times as "
        "many",
        {"262,144": 128 * 1536 + 128 * 512, "786,432": 512 * 1536, "three": 786_432 / 262_144},
    ),
    Derived(
        "through H = 128 numbers, and that is the cheaper one as long as H is below 1,536 · 512/(1,536 + 512) = 384.",
        {"384": 1536 * 512 / (1536 + 512)},
    ),
    Derived(
        "with the model's width of 7,168: 128 · (512 + 7,168) = 983,040 numbers apart, 512 · 7,168 = 3,670,016 folded, "
        "3.7 times as many.",
        {"983,040": 128 * (512 + 7168), "3,670,016": 512 * 7168, "3.7": 512 * 7168 / (128 * (512 + 7168))},
    ),
    Given("With the sizes above and S = 2,048:", CHOSEN),
    Given("A decode step, a prompt of 1,000, and both sides", TESTS),
    Derived(
        "A position is 576 numbers, 1,152 B in 16 bits, and all 128 heads use it: 2 · 128 · (2 · 512 + 64) = 278,528 "
        "operations, **242 for each byte**.",
        {"1,152": 576 * 2, "278,528": 2 * 128 * (2 * 512 + 64), "242": 278_528 / 1152},
    ),
    Derived(
        "GQA with groups of 4 does 4 for each byte, MHA 1. An H100 wants 295 to be busy",
        {"4": (2 * H + 2 * H) * 4 / (4 * H), "295": PEAK / READ},
    ),
    Derived("this is where the 3.6 times come from.", {"3.6": 2048 / LATENT}),
    # Windows.
    Given("By hand, w = 4. Positions 0 to 3 fill the ring. Position 4 overwrites 0, and position 5 overwrites 1:"),
    *(
        Given(row, "position mod 4")
        for row in (
            "| after position | place 0 | place 1 | place 2 | place 3 | the query sees |",
            "| 3 | 0 | 1 | 2 | 3 | 0 1 2 3 |",
            "| 4 | **4** | 1 | 2 | 3 | 1 2 3 4 |",
            "| 5 | 4 | **5** | 2 | 3 | 2 3 4 5 |",
        )
    ),
    Given("Say 6 positions are read and 3 come at once, 6, 7 and 8. They overwrite 2, 3 and 4"),
    Given("but query 6 still has to see 3, 4 and 5."),
    Given("and then writes: 3 4 5 and behind them 6 7 8."),
    Derived(
        "After it the ring holds 8 5 6 7.",
        {str(p): next(q for q in range(5, 9) if q % 4 == place) for place, p in enumerate((8, 5, 6, 7))},
    ),
    Given(
        "place 0 holds position 4, place 1 holds 5, the newest, place 2 holds 2 and place 3 holds 3. Right: three "
        "queries, "
        "6, 7 and 8, over the keys 3 to 8.",
        "the example",
    ),
    Derived(
        "Query 6 sees 3 to 6, query 7 sees 4 to 7, query 8 sees 5 to 8.",
        {"3": 6 - 4 + 1, "4": 7 - 4 + 1, "5": 8 - 4 + 1},
    ),
    Given("over the whole text, 40 random cases.", TESTS),
    Given("It is the cache of Mistral 7B and of most layers of Gemma 3.", NAMES),
    Given("In layer 2 position p + w − 1", "a layer's number"),
    Given("The target has 12 layers. With w = 8 in each", "the shipped model; chosen"),
    Given("below the rounding of 64 bits", "float64"),
    Given("The texts have 1,024 tokens", "what the cell takes"),
    Given("**bytes of cache** at 1,024 tokens", "what the cell takes"),
    Derived(
        "With a window of 16 in each of 12 layers, the reach is 12 · 15 = 180 positions, five times the problem.",
        {"15": 16 - 1, "180": 12 * (16 - 1), "five": 180 / 36},
    ),
    Given("A problem with its answer has about 32 tokens, and 36 at most.", "counted in the shipped problems"),
    Given("(97 without a window.)", "measured, the same on every machine"),
    Derived("With a window of 16 everything lies within reach (180 positions)", {"180": 12 * 15}),
    Given(
        "Problems are at most 36 tokens long, and this model was trained mostly on stretches of 256.",
        "counted in the shipped problems; training/README",
    ),
    Given("SmolLM2, 135·10⁶ parameters", NAMES),
    Given("with a window of 64, what happens to a passage of 128 tokens", "what the cell tries"),
    # More ways.
    Given(r"$$2 \cdot L' \cdot K \cdot H \quad \text{numbers}$$", "a formula"),
    Derived(
        "With pairs, 16 of the 8B's 32 layers: half, 65,536 B a token in 16 bits.",
        {"16": 32 / 2, "65,536": 2 * 16 * K * H * 2},
    ),
    Derived(
        "With 32 heads of 128 × 128 in 32 bits that is 2,097,152 B, as much as the 8B's GQA cache of 512 tokens in one "
        "layer, 4,096 B each.",
        {"2,097,152": STATE, "512": STATE / LAYER, "4,096": LAYER},
    ),
    Given("about as many different keys as it has rows, 128", "a matrix of 128 rows has at most that rank"),
    Given("in Qwen3-Next and Kimi Linear, seven to one in MiniMax-01.", NAMES),
    Derived(
        "With 24 of the 8B's 32 layers linear a text of 131,072 tokens takes 8 · 131,072 · 4,096 B + 24 · 2,097,152 B "
        "= "
        "4.35 GB, 4.0 times less than 17.18.",
        {
            "24": 32 * 3 / 4,
            "4.35": (8 * FAR * LAYER + 24 * STATE) / GB,
            "4.0": FAR * TOKEN / (8 * FAR * LAYER + 24 * STATE),
            "17.18": FAR * TOKEN / GB,
        },
    ),
    Given("keep copies of it (weeks 4 and 7)", "weeks of the course"),
    Given("a hybrid of 32 layers at several batches and bits", TESTS),
    Given("Gemma 2 has 1 in 2 layers global, Gemma 3 1 in 6", NAMES),
    Given("| 8 bits | bits |", "a lever's name"),
    Given("| 4 bits | bits |", "a lever's name"),
    Given("when 8 bits are not enough", "a lever's name"),
    Given("| share prefixes, pages (weeks 6, 7) |", "weeks of the course"),
    Given("**Sums kept in 16 bits.**", TESTS),
    Derived("64 numbers become 64 · N.", {"64": R}),
    # Back of the envelope.
    Given("**1.** A prompt of 32,768 tokens, 32 heads, 16 bits, plain attention."),
    Given("Does it fit on 80 GB? And in tiles of 128, for one head?"),
    Derived(
        "32,768² · 2 B = 2.147 GB a head, 68.7 GB for 32 heads. Beside 16 GB of weights it does not fit",
        {"2.147": 32_768**2 * 2 / GB, "68.7": 32 * 32_768**2 * 2 / GB, "16": 8.03e9 * 2 / GB},
    ),
    Derived("A tile has 128² scores; in 32 bits that is 64 KiB, whatever the prompt.", {"64": 128**2 * 4 / 1024}),
    Given(
        "**2.** DeepSeek-V3 has 61 layers with C = 512 and R = 64. Cache of 131,072 tokens in 16 bits? With 8 "
        "key/value "
        "heads of 128 instead? With its 128 heads as MHA?",
        NAMES,
    ),
    Derived(
        "61 · 576 · 2 B = 70,272 B a token: 9.21 GB. GQA: 61 · 2,048 · 2 B = 249,856 B: 32.7 GB. MHA: 61 · 32,768 · 2 "
        "B = "
        "3,997,696 B: 524 GB, for one text.",
        {
            "70,272": 61 * 576 * 2,
            "9.21": 61 * 576 * 2 * FAR / GB,
            "249,856": 61 * 2048 * 2,
            "32.7": 61 * 2048 * 2 * FAR / GB,
            "32,768": 2 * 128 * 128,
            "3,997,696": 61 * 2 * 128 * 128 * 2,
            "524": 61 * 2 * 128 * 128 * 2 * FAR / GB,
        },
    ),
    Derived(
        "**3.** The 8B model with a window of 1,024 and every sixth layer global (5 of 32). Cache at 131,072 tokens?",
        {"5": 32 // 6},
    ),
    Derived(
        "5 · 131,072 + 27 · 1,024 = 683,008 positions of 4,096 B: 2.80 GB against 17.18, 6.1 times. In the limit only "
        "the "
        "global layers count: 32/5 = 6.4 times. (At 8,192 tokens it is 3.8 times.)",
        {
            "27": 32 - 5,
            "683,008": 5 * FAR + 27 * 1024,
            "2.80": (5 * FAR + 27 * 1024) * LAYER / GB,
            "17.18": FAR * TOKEN / GB,
            "6.1": FAR * L / (5 * FAR + 27 * 1024),
            "6.4": 32 / 5,
            "3.8": 8192 * L / (5 * 8192 + 27 * 1024),
        },
    ),
    Given("**4.** A text of 1,048,576 tokens of the 8B, its keys on four H100s, each with all 16 GB of weights."),
    Given("how long does that take at 450 GB/s and 5 µs a message?", "NVLink's data sheet, one way; assumed"),
    Derived(
        "The cache is 1,048,576 · 131,072 B = 137.4 GB, 34.4 GB on each: 50.4 with the weights. Reading: 50.4/3.35 = "
        "15 ms. "
        "A step sends log₂ 4 = 2 states a layer, 64 in all, of 16,640 B: 1.06 MB, 2.4 µs at full speed, and 64 · 5 = "
        "320 µs "
        "for being 64 messages.",
        {
            "131,072": TOKEN,
            "137.4": SPREAD * TOKEN / GB,
            "34.4": SPREAD * TOKEN / GB / 4,
            "50.4": SPREAD * TOKEN / GB / 4 + 16.06,
            "15": (SPREAD * TOKEN / 4 + 16.06e9) / READ * 1e3,
            "2": math.log2(4),
            "64": 2 * L,
            "1.06": 2 * L * 16_640 / 1e6,
            "2.4": 2 * L * 16_640 / 450e9 * 1e6,
            "320": 2 * L * 5,
        },
    ),
    Derived(
        "**5.** A conversation of 131,072 tokens with the 8B (17.18 GB of cache) goes idle.",
        {"17.18": FAR * TOKEN / GB},
    ),
    Given(
        "Keep its cache in CPU memory and fetch it back at 64 GB/s, or drop it and prefill again at 989·10¹² "
        "operations a second?",
        "PCIe 5, 16 lanes",
    ),
    Derived(
        "17.18/64 = 0.27 s. Prefill: 2 · 7.5·10⁹ · 131,072 = 2.0·10¹⁵ for the weights, and for attention 32 layers · "
        "2 · "
        "131,072² · 4,096 = 4.5·10¹⁵: 6.5 s at full speed. Off-loading is 24 times faster. At 1,024 tokens it is 2.1 "
        "ms "
        "against 16 ms, which is still in its favour.",
        {
            "0.27": FAR * TOKEN / 64e9,
            "2.0·10¹⁵": 2 * 7.5e9 * FAR,
            "4,096": N * H,
            "4.5·10¹⁵": L * 2 * FAR**2 * N * H,
            "6.5": (2 * 7.5e9 * FAR + L * 2 * FAR**2 * N * H) / PEAK,
            "24": (2 * 7.5e9 * FAR + L * 2 * FAR**2 * N * H) / PEAK / (FAR * TOKEN / 64e9),
            "2.1": 1024 * TOKEN / 64e9 * 1e3,
            "16": (2 * 7.5e9 * 1024 + L * 2 * 1024**2 * N * H) / PEAK * 1e3,
        },
    ),
    Derived(
        "in a decode step, 16 bits: MHA, GQA with N = 32 and K = 8, MQA with 32 query heads, MLA with 128 heads as "
        "above. An H100 does 295 "
        "operations in the time of a byte.",
        {"295": PEAK / READ},
    ),
    Derived(
        "A query head does 2 · H operations for a key and 2 · H for a value; both are 4 · H bytes for the group: G "
        "operations a byte. So 1, 4 and 32: all bound by memory, with idle arithmetic. MLA: 2 · 128 · 1,088 / 1,152 = "
        "242",
        {"4": 32 / 8, "1,088": 2 * 512 + 64, "1,152": 2 * 576, "242": 2 * 128 * 1088 / 1152},
    ),
    Given("Two layers, window 4: how far back can position 100 know anything?"),
    Derived("more than about 158 after 2,048 positions", {"158": equal_ways(2048)}),
    Derived("Back to 94, 2 · 3 = 6 positions.", {"3": 4 - 1, "6": 2 * 3, "94": 100 - 6}),
    # In an interview.
    Derived(
        '*"We serve a 70B model on eight GPUs of 80 GB. With contexts of 131,072 tokens memory is full at ten users.',
        {"ten": users(141, 16)},
    ),
    Given("not the cache (20 seconds).", "of three minutes"),
    Derived(
        "80 layers · 8 heads · 128 · 2 · 2 B = 327,680 B a token, 43 GB for 131,072. Of 640 GB a tenth stays free; "
        "576 less "
        "141 of weights leaves 435: ten. The cache is the limit (30 seconds).",
        {
            "327,680": SEVENTY,
            "43": SEVENTY * FAR / GB,
            "640": 8 * 80,
            "576": ROOM / GB,
            "141": 70.6 * 2,
            "435": ROOM / GB - 141.2,
            "ten": users(141.2, 16),
        },
    ),
    Given("The 95th percentile of lengths, not the maximum; with pages nobody reserves 131,072.", "the length above"),
    Given("come back within a second (30 seconds).", "of three minutes"),
    Derived(
        "an FP8 cache gives 20 users; with 8-bit weights, which free 70 GB, 23. 4 bits in the cache would then give "
        "about "
        "45, but look at long recall first (40 seconds).",
        {"20": users(141.2, 8), "70": 70.6, "23": users(70.6, 8), "45": users(70.6, 4.125)},
        within=0.61,
    ),
    Derived(
        "a hybrid with a window in five of six layers gives about 6 times, MLA 3.6 (30 seconds).",
        {"6": FAR * 6 / (FAR + 5 * 1024), "3.6": 2048 / 576},
        within=0.25,
    ),
    Given("the caches that now fit have to be read, too (30 seconds).", "of three minutes"),
    # Written questions.
    Given("**Mark scheme (8).** The invariant stated for all three, 2.", "points"),
    Given("turn e^(s − m) into e^(s − m'), 2.", "points"),
    Given("Parts (d) and (e), ½ each. An example with numbers only: at most 2.", "points"),
    Given("For MHA with N · H = D, and for GQA with groups of 4:", "the question"),
    Derived(
        "MHA keeps 2 · D numbers now, so D is half. GQA with groups of 4 keeps 2 · D/4 = D/2, so D is twice as many.",
        {"half": 1 / 2, "2": 4 / 2},
    ),
    Derived(
        "with C = 512 and D = 4,096 both, the numbers kept and the multiplications, are 8 times fewer, at the price "
        "that "
        "what 512 numbers cannot carry",
        {"8": 4096 / 512},
    ),
    Given("absorbed T(2C + R)", "a formula"),
    Given("T(2C − H − U), so from", "a formula"),
    Given("U)/(2C − H − U);", "a formula"),
    Derived(
        "with 512, 128, 128: 131,072/768 = 170.7. (If 2C ≤ H + U, never.)",
        {"131,072": UP, "768": 2 * C - H - U, "170.7": equal_ways(1e12)},
    ),
    Given("**Mark scheme (7).**", "points"),
    *(
        Given(f"{who} {year},", "a year")
        for who, year in (
            ("Milakov and Gimelshein", 2018),
            ("Dao et al.", 2022),
            ("Dao", 2023),
            ("Dao et al.", 2023),
            ("Thakur et al.", 2005),
            ("Liu et al.", 2023),
            ("Shazeer", 2019),
            ("Ainslie et al.", 2023),
            ("DeepSeek-AI", 2024),
            ("Child et al.", 2019),
            ("Beltagy et al.", 2020),
            ("Jiang et al.", 2023),
            ("Gemma Team", 2024),
            ("*Gemma 2*, [arXiv:2408.00118](https://arxiv.org/abs/2408.00118);", 2025),
            ("Brandon et al.", 2024),
            ("Sun et al.", 2024),
            ("Katharopoulos et al.", 2020),
            ("Yang et al.", 2024),
            ("MiniMax", 2025),
            ("Kimi Team", 2025),
            ("Xiao et al.", 2023),
        )
    ),
    Given("**6.** Operations for each byte", "the number of a problem"),
    Given("*FlashAttention-2*", NAMES),
    Given("*Mistral 7B*", NAMES),
    Given("*Gemma 2*", NAMES),
    Given("*Gemma 3 technical report*", NAMES),
    Given("*MiniMax-01*", NAMES),
]
