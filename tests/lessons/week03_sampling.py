"""Every figure in the prose of week 3, from formulas written out here."""

import math
from itertools import pairwise

import torch

from .literals import Derived, Given

EXAMPLE = (0.5, 0.3, 0.15, 0.05)


def softmax(logits, temperature=1.0):
    weights = [math.exp(z / temperature) for z in logits]
    return [weight / sum(weights) for weight in weights]


def scaled(weights):
    return [weight / sum(weights) for weight in weights]


def three_digits(x):
    """The machine that keeps three significant digits."""
    return float(f"{x:.3g}")


def spacing(x, digits=24):
    """How far numbers with so many binary digits stand apart at x."""
    return 2.0 ** (math.floor(math.log2(x)) + 1 - digits)


def float32_sum(*values):
    total = torch.zeros((), dtype=torch.float32)
    for value in values:
        total = total + torch.tensor(value, dtype=torch.float32)
    return total.item()


def e_row(temperature):
    return [math.exp(z / temperature) for z in (2, 1, 0)]


def table_row(temperature, written):
    """A row of the table of the worked example."""
    powers = e_row(temperature)
    figures = [powers[0], powers[1], sum(powers), *softmax((2, 1, 0), temperature)]
    cells = written.split()
    sentence = "| T = {} | {} | {} | 1 | {} | {}, {}, {} |".format(f"{temperature:g}", *cells)
    return Derived(sentence, dict(zip(cells, figures, strict=True)))


ROOTS = [math.sqrt(p) for p in EXAMPLE]
FLAT, FILTERED = scaled(ROOTS), scaled(ROOTS[:3])
TOP_3 = scaled(EXAMPLE[:3])
assert all(one > other for one, other in pairwise(FLAT))

TABLE = [
    Given("40 minutes for the two written questions, an hour", "by their cells"),
    Derived(
        "Three bars of length 1. The first is shared by sun 0.5, moon 0.3, sea 0.15 and elf 0.05. After top-k with "
        "k = 3 elf is "
        "gone and the others have grown. After top-p with 0.84 only sun 0.625 and moon 0.375 are left. A random "
        "point at 0.58 "
        "falls on moon",
        {"0.625": 0.5 / 0.8, "0.375": 0.3 / 0.8},
    ),
    Given("The models compute in float32 or in 16 bits, but"),
    Given("Three tokens with logits 2, 1, 0. Softmax at"),
    Given("| | e^(2/T) | e^(1/T) | e^0 | sum | probabilities |", "a head of a table"),
    table_row(0.5, "54.6 7.39 63.0 0.867 0.117 0.016"),
    table_row(1, "7.39 2.72 11.11 0.665 0.245 0.090"),
    table_row(2, "2.72 1.65 5.37 0.506 0.307 0.186"),
    Derived(
        "Adding 100 to all logits changes nothing.",
        {"100": 100 + max(abs(a - b) for a, b in zip(softmax((102, 101, 100)), softmax((2, 1, 0)), strict=True))},
    ),
    Given("Now the filters, on the probabilities 0.5, 0.3, 0.15, 0.05."),
    Derived(
        "**Top-k with k = 2** keeps 0.5 and 0.3. They total 0.8, so they become 0.5/0.8 = 0.625 and 0.3/0.8 = 0.375.",
        {"0.8": sum(EXAMPLE[:2]), "0.625": scaled(EXAMPLE[:2])[0], "0.375": scaled(EXAMPLE[:2])[1]},
    ),
    Derived(
        "**Top-p with p = 0.9** counts from the top: 0.5, then 0.8, then 0.95. The third token is the first to "
        "*reach* 0.9, and "
        "it stays. Divided by 0.95: 0.526, 0.316, 0.158.",
        {"0.95": sum(EXAMPLE[:3]), "0.526": TOP_3[0], "0.316": TOP_3[1], "0.158": TOP_3[2]},
    ),
    Derived(
        "**k = 3, then p = 0.84.** After top-k the three are 0.526, 0.316, 0.158. The first two total 0.842, which "
        "reaches 0.84, "
        "so two stay: 0.625 and 0.375. Had nobody renormalised in between, the first two would total 0.8 only",
        {
            "0.526": TOP_3[0],
            "0.316": TOP_3[1],
            "0.158": TOP_3[2],
            "0.842": TOP_3[0] + TOP_3[1],
            "0.625": 0.5 / 0.8,
            "0.8": 0.5 + 0.3,
        },
    ),
    Given("Try one yourself: probabilities 0.4, 0.35, 0.25 with k = 2 and then p = 0.53."),
    Derived(
        "Top-k leaves 0.4/0.75 = 0.533 and 0.467. The first alone reaches 0.53,",
        {"0.533": 0.4 / 0.75, "0.467": 0.35 / 0.75},
    ),
    Derived(
        "top-p needs two tokens to reach 0.53 (0.4, then 0.75), top-k with k = 2 changes nothing, and the draw is "
        "between 0.533 "
        "and 0.467",
        {"0.75": 0.4 + 0.35, "0.533": 0.4 / 0.75, "0.467": 0.35 / 0.75},
    ),
    Given("The three rows of the table above, 100 random rows", "as the test has it"),
    Given("For T = 0 put a 1.0 at `argmax`", "a certainty"),
    Derived("0.7 + 0.1 is 0.7999999999999999 in float64", {"0.7999999999999999": 0.7 + 0.1}),
    Given("With p = 0.8 those two tokens should be enough, so a total within 10⁻⁹ of p", "the tolerance of the filter"),
    Given("200 random rows against a plain loop (with ties", "as the test has it"),
    Given("count how many of the 1,024 tokens top-p keeps at p = 0.9", "the shipped model's vocabulary"),
    Given("Top-k keeps 40 in both cases", "chosen above"),
    Derived(
        "With m = 0.1 that is a window of 2.30 below the best logit at T = 1, and of 4.61 at T = 2.",
        {"2.30": math.log(10), "4.61": 2 * math.log(10)},
    ),
    Given("how many tokens does each of the three keep at T = 2?"),
    Given("By hand, on the probabilities 0.5, 0.3, 0.15, 0.05 with T = 2 and p = 0.9:"),
    Derived(
        "At T = 2 a probability becomes its square root: 0.707, 0.548, 0.387, 0.224, in all 1.866. So 0.379, 0.294, "
        "0.208, 0.120. "
        "The first three total 0.880 and do not reach 0.9: all four stay, and the last has 12 %.",
        {
            "0.707": ROOTS[0],
            "0.548": ROOTS[1],
            "0.387": ROOTS[2],
            "0.224": ROOTS[3],
            "1.866": sum(ROOTS),
            "0.379": FLAT[0],
            "0.294": FLAT[1],
            "0.208": FLAT[2],
            "0.120": FLAT[3],
            "0.880": sum(FLAT[:3]),
            "12": 100 * FLAT[3],
        },
    ),
    Derived(
        "Top-p sees 0.5, 0.3, 0.15, which reach 0.9. The fourth is gone. Then the temperature: 0.431, 0.334, 0.236.",
        {"0.431": FILTERED[0], "0.334": FILTERED[1], "0.236": FILTERED[2]},
    ),
    Derived("and an absurd token comes one time in eight or never", {"eight": 1 / FLAT[3]}),
    Derived(
        "A bias multiplies the odds by e^(b/T): b = 2 at T = 1 makes a token 7.39 times as likely",
        {"7.39": math.exp(2)},
    ),
    Derived(
        "A token with logit 2 that stands in the answer three times, with a = 0.5 and f = 0.3, goes to 2 − 0.5 − "
        "0.9 = 0.6; with "
        "r = 1.3 it goes to 2/1.3 = 1.54, and a logit of −1 to −1.3.",
        {"0.9": 3 * 0.3, "0.6": 2 - 0.5 - 3 * 0.3, "1.54": 2 / 1.3, "−1.3": -1 * 1.3},
    ),
    Given(
        "adding 100 to all of them makes it brutal",
        "two logits of 102 and 101 stand 24 apart after r = 1.3, if one is hit",
    ),
    Given("| extraction, classification, calls of tools, sums | 0 to 0.2 |", "customary"),
    Given("| code, answers from documents | 0.2 to 0.5 | top-p 0.95, no penalties |", "customary"),
    Given("| chat | 0.6 to 0.8 | top-p 0.9 to 0.95, or min-p 0.05 |", "customary"),
    Given("| 1 to 1.3 | min-p 0.05 to 0.1; perhaps a presence penalty of 0.3 |", "customary"),
    Derived(
        "Say the right token has 95 % at T = 1 and one other has the rest: 19 to 1. An answer of 20 tokens is right "
        "with 0.95²⁰ = "
        "36 %. At T = 0.5 the odds are squared, 361 to 1, and 0.9972²⁰ = 95 %.",
        {
            "19": 0.95 / 0.05,
            "36": 100 * 0.95**20,
            "361": 19**2,
            "0.9972": 361 / 362,
            "95 %": 100 * (361 / 362) ** 20,
        },
    ),
    Given("At T = 2 words break."),
    Derived(
        "- (100 + 0.4) + 0.4: 100.4 rounds to 100. Again 100.4 rounds to 100. **Result 100.**",
        {"100.4": 100 + 0.4, "100": three_digits(three_digits(100 + 0.4) + 0.4)},
    ),
    Derived(
        "- 100 + (0.4 + 0.4): 0.8 is exact. 100.8 rounds to 101. **Result 101.**",
        {"0.8": 0.4 + 0.4, "100.8": 100 + 0.8, "101": three_digits(100 + three_digits(0.4 + 0.4))},
    ),
    Derived("float32 keeps 24 binary digits, about seven decimal ones.", {"seven": 24 * math.log10(2)}, within=0.5),
    Derived("Near 10⁸ its numbers stand 8 apart", {"8": spacing(1e8)}),
    Derived("(10⁸ + 1) − 10⁸ = **0**", {"0": float32_sum(1e8, 1, -1e8)}),
    Derived("(10⁸ − 10⁸) + 1 = **1**", {"1": float32_sum(1e8, -1e8, 1)}),
    Given("128 products a token here, 4,096 or more in a large model", "the models' widths"),
    Given("2²⁴ + 1 + 1 in two orders, 100 random lists", "as the test has it"),
    Given("largest logit, 128 products. They are added up in 200 random orders."),
    Derived(
        "Float32 numbers between 4 and 8 stand half a millionth apart",
        {"half": spacing(5) * 1e6},
        within=0.03,
    ),
    Given("than a product of 64 rows"),
    Given("On one two-core machine 676 of the 768 outputs differed", "measured; 768 = 2F of the shipped model"),
    Given("once in a batch of 16 and once in a batch of 64"),
    Given(
        "at least one of the 1,024 logits *not* the same to the last bit? And how many of the 60 greedy picks change"
    ),
    Derived("among all 64 texts, 3,840 places", {"3,840": 64 * 60}),
    Given("\\tfrac{1}{2}\\, f \\cdot E|m|", "half of the moves"),
    Given("Real servers keep weights and states in 16 bits. The matrix units of a GPU take 16-bit numbers", "a format"),
    Given("give 16-bit numbers back", "a format"),
    Given("bfloat16, which has 8 binary digits", "a format"),
    Given("rounded to the same 16-bit number", "a format"),
    Derived("a whole step, 65,536 times as far", {"65,536": spacing(1.5, 8) / spacing(1.5, 24)}),
    Given("each continued greedily by 60 tokens"),
    Given("In float64 the moves are about 10⁻¹⁴", "a few steps of 2⁻⁵² at logits of some units"),
    Given("calls the library always with 16 rows", "the constant of the tile"),
    Given("the moves that a batch of 16 makes"),
    Given("at batch 1 and at batch 64"),
    Given("the matrix units are built for 16 bits", "a format"),
    Given("got 80 different answers", "He et al. 2025"),
    Derived("that took 1.6 to 2.1 times as long", {"1.6": 42 / 26, "2.1": 55 / 26}),  # seconds in He et al. 2025
    Given("also mend the 16-bit texts", "a format"),
    Given("\\frac{W_i}{W_{i+1}} \\cdot \\frac{W_{i+1}}{W_{i+2}}", "an index"),
    Given("the way to take 1,000 requests"),
    Derived(
        "SmolLM2-135M has 49,152 tokens, 48 times as many as the shipped model, so a tail of 48 times as many.",
        {"48": 49_152 / 1024},
    ),
    Given("Two tokens with logits 3 and 1, temperature 2."),
    Derived(
        "They stand e^((3 − 1)/2) = e = 2.718 to 1, so 2.718/3.718 = 0.731 and 0.269.",
        {
            "2.718": math.exp((3 - 1) / 2),
            "3.718": math.e + 1,
            "0.731": math.e / (math.e + 1),
            "0.269": 1 / (math.e + 1),
        },
    ),
    Given("**2.** Probabilities 0.4, 0.3, 0.2, 0.1. Top-k 3, then top-p 0.75."),
    Derived(
        "After top-k: 0.444, 0.333, 0.222. The first two total 0.778, which reaches 0.75: two are left, 0.4/0.7 = "
        "0.571 and "
        "0.429. Without renormalising the first two total 0.7 only",
        {
            "0.444": 0.4 / 0.9,
            "0.333": 0.3 / 0.9,
            "0.222": 0.2 / 0.9,
            "0.778": 0.7 / 0.9,
            "0.571": 0.4 / 0.7,
            "0.429": 0.3 / 0.7,
            "0.7": 0.4 + 0.3,
        },
    ),
    Given("And in bfloat16, with 8 binary digits?", "a format"),
    Derived(
        "float32 has 24 binary digits: every whole number up to 2²⁴ = 16,777,216 is exact. 2²⁴ + 1 lies between two "
        "numbers and "
        "rounds back: there the count stands still. bfloat16 stops at 2⁸ = 256.",
        {"16,777,216": float32_sum(2.0**24, 1), "256": torch.tensor(256.0).bfloat16().add(1).item()},
    ),
    Given("moves its two best logits by 0.01 on average"),
    Given("What share of answers with 500 tokens"),
    Derived(
        "½ · 1 · 0.01 = 0.005, one pick in 200. (1 − 0.005)⁵⁰⁰ = e^(−2.5) = 8 %.",
        {"0.005": 0.5 * 0.01, "200": 1 / 0.005, "8 %": 100 * (1 - 0.005) ** 500, "−2.5": -0.005 * 500},
    ),
    Given("**3.** You count tokens", "a number"),
    Given("**4.** Near zero", "a number"),
    Given("**5.** A vocabulary of 128,256 tokens, 256 requests, float32 logits.", "Llama 3's vocabulary"),
    Given("does an H100 (3.35 TB/s) take", "its data sheet"),
    Derived(
        "128,256 · 256 · 4 = 131,334,144 B, 0.131 GB. Read once: 0.039 ms.",
        {
            "131,334,144": 128_256 * 256 * 4,
            "0.131": 128_256 * 256 * 4 / 1e9,
            "0.039": 128_256 * 256 * 4 / 3.35e12 * 1e3,
        },
    ),
    Given(
        "a decoding step of 5 to 15 ms", "an 8B model on an H100, alone and with 32 requests of 8,192 tokens (week 10)"
    ),
    Given("more tokens than top-k 40", "chosen above"),
    Given("are equal for 300 tokens"),
    Given(
        "Temperature 0 to 0.2 and no penalty, since a call repeats its quotes and names; 1 to 1.3 with min-p",
        "as above",
    ),
    Given("So the logits must differ (20 seconds)"),
    Given("other bits in another (40 seconds)"),
    Given("then in batches of 16 and 64"),
    Given("of the size of a rounding step (40 seconds)"),
    Given("One changed pick in some hundred tokens at 16 bits", "as measured above"),
    Given("compare models by more than that (30 seconds)"),
    Given("Not a seed (30 seconds)"),
    Given("chunked prompts (20 seconds)"),
    Given("**Mark scheme (8).**", "points"),
    Given("**Mark scheme (5).**", "points"),
    Given("instead of induction: at most 7. An example with numbers only: at most 2.", "points"),
    Given("(16 bits: about a hundredth to a tenth;", "steps of bfloat16 at logits of 2 to 16"),
    Given("float64: differences of 10⁻¹⁴", "as above"),
    Given("- Holtzman et al. 2020, ", "a year"),
    Given("- Fan, Lewis, Dauphin 2018, ", "a year"),
    Given("- Nguyen et al. 2024, ", "a year"),
    Given("- Keskar et al. 2019, ", "a year"),
    Given("- Maddison, Tarlow, Minka 2014, ", "a year"),
    Given("Daliri, Musco, Suresh 2024, ", "a year"),
    Given("- Salmon et al. 2011, *Parallel random numbers: as easy as 1, 2, 3*", "a title"),
    Given("- Goldberg 1991, ", "a year"),
    Given("- Higham 2002, *Accuracy and stability of numerical algorithms*, chapter 4:", "a chapter"),
    Given("- He et al. 2025, ", "a year"),
    Given("- Vitter 1985, ", "a year"),
]
