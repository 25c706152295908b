"""Every figure in the prose of week 4, from formulas written out here."""

from math import sqrt

from .literals import Derived, Given

P, Q = (0.5, 0.3, 0.2), (0.3, 0.3, 0.4)
KEPT = [min(p, q) for p, q in zip(P, Q, strict=True)]
REFUSED = 1 - sum(KEPT)
PEAK, BANDWIDTH = 989e12, 3.35e12
CRITICAL = PEAK / BANDWIDTH  # two operations and two bytes a weight
TARGET, DRAFT = 4.78, 0.60  # ms of a pass
C = DRAFT / TARGET
D, F, V, N, K, H = 4096, 14336, 128_256, 32, 8, 128
LAYER = D * (N + 2 * K) * H + N * H * D + 3 * D * F
EAGLE_3 = 3 * D * D + LAYER + D * (N + 2 * K) * H + 32_000 * D


def tokens(alpha, gamma):
    """(1 − α^(γ+1))/(1 − α)."""
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def deviation(alpha, gamma):
    """The standard deviation of the tokens of a round."""
    chances = [alpha**i * (1 - alpha) for i in range(gamma)] + [alpha**gamma]
    mean = sum((i + 1) * chance for i, chance in enumerate(chances))
    return sqrt(sum((i + 1 - mean) ** 2 * chance for i, chance in enumerate(chances)))


def v(batch, gamma):
    return max(1.0, batch * (gamma + 1) / 295)  # rounded, as in the prose


def gain(batch, gamma, alpha=0.7):
    return tokens(alpha, gamma) / (v(batch, gamma) + gamma * C)


def peak(alpha, cost):
    return max(range(33), key=lambda gamma: tokens(alpha, gamma) / (1 + gamma * cost))


def best_products(shares, n):
    """The n largest products along paths of a tree, found among all paths of up to eight tokens."""
    paths, level = [], [1.0]
    for _ in range(8):
        level = [product * share for product in level for share in shares]
        paths += level
    return sorted(paths, reverse=True)[:n]


# Half of the rounds at 0.9, half at 0.3.
EASY, HARD = tokens(0.9, 4), tokens(0.3, 4)
PLACES = (0.9 * EASY + 0.3 * HARD) / (EASY + HARD)
EXAMINED = (EASY + HARD - 2) / (tokens(0.9, 3) + tokens(0.3, 3))

TABLE = [
    Given("45 minutes for the eleventh", "estimated"),
    Given("40 minutes for the two written questions", "35 by their cells, and reading the mark schemes"),
    Derived("If they hold 3 % of p at a place, at most 97 % can be kept there", {"97": 100 - 3}),
    Derived(
        "With width 4,096 and 16 bits, 128,256 tokens take 1.05 GB and the 32,000 most frequent 0.26 GB",
        {"1.05": D * V * 2 / 1e9, "0.26": D * 32_000 * 2 / 1e9},
    ),
    Given("([Timor 2025, ", "a year"),
    Given("does a pass of 5 take"),
    Derived(
        "16 GB at 3.35 TB/s take 4.8 ms, and one position's arithmetic (2 · 8·10⁹ operations at 989 · 10¹² a "
        "second) takes "
        "0.016 ms",
        {"4.8": 16e9 / BANDWIDTH * 1e3, "0.016": 2 * 8e9 / PEAK * 1e3},
    ),
    Given("| target p | 0.5 | 0.3 | 0.2 | | draft q | 0.3 | 0.3 | 0.4 |"),
    Derived("C: 0.2/0.4 = 0.5. The draft proposes C", {"0.5": P[2] / Q[2]}),
    Derived("A: 0.5/0.3 is above 1, so A is always kept. B: 0.3/0.3 = 1, always kept", {"1": P[1] / Q[1]}),
    Derived(
        "0.3 · 1 + 0.3 · 1 + 0.4 · 0.5 = 0.8. That is",
        {"0.8": sum(q * min(1, p / q) for p, q in zip(P, Q, strict=True))},
    ),
    Derived("min(0.5, 0.3) + min(0.3, 0.3) + min(0.2, 0.4) = 0.8", {"0.8": sum(KEPT)}),
    Derived(
        "So far A has come out with 0.3, B with 0.3, C with 0.2. The target wants 0.5, 0.3, 0.2. What is missing is "
        "0.2 of A, "
        "and 0.2 is just the share that was rejected",
        {"0.2": P[0] - KEPT[0]},
    ),
    Derived("would give B 0.3 + 0.2 · 0.3 = 0.36, too much", {"0.36": KEPT[1] + REFUSED * P[1]}),
    Given("Try one yourself: p = (0.6, 0.4), q = (0.9, 0.1)"),
    Derived("A is kept with 0.6/0.9 = 2/3", {"2": 0.6 / 0.9 * 3}),
    Derived("Rejected: 0.9 · 1/3 = 30 %", {"30": 0.9 * (1 - 0.6 / 0.9) * 100}),
    Derived("The residual is max(−0.3, 0) and max(0.3, 0)", {"0.3": 0.4 - 0.1}),
    Derived("B comes out with 0.1 + 0.3 = 0.4", {"0.4": 0.1 + 0.3}),
    Given("and for 100 random pairs that kept", "as the test has it"),
    Given("4,000 draws with a stated false-alarm rate", "as the test has it"),
    Given("On the A, B, C table above the result must be (1, 0, 0)", "the residual above"),
    Derived(
        "With α = 0.8 and γ = 4: 1 + 0.8 + 0.64 + 0.512 + 0.4096 = 3.3616 tokens",
        {"0.64": 0.8**2, "0.512": 0.8**3, "0.4096": 0.8**4, "3.3616": tokens(0.8, 4)},
    ),
    Derived(
        "α = 0.8, γ = 4, c = 0.05: 3.3616 / 1.2 = 2.80 times as fast. With α = 0.5 it is 1.9375 / 1.2 = 1.61.",
        {
            "1.2": 1 + 4 * 0.05,
            "2.80": tokens(0.8, 4) / 1.2,
            "1.9375": tokens(0.5, 4),
            "1.61": tokens(0.5, 4) / 1.2,
        },
    ),
    Given("The best γ for α = 0.6, 0.8 and 0.9 at c = 0.05", "as the test has it"),
    Derived(
        "at γ = 3 for α = 0.5 up to γ = 13 for α = 0.9, and falls after it",
        {"3": peak(0.5, 0.05), "13": peak(0.9, 0.05)},
    ),
    Given("Step 2 is one `feed` of text[target.length:]", "a number of a step"),
    Given("After step 3 compute", "a number of a step"),
    Given("exact to 1e-9", "as the test has it"),
    Given("Each line is one round at temperature 1, with γ = 4"),
    Given("([Daliri 2024, ", "a year"),
    Derived(
        "at d = 0.4 that is 0.43 where your rule keeps 0.60",
        {"0.43": (1 - 0.4) / (1 + 0.4), "0.60": 1 - 0.4},
    ),
    Given(
        "the median of these calls said c = 0.05 where the fastest said 0.16",
        "measured by an early reader on a busy two-core machine",
    ),
    Derived(
        "With α = 0.6 and γ = 4 a round gives 2.31 tokens, with a standard deviation of 1.40. A dot comes from 180 "
        "tokens, 78 "
        "rounds, so it is off by 1.40/√78 = 0.16 tokens, 7 %",
        {
            "2.31": tokens(0.6, 4),
            "1.40": deviation(0.6, 4),
            "180": 3 * 60,
            "78": 180 / tokens(0.6, 4),
            "0.16": deviation(0.6, 4) / sqrt(78),
            "7 %": 100 * deviation(0.6, 4) / sqrt(78) / tokens(0.6, 4),
        },
    ),
    Given("or with 16-bit numbers, you may see"),
    Derived(
        "Say s = 0.5, v = 1.7 and 1.1 tokens a pass: 1.1/1.35 = 0.81, a loss",
        {"1.35": 0.5 + 0.5 * 1.7, "0.81": 1.1 / 1.35},
    ),
    Given("wrote 0.78 times as fast with it as without", "measured by an early reader on a two-core machine"),
    Derived(
        "only up to about 295 positions (its peak of 989 · 10¹² operations a second over 3.35 · 10¹² bytes a "
        "second, two "
        "operations and two bytes per 16-bit weight). At B = 59 and γ = 4 that is 59 · 5 = 295",
        {"295": CRITICAL},
        within=0.5,
    ),
    Derived("59 · 5 = 295", {"295": 59 * (4 + 1)}),
    Derived(
        "At α = 0.3 and c = 0.4 one drafted token gives 1.3 tokens in 1.4 passes: 0.93. The best γ is 0.",
        {"1.3": tokens(0.3, 1), "1.4": 1 + 0.4, "0.93": 1.3 / 1.4, "0.": peak(0.3, 0.4)},
    ),
    Given("the lower third of the last 9 passes", "constants of adaptive.py"),
    Derived("that fades, by 1 % at each update", {"1 %": 100 * (1 - 0.99)}),
    Given("falls below 1.05 and starts again above 1.15", "constants of adaptive.py"),
    Derived(
        "So 2 passes go the other way after every 32, then after 64, and so on up to 1,024",
        {"64": 2 * 32, "1,024": 32 * 2**5},
    ),
    Given("An H100 takes 4.78 ms for a pass of up to 295 tokens", "16 GB over 3.35 TB/s; above"),
    Given("a draft pass takes 0.60 ms; α = 0.7, and γ is 4 at most", "a 1B draft: 2 GB over 3.35 TB/s"),
    Derived("At B = 1 γ = 4 is best.", {"4": max(range(5), key=lambda g: gain(1, g))}),
    Given("What does the engine choose for 64, 128 and 256 requests?"),
    Derived(
        "at 64 requests γ = 3 runs 256 tokens, still free, and gains 2.533/(1 + 3 · 0.126) = 1.84",
        {
            "3": max(range(5), key=lambda g: gain(64, g)),
            "256": 64 * 4,
            "2.533": tokens(0.7, 3),
            "0.126": C,
            "1.84": gain(64, 3),
        },
    ),
    Derived(
        "At 128 only γ = 1 runs no more than 295: 1.7/1.126 = 1.51",
        {"1.7": tokens(0.7, 1), "1.126": 1 + C, "1.51": gain(128, 1)},
    ),
    Derived(
        "At 256 even γ = 1 runs 512, v = 1.74, and 1.7/(1.74 + 0.126) = 0.91: off. At 192 the first try, γ = 4, "
        "loses; the "
        "probe with γ = 1 finds the 1.19 that pays",
        {"512": 2 * 256, "1.74": v(256, 1), "0.91": gain(256, 1), "1.19": gain(192, 1)},
    ),
    Given("| MTP (DeepSeek-V3, 2024) |", "a name"),
    Given("| Medusa (Cai 2024) |", "a name"),
    Given("| EAGLE-3 (Li 2025) |", "a name"),
    Given("EAGLE-3 drops it", "a name"),
    Given(
        "Take an 8B model with width D = 4,096, F = 14,336, V = 128,256, 32 query and 8 key/value heads of 128, at "
        "2 bytes a "
        "weight",
        "Llama 3 8B",
    ),
    Given("W \\text{ of } D \\times 3D", "three states"),
    Derived("W alone has 3 · 4,096² = 50 million parameters", {"50": 3 * D * D / 1e6}),
    Given("EAGLE-3's head knows the 32,000 most frequent tokens only", "the published drafts of EAGLE-3"),
    Derived(
        "EAGLE-3's own small head makes a step cheaper: 0.85 GB of 16.06 GB, so c is about 0.05",
        {"0.85": 2 * EAGLE_3 / 1e9, "16.06": 2 * 8.03, "0.05": EAGLE_3 / 8.03e9},
    ),
    Derived(
        "With a₁ = 0.6 and a₂ = 0.15 a line of eight gives 2.47 tokens. The best tree of eight takes the eight largest "
        "products: 0.6, 0.36, 0.216, 0.15, 0.1296, 0.09 twice and 0.0778. They add up to 2.71 with the one that "
        "always comes, "
        "and the draft runs 5 passes in a row instead of 8. (EAGLE-2 grows",
        {
            "2.47": tokens(0.6, 8),
            "0.36": best_products((0.6, 0.15), 8)[1],
            "0.216": best_products((0.6, 0.15), 8)[2],
            "0.15": best_products((0.6, 0.15), 8)[3],
            "0.1296": best_products((0.6, 0.15), 8)[4],
            "0.09": best_products((0.6, 0.15), 8)[6],
            "0.0778": best_products((0.6, 0.15), 8)[7],
            "2.71": 1 + sum(best_products((0.6, 0.15), 8)),
            "8": 8,
        },
    ),
    Derived("runs 5 passes in a row", {"5": next(n for n in range(9) if 0.6**n < 0.0778)}),
    Derived("The first is kept with 0.3 (A), 0.3 (B), 0.2 (C), as before. With 0.2 it is rejected", {"0.2": REFUSED}),
    Derived(
        "Then A, B and C come out of these 20 % with 0.2 · 0.3 = 0.06, 0.06 and 0.2 · 0.2 = 0.04, and the last 4 % "
        "go to A",
        {
            "20": 100 * REFUSED,
            "0.06": REFUSED * KEPT[0],
            "0.04": REFUSED * KEPT[2],
            "4 %": 100 * REFUSED * REFUSED,
        },
    ),
    Derived(
        "In all: A 0.3 + 0.06 + 0.04 = 0.40, B 0.36, C 0.24. The target wanted 0.5, 0.3, 0.2",
        {
            "0.40": KEPT[0] + REFUSED * (KEPT[0] + REFUSED),
            "0.36": KEPT[1] + REFUSED * KEPT[1],
            "0.24": KEPT[2] + REFUSED * KEPT[2],
        },
    ),
    Given("draws the worked example 5,000 times"),
    Given("The cell takes 60 places of a text"),
    Given("(Their weights lie on disk in 16 bits; `dtype` says to compute in 32, as we do.)", "the shipped files"),
    Derived(
        "With α = 0.8 and γ = 4 it reads (3.36 − 1)/4 = 59 %",
        {"3.36": tokens(0.8, 4), "59": 100 * (tokens(0.8, 4) - 1) / 4},
    ),
    Given("SmolLM2-135M answers", "a name"),
    Derived(
        "(1 − 0.84⁵)/(1 − 0.84) = 0.5818/0.16 = 3.64",
        {"0.5818": 1 - 0.84**5, "0.16": 1 - 0.84, "3.64": tokens(0.84, 4)},
    ),
    Given("**1.** α = 0.84, γ = 4. Tokens"),
    Given("**2.** An 8B target takes 4.78 ms per pass on an H100, its 1B draft 0.60 ms. α = 0.7, γ = 3."),
    Derived(
        "1 + 0.7 + 0.49 + 0.343 = 2.533. A round: 4.78 + 3 · 0.60 = 6.58 ms. 2.533 / 6.58 ms = 385 tokens/s, "
        "against 1 / 4.78 "
        "ms = 209: 1.84 times.",
        {
            "0.49": 0.7**2,
            "0.343": 0.7**3,
            "2.533": tokens(0.7, 3),
            "6.58": TARGET + 3 * DRAFT,
            "385": tokens(0.7, 3) / 6.58e-3,
            "209": 1 / 4.78e-3,
            "1.84": tokens(0.7, 3) / (1 + 3 * C),
        },
    ),
    Given("**3.** The same pair, 64 requests at once. Does γ = 4 still pay?"),
    Derived("Yes, but γ = 3 is better.", {"3": max(range(9), key=lambda g: gain(64, g))}),
    Derived(
        "With c = 0.60/4.78 = 0.126 and v = 64 (γ + 1)/295 where that is above 1: γ = 4 runs 320 positions, v = "
        "1.08, and gives "
        "2.773/(1.08 + 0.50) = 1.75 times. γ = 3 runs 256, which is free, and gives 2.533/(1 + 0.38) = 1.84. γ = 5: "
        "v = 1.30, "
        "1.52 times",
        {
            "0.126": C,
            "320": 64 * 5,
            "1.08": v(64, 4),
            "2.773": tokens(0.7, 4),
            "0.50": 4 * C,
            "1.75": gain(64, 4),
            "256": 64 * 4,
            "0.38": 3 * C,
            "1.84": gain(64, 3),
            "1.30": v(64, 5),
            "1.52": gain(64, 5),
        },
    ),
    Given('**4.** A vendor says "our draft accepts 80 % of the tokens". You measure 2.3 tokens per pass at γ = 4.'),
    Derived("A constant α = 0.8 gives 3.36.", {"3.36": tokens(0.8, 4)}),
    Derived(
        "If 80 % is the share of <em>drafted</em> tokens, it gives exactly 1 + 0.8 · 4 = 4.2.",
        {"4.2": 1 + 0.8 * 4},
    ),
    # Kept whole 5 tokens with 4 examined; cut at once 1 token with 1 examined: 4 of 5 are kept.
    Derived("at least 3.0 come out (half of the rounds kept whole", {"3.0": (5 + 1) / 2}),
    Derived("2.3 tokens is what a constant α of about 0.6 gives", {"2.3": tokens(0.6, 4)}),
    Given("80 % of what?"),
    Given('"Our 70B chat model feels slow.'),
    Given("It helps the time per output token only (30 seconds)"),
    Derived("(295 on an H100)", {"295": CRITICAL}),
    Given("switch it off or lower γ (30 seconds)"),
    Given("free chat lower (45 seconds)"),
    Given("memory for its weights and cache (30 seconds)"),
    Given("same greedy text up to near ties (45 seconds)"),
    Given("Sum of 1 and 4:", "numbers of steps"),
    Given("**Mark scheme (8).** Kept mass min(p, q), 2. Rejection probability", "points"),
    Given("An argument by example or simulation only: at most 2.", "points"),
    Derived(
        "In figures, at γ = 4: half of the rounds have α = 0.9 and give 4.10 tokens, half have 0.3 and give 1.43. "
        "The truth is "
        "the mean, 2.76. The mean of α over rounds is 0.6, and the formula says 2.31. Over places of the text it is "
        "0.75: 3.02. "
        "Over examined tokens it is 0.72: 2.91.",
        {
            "4.10": EASY,
            "1.43": HARD,
            "2.76": (EASY + HARD) / 2,
            "0.6": (0.9 + 0.3) / 2,
            "2.31": tokens(0.6, 4),
            "0.75": PLACES,
            "3.02": tokens(PLACES, 4),
            "0.72": EXAMINED,
            "2.91": tokens(EXAMINED, 4),
        },
    ),
    Given("**Mark scheme (6).** (a) sum with a reason, 2;", "points"),
    Given("- Leviathan, Kalman, Matias 2022, ", "a year"),
    Given("theorem 3.8", "a number of a theorem"),
    Given("- Chen et al. 2023, ", "a year"),
    Given("- Saxena 2023, ", "a year"),
    Given("- Cai et al. 2024, ", "a year"),
    Given("*EAGLE-2*,", "a name"),
    Given("*EAGLE-3*,", "a name"),
    Given("- DeepSeek-AI 2024, *DeepSeek-V3*,", "a year"),
    Given("- Miao et al. 2023, ", "a year"),
    Given("Jeon et al. 2024, ", "a year"),
]
