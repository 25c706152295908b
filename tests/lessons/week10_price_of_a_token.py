"""Week 10's figures, each derived anew by plain arithmetic: bytes over bandwidth, operations over peak, dollars."""

import json
import math
from statistics import fmean

from course.paths import ROOT, read

from .literals import Derived, Given

CHOSEN = "chosen for the example"
TESTS = "what the tests try"
MINUTES = "of three minutes"
POINTS = "points"
READ, PEAK, DOLLARS = 3.35e12, 989e12, 3.0  # an H100: bytes and operations a second, dollars an hour
N, ALL, WEIGHTS = 7.5e9, 8.03e9, 16.06e9  # the 8B model: multiplied, all, bytes
TOKEN = 2 * 32 * 8 * 128 * 2
CACHE = 8192 * TOKEN
SHORT = 1024 * TOKEN
GB = 1e9


def step(B, weights=WEIGHTS, cache=CACHE, n=N, read=READ, peak=PEAK):
    """Milliseconds of a decode step."""
    return 1e3 * (B * cache / read + max(weights / read, 2 * n * B / peak))


def rate(B, **other):
    """Tokens a second of the whole batch."""
    return 1e3 * B / step(B, **other)


def price(B, dollars=DOLLARS, **other):
    """Dollars for a million tokens."""
    return dollars / 3600 * 1e6 / rate(B, **other)


def fit(memory=80 * GB, weights=WEIGHTS, cache=CACHE, kept=0.0):
    """Sequences that fit."""
    return math.floor((memory * (1 - kept) - weights) / cache)


WEIGHTS_MS, CACHE_MS, OWN_MS = 1e3 * WEIGHTS / READ, 1e3 * CACHE / READ, 1e3 * 2 * N / PEAK
FLOOR_MS = CACHE_MS + OWN_MS
OWN_CRITICAL = WEIGHTS * PEAK / (2 * N * READ)
H200_CRITICAL = WEIGHTS * PEAK / (2 * N * 4.8e12)
MS, INT8 = 1e-3, {"weights": WEIGHTS / 2, "cache": CACHE / 2}
FULL, HEADROOM = fit(), fit(kept=0.1)
# A prompt of 8,000 tokens: its arithmetic, and 4 · L · N · H operations for each of (T + 1) / 2 positions seen.
PROMPT_MS = 8000 * OWN_MS
ATTENTION = 4 * 32 * 32 * 128 * 8001 / 2 / (2 * N)
TAU = 0.1383


def goodput(load, goal=1.0):
    return load / TAU * (1 - math.exp(-(1 - load) / TAU * goal))


BEST = max((i / 1000 for i in range(1, 1000)), key=goodput)
# The 13B model of the problems: all counted as multiplied.
THIRTEEN = {"weights": 26e9, "cache": 4096 * 2 * 40 * 8 * 128 * 2, "n": 13e9}
C13 = THIRTEEN["cache"]
DAY, NIGHT = 10 * 3600 * rate(32), 14 * 3600 * rate(2)
# The shipped model and trace: 12 layers, 2 key/value heads of 32 floats; (prompt, answer) tokens of each request.
KV_SHIPPED = 2 * 12 * 2 * 32 * 4
_LINES = map(json.loads, read(ROOT / "nanolm/shipped/trace.jsonl").splitlines())
TRACE = [(line["n_prompt_tokens"], line["n_output_tokens"]) for line in _LINES]
# Of the capstone's model answer: milliseconds of a pass for B requests.
ONE, SIXTEEN, PROMPT = 3.82, 6.63, 0.104


def capstone_pass(B):
    return ONE + (B - 1) * (SIXTEEN - ONE) / 15


TABLE = [
    Derived(
        "Alone on it you pay 4.26 dollars for a million tokens of an 8B model; in a batch with others the same tokens "
        "cost "
        "35 cents",
        {"4.26": price(1), "35": 100 * price(48)},
    ),
    Given("In the picture: an 8B model on an H100, each user with 8,192 tokens of context.", CHOSEN),
    Derived(
        "Bars of weights and caches for 1 to 59 users. Left, the time of a step: the weights' part stays at 4.79 ms, "
        "the "
        "caches' part grows with the users to 18.9 ms. Right, the time a token: the weights' part shrinks from 4.79 "
        "ms to "
        "0.08, the caches' part stays at 0.32 ms for everyone.",
        {"59": FULL, "4.79": WEIGHTS_MS, "18.9": FULL * CACHE_MS, "0.08": WEIGHTS_MS / FULL, "0.32": CACHE_MS},
    ),
    Derived("A token costs **4.79 / B + 0.32 ms**", {"4.79": WEIGHTS_MS, "0.32": CACHE_MS}),
    Given("| γ | tokens drafted for a pass (week 4) |", "a week of the course"),
    Derived("GB is 10⁹ bytes.", {"10⁹": GB}),
    Given("The 95th percentile, p95, of a wait is what 95 % of the waits stay within.", "a definition"),
    Derived("Alone a token costs 4.26 dollars a million.", {"4.26": price(1)}),
    # By hand.
    Given("Llama-3-8B's shape in 16 bits on an H100.", CHOSEN),
    Derived(
        "16.06 GB of weights, 7.5·10⁹ of the 8.03·10⁹ parameters multiplied (of the embedding a row is looked up). A "
        "cache "
        "of 8,192 tokens: 2 · 32 layers · 8 heads · 128 numbers · 2 bytes = 131,072 B a token, 1.074 GB.",
        {
            "16.06": 8.03 * 2,
            "7.5·10⁹": 8.03e9 - 128_256 * 4096,
            "131,072": 2 * 32 * 8 * 128 * 2,
            "1.074": 8192 * 131_072 / GB,
        },
    ),
    Derived("16.06·10⁹ / 3.35·10¹² = 4.79 ms.", {"4.79": 16.06e9 / 3.35e12 / MS}),
    Derived("1.074·10⁹ / 3.35·10¹² = 0.32 ms.", {"0.32": 1.074e9 / 3.35e12 / MS}),
    Derived("2 · 7.5·10⁹ / 989·10¹² = 0.015 ms.", {"0.015": 2 * 7.5e9 / 989e12 / MS}),
    Derived(
        "Now a batch of 32. Weights 4.79 ms; their arithmetic, 32 · 0.015 = 0.49 ms, is done meanwhile and hides. The "
        "caches "
        "add 32 · 0.3205 = 10.26 ms. The step takes **15.05 ms**. It writes 32 tokens: 32 / 15.05 ms = **2,126 tokens "
        "a "
        "second**.",
        {
            "4.79": WEIGHTS_MS,
            "0.49": 32 * OWN_MS,
            "0.3205": CACHE_MS,
            "10.26": 32 * CACHE_MS,
            "15.05": step(32),
            "2,126": 32 / 15.051e-3,
        },
    ),
    Derived(
        "Three dollars an hour are 3 / 3,600 dollars a second, so a million tokens cost 3 / 3,600 / 2,126 · 10⁶ = "
        "**0.39 "
        "dollars**.",
        {"0.39": 3 / 3600 / 2126 * 1e6},
    ),
    *(
        Derived(
            f"| {B} | {ms} ms | {each} | {together} | {dollars} |",
            {ms: step(B), each: 1e3 / step(B), together: rate(B), dollars: price(B)},
        )
        for B, ms, each, together, dollars in (
            (1, "5.115", "195.5", "195.5", "4.26"),
            (8, "7.36", "135.9", "1,087", "0.77"),
            (16, "9.92", "100.8", "1,613", "0.52"),
            (32, "15.05", "66.4", "2,126", "0.39"),
            (48, "20.18", "49.6", "2,379", "0.35"),
        )
    ),
    Derived("From 1 user to 8 the price falls to less than a fifth.", {"8": 8 * float(price(8) < price(1) / 5)}),
    Derived("From 32 to 48, half as many again, it falls by a tenth.", {"48": 32 * 1.5}),
    Derived(
        "How many sequences fit into 80 GB, where 59 fitted before ((80 − 16.06) / 1.074 = 59.5)?",
        {"59": FULL, "59.5": (80 - 16.06) / 1.074},
    ),
    Derived(
        "(8.03 + 0.537) GB / 3.35 TB/s = 2.56 ms. (80 − 8.03) / 0.537 = 134.05, so 134: more than twice 59",
        {"0.537": CACHE / 2 / GB, "2.56": step(1, **INT8), "134.05": (80e9 - 8.03e9) / (CACHE / 2), "134": fit(**INT8)},
    ),
    Derived(
        "A step does not read the whole embedding, 1.05 GB of the 16.06; week 1 left it out and came to 4.48 ms. Here "
        "all "
        "bytes count, as the usual estimates do, and the difference is 7 %.",
        {"1.05": 128_256 * 4096 * 2 / GB, "4.48": 1e3 * 2 * N / READ, "7": 100 * (WEIGHTS / (2 * N) - 1)},
    ),
    Given("The steps of a good engine take 1.2 to 2 times as long.", "experience; week 1"),
    Given(r"\max\!\left( \frac{w}{W},\; \frac{2\, n\, B}{P} \right)", "a formula"),
    Derived(r"\frac{\text{dollars an hour}}{3600} \cdot \frac{t(B)}{B} \cdot 10^6", {"3600": 60 * 60}),
    Derived("1,024 tokens of context up to 476 users;", {"476": fit(cache=SHORT)}),
    Given("never more expensive a token, for 50 random models;", TESTS),
    Derived("promises 32 users 5 ms.", {"5": CACHE_MS + WEIGHTS_MS}),
    Derived(
        "A tenth takes 26 users, not 10, and beyond about 15 times cheaper nobody gets.",
        {"26": next(B for B in range(1, 99) if price(B) <= price(1) / 10), "15": price(1) / price(10**6)},
    ),
    # The floor.
    Derived(
        "The weights' 4.79 ms are divided by more and more, and vanish. What cannot be divided stays: each token "
        "reads its "
        "own cache, 0.3205 ms, and multiplies its own position, 0.0152 ms.",
        {"4.79": WEIGHTS_MS, "0.3205": CACHE_MS, "0.0152": OWN_MS},
    ),
    Derived("Together 0.3357 ms of the chip for each token:", {"0.3357": CACHE_MS + OWN_MS}),
    Derived(
        "1 / 0.3357 ms = **2,979 tokens a second**, from a chip of 3 dollars an hour at least **0.28 dollars** a "
        "million.",
        {"2,979": 1e3 / FLOOR_MS, "0.28": 3 / 3600 * FLOOR_MS * 1e3},
    ),
    Derived(
        "1 / 0.3205 ms = **3,120 tokens a second** and **0.27 dollars**.",
        {"3,120": 1e3 / CACHE_MS, "0.27": 3 / 3600 * CACHE_MS * 1e3},
    ),
    Derived("The two differ by the arithmetic, 5 %.", {"5": 100 * OWN_MS / CACHE_MS}),
    Derived(
        "because 59 such caches fill the memory. There the price is 0.33 dollars, and four fifths of that are the "
        "caches.",
        {"59": FULL, "0.33": price(FULL), "four": 5 * FULL * CACHE_MS / step(FULL)},
    ),
    Derived("16.06 / 1.074 = 14.96, so **from 15 on**.", {"14.96": WEIGHTS / CACHE, "15": math.ceil(WEIGHTS / CACHE)}),
    Derived(
        "Of a weight in 16 bits 2 bytes are read, 2 · B operations done: 2 / W = 2 B / P, so B = P / W = 989 / 3.35 = "
        "295.2, "
        "**295**.",
        {"295.2": PEAK / READ, "295": math.floor(PEAK / READ)},
    ),
    Derived("for speculation (week 4): B · (γ + 1) up to 295.", {"295": math.floor(PEAK / READ)}),
    Derived(
        "w / W = 2 n B / P at B = w P / (2 n W) = 316.1. So in *its* estimates arithmetic is the longer part from "
        "**317** "
        "users on. (Both move with the peak: for 10¹⁵ operations a second, a round number that is often used, the "
        "chip's "
        "is 298.)",
        {"316.1": OWN_CRITICAL, "317": math.ceil(OWN_CRITICAL), "298": math.floor(1e15 / READ)},
    ),
    Derived("15 for the 8B, 39 for a 13B,", {"15": math.ceil(WEIGHTS / CACHE), "39": math.ceil(26e9 / C13)}),
    Derived(
        "295 for an H100, 147 with weights of 8 bits, 298 for a chip of 10¹⁵ operations a second,",
        {
            "295": math.floor(PEAK / READ),
            "147": math.floor(PEAK / READ / 2),
            "298": math.floor(1e15 / READ),
        },
    ),
    Given("An operation count has a factor 2,", "a multiplication and an addition"),
    Given("weight_bits / 8 bytes to read, 2 · B operations to do.", "a formula"),
    Derived("Only with short contexts does a batch pass 316.", {"316": math.floor(OWN_CRITICAL)}),
    Given("Weights of 8 bits whose arithmetic stays 16-bit", CHOSEN),
    # The curve.
    Derived(
        "16 for a goal of 10 ms, a goal that not even one sequence meets",
        {"16": max(B for B in range(1, 99) if step(B) <= 10)},
    ),
    Given("Arithmetic alone takes 2 n B / P, so no B above goal · P / (2 n) can meet the goal.", "a formula"),
    Derived("say a goal of 20 ms, 50 tokens a second.", {"50": 1 / 20e-3}),
    Given("say 10 ms.", CHOSEN),
    Derived(
        "Price against time per token for batches of 1 to 59, the price on a logarithmic scale. It falls steeply from "
        "4.26 "
        "dollars at 5.1 ms to 0.77 at 7.4 ms, then flattens towards a dashed floor at 0.28. Squares mark an agent at "
        "10 ms, "
        "16 users and 0.52 dollars, and a chat at 20 ms, 47 users and 0.35 dollars. The curve ends at 59 users",
        {
            "59": FULL,
            "4.26": price(1),
            "5.1": step(1),
            "0.77": price(8),
            "7.4": step(8),
            "0.28": price(10**6),
            "0.52": price(16),
            "47": max(B for B in range(1, 99) if step(B) <= 20),
            "0.35": price(47),
        },
    ),
    Derived(
        "from B = 1 to 8 the wait grows by 44 % and the price falls by 82 %.",
        {"44": 100 * (step(8) / step(1) - 1), "82": 100 * (1 - price(8) / price(1))},
    ),
    Derived(
        "from 47 users to 59 everybody waits a fifth longer to save 5 %.",
        {"59": FULL, "5": 100 * (1 - price(59) / price(47))},
    ),
    Derived("Faster than 5.1 ms or cheaper than 0.28 dollars", {"5.1": step(1), "0.28": price(10**6)}),
    Given("with 2,048 tokens the curve runs far below that of 8,192, with 32,768 far above.", CHOSEN),
    Given("8-bit weights move the upper end left, an 8-bit cache moves the lower end down", CHOSEN),
    Given("and 4 bits of both do it twice and end flat.", CHOSEN),
    Derived(
        "4.9 ms with 2,048 tokens, 6.1 ms with 32,768. Where memory ends it costs in proportion, since there nearly "
        "everything is cache: 16 times the tokens, 16 times the price (0.086 and 1.38 dollars).",
        {
            "4.9": step(1, cache=CACHE / 4),
            "6.1": step(1, cache=CACHE * 4),
            "16": 32_768 / 2048,
            "0.086": price(fit(cache=CACHE / 4, kept=0.1), cache=CACHE / 4),
            "1.38": price(fit(cache=CACHE * 4, kept=0.1), cache=CACHE * 4),
        },
    ),
    Given("With 4 bits of everything the curve ends flat:", "the step of 252 users is longer for its arithmetic"),
    Derived(
        "Dollars an hour over TB/s: 0.98 for the A100, 0.90 for the H100, 0.83 for the H200.",
        {"0.98": 2 / 2.039, "0.90": 3 / 3.35, "0.83": 4 / 4.8},
    ),
    Derived(
        "At 16 users int8 weights and an int8 cache save nearly the same, since 16 is just above the crossover of 15.",
        {"15": math.ceil(WEIGHTS / CACHE)},
    ),
    Derived("not even 16 users would fit", {"16": 16 if fit(cache=4 * CACHE) < 16 else 0}),
    # The front.
    Given("that cannot be compared, 50 random sets", TESTS),
    Given("for at least 16, 8 and 4 bits", CHOSEN),
    Given("With 1,024 tokens of context batches get large", CHOSEN),
    Derived(
        "with 16 bits at 221 users for the H200 and at 316 for the H100.",
        {"221": math.ceil(H200_CRITICAL), "316": math.floor(OWN_CRITICAL)},
    ),
    Derived(
        "a goal of 10 ms is met on the front with 221 users, in 9.5 ms, though as many as 231 would stay within 10 ms "
        "on "
        "that chip",
        {
            "9.5": step(221, cache=SHORT, read=4.8e12),
            "231": max(B for B in range(1, 999) if step(B, cache=SHORT, read=4.8e12) <= 10),
        },
    ),
    Derived("At 0.83 · 2.04 = 1.70 dollars an hour", {"0.83": 4 / 4.8, "1.70": 4 / 4.8 * 2.039}),
    # Its floor for each dollar an hour against the H100's floor, which is met with fewer milliseconds.
    Derived(
        "Only at about 1.45 dollars does it reach a front, the one of 16 bits",
        {"1.45": 3 * (SHORT / READ + 2 * N / PEAK) / (SHORT / 2.039e12 + 2 * N / 312e12)},
    ),
    # What a request costs.
    Derived("Take 8,000 tokens in and 200 out, on the chat server above, 47 users at 19.86 ms:", {"19.86": step(47)}),
    Derived(
        "8,000 · 0.0152 ms = 121 ms of the chip, and attention adds about 14 %",
        {"121": PROMPT_MS, "14": 100 * ATTENTION},
    ),
    Derived(
        "200 tokens of 19.86 / 47 = 0.42 ms of the chip: 84 ms. The user waits 200 · 19.86 ms = 4 s for it.",
        {"0.42": step(47) / 47, "84": 200 * 0.4225, "4": 200 * 19.86e-3},
        within=0.51,
    ),
    Derived("0.42 / 0.0152 = 28 times a prompt token.", {"28": step(47) / 47 / OWN_MS}),
    Given("Price lists ask 4 to 5 times as much for it, say 2 and 10 dollars a million;", "price lists"),
    Derived(
        "0.016 + 0.002 dollars by that list. Of this chip it takes 0.22 s, 0.0002 dollars.",
        {
            "0.016": 8000 * 2 / 1e6,
            "0.002": 200 * 10 / 1e6,
            "0.22": (PROMPT_MS * (1 + ATTENTION) + 200 * step(47) / 47) / 1e3,
            "0.0002": 0.22 * 3 / 3600,
        },
    ),
    Given("Steps take 1.2 to 2 times the bound", "experience; week 1"),
    Derived("At 30 % load a token costs more than three times as much.", {"three": 1 / 0.3}, within=0.34),
    # A queue.
    Derived("2,000 hidden tokens at 20 ms are 40 seconds.", {"40": 2000 * 20e-3}),
    Derived(
        "of 8,000 tokens: τ = 121 ms · 1.14 = 138 ms each, so at most 1/τ = 7.2 requests a second.",
        {"121": PROMPT_MS, "1.14": 1 + ATTENTION, "138": PROMPT_MS * (1 + ATTENTION), "7.2": 1 / TAU},
    ),
    Given(r"\cdot \frac{1 + v^2}{2}$$", "a formula"),
    *(
        Derived(
            f"| {load} % | {each} | {alike} ms | {by_chance} ms |",
            {
                each: load / 100 / TAU,
                alike: 1e3 * TAU * load / (100 - load) / 2,
                by_chance: 1e3 * TAU * load / (100 - load),
            },
        )
        for load, each, alike, by_chance in (
            (50, "3.6", "69", "138"),
            (80, "5.8", "277", "553"),
            (90, "6.5", "622", "1,245"),
            (95, "6.9", "1,314", "2,628"),
        )
    ),
    Derived(
        "From 80 % to 95 % a fifth more requests wait nearly five times as long.",
        {"five": (0.95 / 0.05) / (0.8 / 0.2)},
    ),
    Given("That is the reason for the rule to stay below 80 %.", "a rule"),
    Derived(
        "longer than ln 20 = 3.0 means, at 80 % 2.07 s.",
        {"20": 1 / 0.05, "3.0": math.log(20), "2.07": math.log(20) * TAU / (1 - 0.8)},
    ),
    Derived("how large is it at a load of 95 %? (Throughput there is 6.9 requests a second.)", {"6.9": 0.95 / TAU}),
    Given("The cell plays a queue with 300,000 requests", "what the cell does"),
    Derived(
        "Throughput still grows at 95 %, goodput has fallen to less than half of its best.",
        {"95": 95 if goodput(0.95) < goodput(BEST) / 2 else 0},
    ),
    # The engine on this machine.
    Given("replays 16 requests of the recorded trace", "what the cell does"),
    Given("with 1, 2, 4, 8 and 16 **slots**", "what the cell does"),
    Given("Measured are 1 slot and 8,", "what the cell does"),
    Given("How many tokens a second with 16 slots", "what the cell does"),
    Derived(
        "if an hour of this machine costs 10 cents? (At 1 token a second it would be 27.78 dollars.)",
        {"27.78": 0.10 / 3600 * 1e6},
    ),
    Derived(
        "**With 16 slots** nobody waits for a place, and yet a pass writes 10.4 tokens and not 16. The longest answer "
        "has 30 "
        "tokens, so 30 passes are the least",
        {"10.4": 312 / 30},
    ),
    Given("If 1 and 8 themselves were disturbed", "what the cell does"),
    # The capstone's section, which is rewritten together with the capstone.
    Given("The load: all 64 requests of the trace, 16 a second.", "the recorded trace"),
    Given("80 % is a common limit.", "a rule"),
    *(
        Given(sentence, "what the tool does (course/capstone)")
        for sentence in (
            "for one request, for sixteen, and over a prompt of 128 tokens.",
            r"\frac{1}{t_{16} / 16 + t_p \cdot \text{prompt} / \text{answer}}",
            "where $t_{16}$ is the pass of sixteen",
            "**2. Your functions plan, and your parts write.**",
            "**3. Rounds.**",
            "**4. The verdict.**",
            "| next token, 95 % within | $3\\,t_{16}$ |",
            "| first token, 95 % within | $10\\,t_{16}$ |",
            "2 answers · TPOT goal",
            "The functions of weeks 1, 2, 6, 7, 9 and 10 compute a plan for this load. Then 16 requests are written",
            "The cache has room for 640 positions",
            "more preemptions (default 0.25)",
            "A quick form here: 8 requests, one round, half a minute to two.",
            "The cache again has 640 positions",
        )
    ),
    Derived(
        "average lengths of both, 68 and 38 tokens.",
        {"68": fmean(n_prompt for n_prompt, _ in TRACE), "38": fmean(n_answer for _, n_answer in TRACE)},
    ),
    Derived(
        "which is 3.93 MB of the shipped model's floats and not quite six average requests.",
        {"3.93": 640 * KV_SHIPPED / 1e6, "six": 640 / fmean(map(sum, TRACE))},
        within=0.01,
    ),
    # A head's key or value takes its 32 codes and a scale of 2 bytes: 34 bytes for 128.
    Derived("3.8 times the places", {"3.8": 32 * 4 / (32 + 2)}),
    Derived("here 29.5 MB.", {"29.5": 640 * 2 * 30 * 3 * 64 * 4 / 1e6}),
    Given("*Within 95 %* means that", "a definition"),
    Given("serves SmolLM2, 135·10⁶ parameters, with the same parts of yours", "its name"),
    Derived("It has 54 times the shipped model's parameters", {"54": 134.5e6 / 2.5e6}, within=1),
    Given("<code>--weight-bits 8</code>", "an option"),
    # Libraries, and a real model.
    Given("(Their weights lie on disk in 16 bits;", "the shipped files"),
    Given("says to compute in 32, as we do.)", "the cell"),
    Derived("SmolLM2 has 135·10⁶ parameters: 0.54 GB in 32 bits", {"0.54": 135e6 * 4 / GB}),
    Given(
        "one decode step with 1 and with 8 sequences, computes fixed and variable from them, predicts 16", "the cell"
    ),
    Given("Will the price fall by more from 1 to 8 than", "the cell"),
    # How one goes about it.
    Given("Take the 95th percentile of context lengths", "a rule"),
    Given("leave 10 to 20 % of the memory free as headroom. For TTFT, plan for a load below 80 %.", "a rule"),
    Given("prefix caching, 8-bit *arithmetic*,", "a lever's name"),
    Derived("worth a factor of four in cache;", {"four": 32 / 8}),
    Given("8-bit weights: half of the fixed cost", "a lever's name"),
    Given("a cache of 8 bits, when it is memory", "a lever's name"),
    Given("4-bit weights and speculation.", "a lever's name"),
    Derived("| a written token costs about 300 prompt tokens |", {"300": N * 2 / READ / (2 * N / PEAK)}, within=5),
    Derived(
        "| KV cache (2) | arithmetic | 248 positions down to 23 |",
        {"248": sum(8 + i for i in range(16)), "23": 8 + 15},
    ),
    Derived(
        "| grouped heads (2) | bytes of cache | a quarter | – | long contexts | 4 times the batch |", {"4": 32 / 8}
    ),
    Given("| sampling (3) |", "a week of the course"),
    Derived(
        "| speculation (4) | passes in sequence | 3.36 tokens a pass at α = 0.8, γ = 4 |",
        {"3.36": sum(0.8**i for i in range(5))},
    ),
    Derived(
        "2 to 3 times, small batch",
        {"3": sum(0.8**i for i in range(5)) / (1 + 4 * 0.05)},
        within=0.3,
    ),
    Derived(
        "| 8 and 4 bits (5) | bytes of weights | 2.56 ms instead of 5.115, with the cache | little | up to 2 and 4 "
        "times | "
        "134 users instead of 59 | a half, a quarter | 8 nearly free; measure 4 |",
        {"2.56": step(1, **INT8), "5.115": step(1), "2": 16 / 8, "4": 16 / 4, "134": fit(**INT8), "59": FULL},
    ),
    Derived(
        "| continuous batching, paging (6) | waiting, waste | 70 % to 87.5 % of the slots at work |",
        {"70": 100 * 7 / (5 * 2), "87.5": 100 * 7 / (4 * 2)},
    ),
    Derived(
        "| prompt caching (7) | arithmetic of prompts | 85 % of the prompt's price |",
        {"85": 100 * (1 - (0.039 + 99 * 0.0045) / 3.15)},
    ),
    Given("| 37 of 671·10⁹ active |", "DeepSeek-V3"),
    Given("| mixture of experts (8) |", "a week of the course"),
    Given("| tiled attention, latent cache, windows (9) |", "a week of the course"),
    Derived("| 3.6 times less than grouped heads |", {"3.6": 2 * 8 * 128 / (512 + 64)}),
    Derived(
        "| choosing the batch (10) | dollars | 4.26 down to 0.35 | a shorter queue | 5.1 up to 20 ms | 12 times |",
        {"4.26": price(1), "0.35": price(48), "5.1": step(1), "20": step(48), "12": price(1) / price(48)},
    ),
    Derived("and 32 users would see 5 ms.", {"5": CACHE_MS + WEIGHTS_MS}),
    Derived("**The factor 2 forgotten.** The critical batch comes out at 590.", {"590": math.floor(2 * PEAK / READ)}),
    Derived("17 users take 10.24 ms.", {"10.24": step(17)}),
    # Back of the envelope.
    Given(
        "13·10⁹ parameters in 16 bits (26 GB, count all as multiplied), 40 layers, 8 key/value heads of 128 numbers; "
        "an H100 "
        "(80 GB, 3.35 TB/s, 989 TFLOP/s, 3 dollars an hour); 4,096 tokens of context; 6 GB of memory kept free.",
        CHOSEN,
    ),
    Derived(
        "2 · 40 · 8 · 128 · 2 B = 163,840 B a token. 4,096 · 163,840 = 0.671 GB.",
        {"163,840": 2 * 40 * 8 * 128 * 2, "0.671": 4096 * 163_840 / GB},
    ),
    Derived(
        "(80 − 26 − 6) / 0.671 = 71.5, so 71.",
        {"71.5": (80 - 26 - 6) / 0.671088, "71": math.floor(48e9 / C13)},
    ),
    Derived(
        "26 GB / 3.35 TB/s = 7.76 ms: 129 tokens/s. (With 4,096 tokens of cache 7.96 ms, 126.)",
        {
            "7.76": 26 / 3.35,
            "129": 3350 / 26,
            "7.96": step(1, **THIRTEEN),
            "126": rate(1, **THIRTEEN),
        },
    ),
    Given("**4.** Batch 32: step, tokens a second, price?", CHOSEN),
    Derived(
        "7.76 + 32 · 0.2003 = 7.76 + 6.41 = 14.2 ms. 32 / 14.17 ms = 2,258 tokens/s. 3 / 3,600 / 2,258 · 10⁶ = 0.37 "
        "dollars. "
        "Arithmetic is 2 · 13·10⁹ · 32 / 989·10¹² = 0.84 ms",
        {
            "0.2003": 1e3 * C13 / READ,
            "6.41": 32 * 1e3 * C13 / READ,
            "14.2": step(32, **THIRTEEN),
            "14.17": step(32, **THIRTEEN),
            "2,258": rate(32, **THIRTEEN),
            "0.37": price(32, **THIRTEEN),
            "0.84": 2 * 13e9 * 32 / PEAK / MS,
        },
    ),
    Given("Which, at batch 32? From which batch on the other?", CHOSEN),
    Derived(
        "Weights: 3.88 + 6.41 = 10.3 ms. Cache: 7.76 + 3.20 = 11.0 ms. So the weights, by little. The cache outweighs "
        "the "
        "weights from 26 / 0.671 = 38.7, B = 39",
        {
            "3.88": 13 / 3.35,
            "10.3": step(32, **{**THIRTEEN, "weights": 13e9}),
            "3.20": 16 * 1e3 * C13 / READ,
            "11.0": step(32, **{**THIRTEEN, "cache": C13 / 2}),
            "38.7": 26e9 / C13,
            "39": math.ceil(26e9 / C13),
        },
        within=0.051,
    ),
    Derived(
        "**6.** All 71 slots full: TPOT and price? What do you tell somebody who wants a TPOT of 15 ms?",
        {"71": math.floor(48e9 / C13)},
    ),
    Derived(
        "7.76 + 71 · 0.2003 = 22.0 ms; 71 / 21.98 ms = 3,230 tokens/s; 0.26 dollars. 15 ms allows (15 − 7.76) / "
        "0.2003 = 36 "
        "users at 0.35 dollars",
        {
            "22.0": step(71, **THIRTEEN),
            "21.98": step(71, **THIRTEEN),
            "3,230": rate(71, **THIRTEEN),
            "0.26": price(71, **THIRTEEN),
            "36": max(B for B in range(1, 72) if step(B, **THIRTEEN) <= 15),
            "0.35": price(36, **THIRTEEN),
        },
    ),
    Given("8,192 tokens, B = 32, prompt-lookup with γ = 4 that gives 1.8 tokens a pass and costs nothing.", CHOSEN),
    Derived(
        "32 · 5 = 160 positions, below 295, so arithmetic still hides; a cache is read once a pass whatever γ is. The "
        "step "
        "stays 15.05 ms and writes 57.6 tokens: 8.4 ms and 0.22 dollars.",
        {
            "160": 32 * 5,
            "295": math.floor(PEAK / READ),
            "15.05": step(32),
            "57.6": 32 * 1.8,
            "8.4": step(32) / 1.8,
            "0.22": price(32) / 1.8,
        },
    ),
    Derived(
        "With 1,024 tokens and 200 users it would run 1,000 positions: (15.2 + 8.0) / 1.8 = 12.9 ms against 12.8 "
        "without.",
        {
            "1,000": 200 * 5,
            "15.2": 1000 * OWN_MS,
            "8.0": 200 * 1e3 * SHORT / READ,
            "12.9": (1000 * OWN_MS + 200e3 * SHORT / READ) / 1.8,
            "12.8": step(200, cache=SHORT),
        },
    ),
    Derived(
        "(160 − 16.06) / 1.074 = 134, more than 2 · 59, since the weights are held once. Step: (16.06 + 134 · 1.074) "
        "/ 6.7 = "
        "23.9 ms. 6 dollars an hour: 0.30 dollars a million, against 0.33. At B = 16 the step would be 4.96 ms and "
        "the price "
        "the same as on one, 0.52: twice as fast",
        {
            "134": fit(memory=160e9),
            "59": FULL,
            "6.7": 2 * 3.35,
            "23.9": step(134, read=2 * READ),
            "0.30": price(134, dollars=6, read=2 * READ),
            "0.33": price(FULL),
            "4.96": step(16, read=2 * READ),
            "0.52": price(16, dollars=6, read=2 * READ),
        },
    ),
    Given("**9.** Your service runs at B = 32 by day (10 hours) and nearly empty at night, B = 2.", CHOSEN),
    Derived(
        "Per second 2,126 by day; at night 2 / (4.79 + 0.64 ms) = 368. In 24 hours 10 · 3,600 · 2,126 + 14 · 3,600 · "
        "368 = "
        "7.65·10⁷ + 1.85·10⁷ = 9.5·10⁷ tokens for 72 dollars: 0.76 a million",
        {
            "2,126": rate(32),
            "0.64": 2 * CACHE_MS,
            "368": rate(2),
            "7.65·10⁷": DAY,
            "1.85·10⁷": NIGHT,
            "9.5·10⁷": DAY + NIGHT,
            "72": 24 * 3,
            "0.76": 72 / (DAY + NIGHT) * 1e6,
        },
    ),
    # Check yourself, in an interview.
    Given("Weights of 4 bits? More users?", CHOSEN),
    Given("At a load of 80 %, how many prefills long", CHOSEN),
    Derived("By N / K, 4 for 32 and 8 heads;", {"4": 32 / 8}),
    Given("layers that share, 8 and 4 bits, off-loading.", "a lever's name"),
    Given("The one with the better 95th percentile of TTFT and TPOT;", "a rule"),
    Derived("Two: 0.8 / 0.2 / 2.", {"Two": 0.8 / 0.2 / 2}),
    Derived(
        "With 8,192 tokens 59 caches fill the memory and arithmetic would allow 316; with 1,024 tokens 476 would fit",
        {"59": FULL, "316": math.floor(OWN_CRITICAL), "476": fit(cache=SHORT)},
    ),
    Given("an 8B model on one H100 for 4 dollars a million tokens. Finance wants it below 50 cents", CHOSEN),
    Derived(
        "3 dollars an hour over 200 tokens a second is 4.2 dollars a million: this is batch 1.",
        {"4.2": 3 / 3600 / 200 * 1e6},
    ),
    Given("one request at a time (20 seconds).", MINUTES),
    Given("Ask for the goal at the 95th percentile", "a rule"),
    Given("prompt and answer lengths (30 seconds).", MINUTES),
    Derived(
        "4.79 / B + 0.32 ms with 8,192 tokens. Continuous batching at 16 users: 10 ms, 100 tokens a second each, 52 "
        "cents. "
        "32: 15 ms, 39 cents. Nobody reads 66 tokens a second (40 seconds).",
        {
            "4.79": WEIGHTS_MS,
            "0.32": CACHE_MS,
            "10": step(16),
            "100": 1e3 / step(16),
            "52": 100 * price(16),
            "15": step(32),
            "39": 100 * price(32),
            "66": 1e3 / step(32),
        },
        within=0.81,
    ),
    Derived(
        "8-bit weights and cache, 16 users at 5 ms and 26 cents: as fast as today and a sixteenth of the price.",
        {"5": step(16, **INT8), "26": 100 * price(16, **INT8)},
    ),
    Given("mathematics and long recall first (30 seconds).", MINUTES),
    Given("queue (headroom, load below 80 %), prompt length, prefix cache, chunked prefill (30 seconds).", MINUTES),
    Given("bounds are 1.2 to 2 times better than steps;", "experience; week 1"),
    Given("with a recorded load before and after (30 seconds).", MINUTES),
    # Written questions.
    Given("Evaluate it for w = 16.06 GB, s = 1.074 GB.", "the model of this lesson"),
    Given("and evaluate it for 80 GB.", "an H100"),
    Given("t(B) = B s/W + max(w/W, 2nB/P). Per token, t/B = s/W + max(w/(W B), 2n/P).", "a formula"),
    Given("where w/W ≥ 2nB/P, it is s/W + w/(W B), falling as 1/B. Above it is s/W + 2n/P, constant.", "a formula"),
    Given("The limit is s/W + 2n/P, reached at the critical batch w P/(2 n W).", "a formula"),
    Given("Floor = d/3600 · (s/W + 2n/P) · 10⁶.", "a formula"),
    Derived(
        "(For 3 dollars: 0.3205 + 0.0152 = 0.3357 ms, 0.28 dollars; with the cache alone 0.27.)",
        {"0.3357": FLOOR_MS, "0.28": 3 / 3600 * FLOOR_MS * 1e3, "0.27": 3 / 3600 * CACHE_MS * 1e3},
    ),
    Derived(
        "Neglecting 2n/P the floor is s/W a token. Twice that: s/W + w/(W B) = 2s/W, so B = w/s = 14.96",
        {"14.96": WEIGHTS / CACHE},
    ),
    Derived("From 15 on the price is at most twice the floor.", {"15": math.ceil(WEIGHTS / CACHE)}),
    Derived(
        "w/(M − w) = 16.06 / 63.94 = 25 %. Fewer bytes of cache (fewer key/value heads, latent attention, 8 bits",
        {"63.94": 80 - 16.06, "25": 100 * 16.06 / 63.94},
    ),
    Given("**Mark scheme (8).**", POINTS),
    Given("15 (or 14.96), 1.", POINTS),
    # The model answer about the capstone: an example.
    Given("passes of one 3.82 ms, of sixteen 6.63 ms, a prompt token 0.104 ms; 22 requests a second,", "one run"),
    Derived(
        "so 840 tokens/s wanted, 50 % of the capacity.", {"840": 22 * 38.19, "50": 100 * 22 * 38.19 / 1664}, within=1
    ),
    Given("68 prompt and 38 written tokens on average", "the recorded trace"),
    Derived(
        "first token within 66 ms, next within 20 ms, both for 95 %, and 0.048 dollars a million at 10 cents an hour.",
        {"66": 10 * SIXTEEN, "20": 3 * SIXTEEN},
        within=0.51,
    ),
    Derived("A pass for B requests takes 3.82 + (B − 1) · 0.19 ms", {"0.19": (SIXTEEN - ONE) / 15}),
    Derived(
        "About 840 · 5.5 ms = 4.6 requests run at a time, which need 490 of the 640 positions.",
        {"5.5": 1.2 * capstone_pass(5), "4.6": 840 * 5.5e-3, "490": 840 * 5.5e-3 * 106.5},
        within=3,
    ),
    Derived("2,400 positions.", {"2,400": 640 * 128 / 34}, within=10),
    Derived(
        "perhaps half a pass more: 1.5 · 5.4 ms = 8 ms for 5 requests.",
        {"5.4": 1.2 * capstone_pass(5), "8": 1.5 * 5.4},
        within=0.2,
    ),
    Derived(
        "a pass with 128 prompt tokens in it takes 8 + 128 · 0.104 = 21 ms. So at most 128 tokens a step, and 8-bit "
        "weights to save the rest: 20 ms, just met.",
        {"21": 8 + 128 * PROMPT, "20": 3 * SIXTEEN},
        within=0.4,
    ),
    Derived(
        "95 % of the prompts have up to 148 tokens.",
        {"148": sorted(n_prompt for n_prompt, _ in TRACE)[round(0.95 * 63)]},
    ),
    Derived("4 + 20 + 20 + 10 = 54 ms.", {"4": 8 / 2, "54": 8 / 2 + 20 + 20 + 10}),
    Derived(
        "0.10 / 3,600 / 840 · 10⁶ = 0.033 dollars, and a sixth more for the last answers, 0.039.",
        {"0.033": 0.10 / 3600 / 840 * 1e6, "0.039": 0.033 * 7 / 6},
    ),
    Derived(
        "half of the prompt tokens stand at another's beginning",
        {"half": 2368 / sum(n_prompt for n_prompt, _ in TRACE)},
        within=0.05,
    ),
    Given("as text sampled at 0.8 is guessed less well.", "the recorded trace"),
    Given("first token 46 ms (45 to 47), next 19 ms (17 to 19), 0.039 dollars;", "one run"),
    Given("score 0.039 (63 to 64 of 64 in time)", "one run"),
    Given("7.8 requests ran at a time, not 4.6:", "one run"),
    Given("At 20 requests a second the first token came after 683 ms: 241 blocks were evicted", "one run"),
    Given("it was 329 ms and 15 preemptions.", "one run"),
    Given("**Mark scheme (10).**", POINTS),
    Given("arithmetic from measured costs, 3 (a number without arithmetic: 0).", POINTS),
    Given('explained by something that can be checked, 3 ("noise" alone: 0).', POINTS),
    *(Given(f"**{number}.**", "the number of a problem") for number in range(2, 10)),
    Given("int8; a 13B;", TESTS),
    Given('*"an 8B service answers slowly, what do you do?"*', "the question"),
    Given("The 8B of this lesson switches a little later", "the model's name"),
    Given("**7.** The 8B of this lesson,", "the model's name"),
    Given("**8.** The same 8B split over two H100s", "the model's name"),
    Given("You may have int8 weights or an int8 cache.", CHOSEN),
    # What you have now.
    Given("batches, blocks, prefixes (weeks 6 and 7);", "weeks of the course"),
    Given("cost and save (weeks 8 and 9);", "weeks of the course"),
    *(
        Given(f"{who} {year},", "a year")
        for who, year in (
            ("Pope et al.", 2022),
            ("Kwon et al.", 2023),
            ("Yu et al.", 2022),
            ("Zheng et al.", 2024),
            ("DeepSeek-AI", 2024),
            ("Leviathan et al.", 2022),
            ("Chen et al.", 2023),
            ("Cai et al.", 2024),
            ("Li et al.", 2024),
            ("Frantar et al.", 2022),
            ("Lin et al.", 2023),
            ("Dao et al.", 2022),
            ("Fedus et al.", 2021),
            ("Jiang et al.", 2024),
            ("Zhong et al.", 2024),
            ("Kleinrock", 1975),
        )
    ),
    Given("read a claim about 4 bits and ask the right three questions", "a lever's name"),
    Given("V2 and V3 (latent attention", "names"),
]
