"""Every figure in the text of week 8, derived anew."""

import json
import math

from course.paths import ROOT, read

from .literals import Derived, Given

H100_BYTES, H100_OPS = 3.35e12, 989e12
S, X, E, K = 4.0, 2.0, 16, 2  # the 36-billion example: shared, an expert, experts, experts a token
EXPERT_V3 = 3 * 7168 * 2048  # parameters of one expert of DeepSeek-V3
CACHE_8B = 32 * 2 * 8 * 128 * 2 * 8192 / 1e9  # GB of a text of 8,192 tokens

LOGITS = (2, 1.5, 0, -1)
EXP = [math.exp(z) for z in LOGITS]
GATES = [1 / (1 + math.exp(-z)) for z in LOGITS]

CHOICES = [2, 0, 1, 2, 2, 0, 0, 1]
ORDER = sorted(range(8), key=lambda i: CHOICES[i])
INVERSE = [ORDER.index(i) for i in range(8)]
ORDERED = " | ".join(", ".join(str(i) for i in ORDER if CHOICES[i] == expert) for expert in range(3))

LOADS = (6, 2, 1, 3, 0, 4, 5, 3)
PAIRS = [LOADS[i] + LOADS[i + 1] for i in range(0, 8, 2)]

SHIPPED = ROOT / "nanolm" / "shipped"
MIXTURE = json.loads(read(SHIPPED / "mixture_figures.json"))
TARGET = json.loads(read(SHIPPED / "figures.json"))["target"]
SOLVED = {kind: (MIXTURE["mixture"]["accuracy"][kind], TARGET["accuracy"][kind]) for kind in TARGET["accuracy"]}


def unused(positions, experts, k):
    """The mean over experts that nobody chose, one expert at a time."""
    alone = 1.0
    for _ in range(positions):
        alone *= 1 - k / experts
    return experts * alone


def read_gb(B):
    """GB that a step of the 36-billion example reads at 2 bytes."""
    return 2 * (S + (E - unused(B, E, K)) * X)


def solved(kind):
    """Both of a row of the table, in per cent, as they are written."""
    return {f"{100 * share:.0f} %": 100 * share for share in SOLVED[kind]}


TABLE = [
    # The head and the legend
    Derived(
        "A model with 36 billion parameters, and a token multiplies 8 billion of them.",
        {"36": S + E * X, "8": S + K * X},
    ),
    Given("35 minutes for the two written questions", "20 and 15 minutes, as they say"),
    Given("GB is 10⁹ bytes", "as everywhere in the course"),
    Given("each token goes through 2 of a layer's 8 experts. How many of the 8 does", "the shipped mixture"),
    # By hand
    Given("Four experts, k = 2, and the router says 2, 1.5, 0, −1.", "an example"),
    Derived("| $e^z$ | 7.389 | 4.482 | 11.871 |", {"7.389": EXP[0], "4.482": EXP[1], "11.871": EXP[0] + EXP[1]}),
    Derived(
        "| share | **0.62** | **0.38** | 1 |",
        {"0.62": EXP[0] / (EXP[0] + EXP[1]), "0.38": EXP[1] / (EXP[0] + EXP[1]), "1": 1},
    ),
    Derived(
        "If expert 0 answers (1, 0) and expert 1 answers (0, 2), the layer gives 0.62 · (1, 0) + 0.38 · (0, 2) = "
        "(0.62, 0.76).",
        {"0.62": EXP[0] / (EXP[0] + EXP[1]), "0.76": 2 * round(EXP[1] / (EXP[0] + EXP[1]), 2)},
    ),
    Derived(
        "The sum is 13.239, the two get 0.558 and 0.339, together 0.897.",
        {
            "13.239": sum(EXP),
            "0.558": EXP[0] / sum(EXP),
            "0.339": EXP[1] / sum(EXP),
            "0.897": (EXP[0] + EXP[1]) / sum(EXP),
        },
    ),
    Derived(
        "Divide the two by 0.897 and they are 0.62 and 0.38 again:",
        {"0.62": EXP[0] / sum(EXP) / 0.897, "0.38": EXP[1] / sum(EXP) / 0.897},
    ),
    Given("| who |", "a heading"),
    Given("Four positions, three experts, k = 2.", "an example"),
    Given("| position | 0 | 0 | 1 | 1 | 2 | 2 | 3 | 3 |", "an example"),
    Derived("| **choice** number | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |", {"7": 4 * 2 - 1}),
    Given("| expert | 2 | 0 | 1 | 2 | 2 | 0 | 0 | 1 |", "an example"),
    Given(f"in the order **{ORDERED}**,", "the order is computed above, as a stable sort"),
    Given("belongs to position ⌊i/2⌋.", "k = 2 choices a position"),
    Derived(
        "So expert 0 gets positions 0, 2, 3 in one run, expert 1 gets 1, 3, expert 2 gets 0, 1, 2.",
        {"3": ORDER[2] // 2, "2": ORDER[1] // 2},
    ),
    Derived("the output that lies first belongs to choice 1, the next to choice 5.", {"1": ORDER[0], "5": ORDER[1]}),
    Given("does choice 0 have, and choice 7?", "a question"),
    Derived("Choice 0 lies at place 5, choice 7 at place 4", {"5": INVERSE[0], "4": INVERSE[7]}),
    Given(f"All eight in turn: {', '.join(map(str, INVERSE))}.", "the inverse is computed above"),
    Given("60 random", "the tests"),
    Given("as many operations of torch at 300 positions as at 6", "as the test has it"),
    Given("run over 64 positions,", "chosen"),
    # Memory
    Given(
        "Say a model has 4 billion parameters that every token goes through, and 16 experts of 2 billion", "an example"
    ),
    Given("(all layers together), k = 2:", "an example"),
    Derived("| total | 4 + 16 · 2 | **36 billion** | **72 GB** at 2 bytes |", {"36": S + E * X, "72": 2 * (S + E * X)}),
    Derived(
        "| active | 4 + 2 · 2 | **8 billion** | 2 · 8·10⁹ = **1.6·10¹⁰** operations a token |",
        {"8": S + K * X, "1.6·10¹⁰": 2 * (S + K * X) * 1e9},
    ),
    Derived("Sizing it with the active parameters, 16 GB,", {"16": 2 * (S + K * X)}),
    Given("has 256 experts in a layer and chooses 8,", "DeepSeek-V3's report"),
    Derived(
        "three matrices of 7,168 × 2,048, 3 · 7,168 · 2,048 = 44.0 million parameters, and 58 layers have experts.",
        {"44.0": EXPERT_V3 / 1e6, "58": 61 - 3},
    ),
    Derived(
        "58 · (256 + 1) · 44.0 million = 656 billion of the 671.",
        {"656": 58 * 257 * EXPERT_V3 / 1e9},
    ),
    Derived("58 · (8 + 1) · 44.0 million = 23.0 billion of the 37.", {"23.0": 58 * 9 * EXPERT_V3 / 1e9}),
    Derived(
        "A mixture of 117 billion parameters at 4.25 bits, on the other hand, is 62.2 GB and fits one GPU of 80 GB:",
        {"4.25": 4 + 8 / 32, "62.2": 117 * 4.25 / 8},
    ),
    # What a step reads
    Given("For E = 256, k = 8:", "DeepSeek-V3"),
    Derived("| 1 | 248 | 8 | 0.03 |", {"248": unused(1, 256, 8), "8": 256 - unused(1, 256, 8), "0.03": 1 * 8 / 256}),
    Derived(
        "| 16 | 154 | 102 | 0.5 |", {"154": unused(16, 256, 8), "102": 256 - unused(16, 256, 8), "0.5": 16 * 8 / 256}
    ),
    Derived(
        "| 64 | 33.6 | 222.4 | 2 |",
        {"33.6": unused(64, 256, 8), "222.4": 256 - unused(64, 256, 8), "2": 64 * 8 / 256},
    ),
    Derived(
        "| 256 | 0.08 | 255.9 | 8 |",
        {"0.08": unused(256, 256, 8), "255.9": 256 - unused(256, 256, 8), "8": 256 * 8 / 256},
    ),
    Derived(
        "256 positions together read practically everything, and each expert's weights are used for 8 positions",
        {"8": 256 * 8 / 256},
    ),
    Given("would have used its weights for 256.", "once a position"),
    # The trained router
    Derived(
        "Let the model read 64 texts of 128 tokens: 32 that it writes itself, in the style of the plays, and 32 of",
        {"64": 32 + 32},
    ),
    Derived("8 for an even load, 1 if one expert does everything.)", {"8": math.exp(-8 * (1 / 8) * math.log(1 / 8))}),
    Derived(
        "the busiest expert has 1.05 to 1.38 times its even share",
        {
            "1.05": min(layer["imbalance"] for layer in MIXTURE["load"]),
            "1.38": max(layer["imbalance"] for layer in MIXTURE["load"]),
        },
    ),
    Derived("would get k/E = 25 % of every kind.", {"25 %": 100 * 2 / 8}),
    Derived("Compare with 25 %,", {"25 %": 100 * 2 / 8}),
    Given("expert 3 of one layer and expert 3 of the next", "any"),
    Given("With 16 texts,", "the prediction's"),
    # Bytes a token
    Derived(
        "Put the 36-billion mixture beside two dense models at 2 bytes a weight: one with as many *active* "
        "parameters (8 "
        "billion), one with as many *in total* (36 billion).",
        {"36": S + E * X, "8": S + K * X},
    ),
    Given("| | B = 1 | B = 16 | B = 72 |", "batches"),
    Derived("| dense 8B | 16 | 16 | 16 |", {"16": 2 * 8}),
    Derived(
        "| mixture | 2 · (4 + 2 · 2) = 16 | 2 · (4 + 14.1 · 2) = 64.4 | 72 |",
        {"16": read_gb(1), "14.1": E - unused(16, E, K), "64.4": 2 * (4 + 14.1 * 2), "72": read_gb(72)},
    ),
    Derived("| dense 36B | 72 | 72 | 72 |", {"72": 2 * 36}),
    Derived("(At B = 16 the step reads 16 − 16 · (7/8)¹⁶ = 14.1 of 16 experts.)", {"14.1": 16 - 16 * (7 / 8) ** 16}),
    Derived("The dense 8B model at B = 16 reads 1 GB a token.", {"1": 16 / 16}),
    Derived(
        "The mixture reads 4.0 GB, and reaches 1 GB a token at B = 72: **4.5 times the batch,",
        {"4.0": read_gb(16) / 16, "1": read_gb(72) / 72, "4.5": 72 / 16},
    ),
    Derived("For 671 over 37 billion the factor is 18.", {"18": 671 / 37}),
    Derived(
        "From 1 to 8 texts the dense lines fall to an eighth, this one only from 16 to 6.25 GB:",
        {"6.25": read_gb(8) / 8},
        within=0.02,
    ),
    Derived(
        "From about 32 on it is the large model's.", {"32": min(B for B in (8, 16, 32, 64) if read_gb(B) > 0.98 * 72)}
    ),
    Given("On an H100 (3.35 TB/s, 989·10¹² operations a second):", "NVIDIA's data sheet"),
    Derived(
        "- dense 8B: 16 GB take 4.78 ms, as long as the arithmetic of 295 texts:",
        {"4.78": 16e9 / H100_BYTES * 1e3, "295": 16e9 / H100_BYTES * H100_OPS / (2 * 8e9)},
    ),
    Derived(
        "72 GB take 21.5 ms, as long as the arithmetic of about 1,330 texts. Again 4.5 times",
        {"21.5": 72e9 / H100_BYTES * 1e3, "1,330": 72e9 / H100_BYTES * H100_OPS / (2 * 8e9), "4.5": 36 / 8},
        within=2,
    ),
    Given("arithmetic 2 · active · B operations", "a multiplication and an addition"),
    Given("Going from 1 text to 8:", "the prediction"),
    Given("how much longer 8 texts take;", "the prediction"),
    Derived("The second text brings 1.5 more experts", {"1.5": (8 - unused(2, 8, 2)) - 2}),
    Given("k/E = 2/8.", "the shipped mixture"),
    # On a GPU
    Given("Measured on one H200 (4.8 TB/s,", "benchmarks/README.md"),
    Derived(
        "one product of 64 experts, from 2,048 numbers to 1,408, in 16 bits, so 2,048 · 1,408 · 2 B = 5.8 MB an "
        "expert.",
        {"5.8": 2048 * 1408 * 2 / 1e6},
    ),
    Derived(
        "| 8 | 7.6 | 44 | 28 |", {"7.6": 64 - unused(8, 64, 1), "44": (64 - unused(8, 64, 1)) * 2048 * 1408 * 2 / 1e6}
    ),
    Derived(
        "| 128 | 55.5 | 320 | 104 |",
        {"55.5": 64 - unused(128, 64, 1), "320": (64 - unused(128, 64, 1)) * 2048 * 1408 * 2 / 1e6},
    ),
    Derived("| 4,096 | 64 | 369 | 134 |", {"64": 64 - unused(4096, 64, 1), "369": 64 * 2048 * 1408 * 2 / 1e6}),
    Derived(
        "From 128 rows to 4,096 there is 32 times the arithmetic, 1.15 times the weights, and 1.3 times the time:",
        {"32": 4096 / 128, "1.15": 369 / 320, "1.3": 134 / 104},
    ),
    Derived(
        "From 8 rows to 128 the bytes grow 7.3 times and the time only 3.7 times: with 8 experts there",
        {"7.3": 320 / 44, "3.7": 104 / 28},
    ),
    Derived("44 MB in 28 µs are 1.6 TB/s.", {"1.6": 44 / 28}),
    Derived("a third of its bandwidth", {"third": 44e6 / 28e-6 / 4.8e12}, within=0.02),
    # Sigmoid gates
    Derived(
        "with the logits 2, 1.5, 0, −1 of the beginning: σ gives 0.881, 0.818, 0.5, 0.269.",
        dict(zip(("0.881", "0.818", "0.5", "0.269"), GATES, strict=True)),
    ),
    Derived(
        "with shares 0.881/1.699 = 0.52 and 0.48.",
        {
            "1.699": GATES[0] + GATES[1],
            "0.52": GATES[0] / (GATES[0] + GATES[1]),
            "0.48": GATES[1] / (GATES[0] + GATES[1]),
        },
        within=0.006,
    ),
    Derived(
        "has b = −0.4: 0.881 − 0.4 = 0.481 is less than 0.5, so 1 and 2 are chosen, with shares 0.818/1.318 = "
        "0.62 and 0.38.",
        {
            "0.481": GATES[0] - 0.4,
            "1.318": GATES[1] + GATES[2],
            "0.62": GATES[1] / (GATES[1] + GATES[2]),
            "0.38": GATES[2] / (GATES[1] + GATES[2]),
        },
    ),
    Given("multiplies the shares by 2.5 besides.)", "routed_scaling_factor in its config.json"),
    Given("the biases are 256 numbers a layer", "one an expert"),
    # Several GPUs
    Derived(
        "DeepSeek-V3 has D = 7,168 and k = 8, sends 8-bit floats there and 16-bit floats back: 8 · 7,168 · (1 + "
        "2) = 172,032 "
        "bytes, and in its 58 layers with experts 9.98 MB a token.",
        {"172,032": 8 * 7168 * 3, "9.98": 58 * 8 * 7168 * 3 / 1e6},
    ),
    Derived(
        "A GPU that decodes 128 texts sends 1.28 GB in a step: 25.5 ms through a network card of 50 GB/s, 2.8 ms "
        "through links "
        "of 450 GB/s inside a server.",
        {
            "1.28": 128 * 58 * 172_032 / 1e9,
            "25.5": 128 * 58 * 172_032 / 50e9 * 1e3,
            "2.8": 128 * 58 * 172_032 / 450e9 * 1e3,
        },
    ),
    Derived(
        "Reading its share of the experts, 8 of 256 in each layer at a byte a number, is 58 · 8 · 44.0 million = "
        "20.4 GB and "
        "takes 6.1 ms at 3.35 TB/s.",
        {"20.4": 58 * 8 * EXPERT_V3 / 1e9, "6.1": 58 * 8 * EXPERT_V3 / H100_BYTES * 1e3},
    ),
    Given("lets a token go to 4 servers and no more.)", "its report"),
    Derived(
        "the loads of eight experts are 6, 2, 1, 3, 0, 4, 5, 3, on average 3. With a device each the imbalance is "
        "6/3 = 2.",
        {"3": sum(LOADS) / 8, "2": max(LOADS) / (sum(LOADS) / 8)},
    ),
    Derived(
        "8, 4, 4, 8, and 8/6 = 1.33.",
        {"8": PAIRS[0], "4": PAIRS[1], "6": sum(PAIRS) / 4, "1.33": max(PAIRS) / (sum(PAIRS) / 4)},
    ),
    Derived("Paired well, 6 + 0, 5 + 1, 4 + 2, 3 + 3, it is 1.", {"1": max(6 + 0, 5 + 1, 4 + 2, 3 + 3) / 6}),
    Derived(
        "each of 256 positions of a step chooses 8 of 256 experts by chance, 8 positions for each expert on average.",
        {"8": 256 * 8 / 256},
    ),
    Derived("the busiest of 32 devices with 8 experts each?", {"8": 256 / 32}),
    Derived("with 8 choices an expert on average, chance alone makes one of 256 experts", {"8": 256 * 8 / 256}),
    # The two models
    Derived(
        "the target is 12 layers deep, the mixture 8, and the mixture read a quarter more text.",
        {"12": TARGET["shape"]["n_layers"], "8": MIXTURE["mixture"]["shape"]["n_layers"]},
    ),
    Derived(
        "The mixture multiplies 1.5 million parameters a token, the target 2.5.",
        {"1.5": MIXTURE["active_parameters"] / 1e6, "2.5": TARGET["parameters"] / 1e6},
    ),
    Derived(
        "| bits for each byte of plays (fewer is better) | 1.975 | 2.010 |",
        {"1.975": MIXTURE["mixture"]["bits_per_byte_plays"], "2.010": TARGET["bits_per_byte_plays"]},
    ),
    Derived(
        "| bits for each byte of problems | 0.324 | 0.327 |",
        {"0.324": MIXTURE["mixture"]["bits_per_byte_problems"], "0.327": TARGET["bits_per_byte_problems"]},
    ),
    Derived("| sums solved | 82 % | 99 % |", solved("sum")),
    Derived("| differences solved | 58 % | 96 % |", solved("difference")),
    Derived("| fares solved | 96 % | 94 % |", solved("fare")),
    Derived("| comparisons of two numbers solved | 98 % | 97 % |", solved("question")),
    Derived(
        "it is ahead by 2 and by 1 of 100 problems.",
        {
            "2": 100 * (SOLVED["fare"][0] - SOLVED["fare"][1]),
            "1": 100 * (SOLVED["question"][0] - SOLVED["question"][1]),
        },
    ),
    Derived("√(2 · 0.95 · 0.05/100) = 3.1 points,", {"3.1": 100 * math.sqrt(2 * 0.95 * 0.05 / 100)}),
    Given("(problem 3 below).", "a problem's number"),
    # SmolLM2, vLLM
    Given("SmolLM2 has 135 million parameters", "its name"),
    Given("Cut each feed-forward block into 8 slices, as 8 experts,"),
    Given("With k = 8 it is the model as it was."),
    Given("how many of the 8 does it need?"),
    Derived("46.7 billion parameters are 93 GB at 2 bytes.", {"46.7": 1.6 + 8 * 5.64, "93": 2 * (1.6 + 8 * 5.64)}),
    Given("more than 80 GB each.", "671 GB over eight"),
    # Back of the envelope
    Given("8 experts, 2 chosen, 4 texts."),
    Derived(
        "Unused: 8 · 0.75⁴ = 8 · 0.316 = 2.53. Read: 5.47, against 2: 2.7 times the bytes for 4 times the tokens.",
        {"0.316": 0.75**4, "2.53": unused(4, 8, 2), "5.47": 8 - unused(4, 8, 2), "2.7": (8 - unused(4, 8, 2)) / 2},
    ),
    Given(
        "A mixture has 1.6 billion shared parameters and 8 experts of 5.64 billion, k = 2. Memory at 2 bytes, "
        "GPUs of 80 GB, and "
        "the time of a step at batch 1 with 3.35 TB/s? And at 4.5 bits?"
    ),
    Derived(
        "Total 1.6 + 45.1 = 46.7 billion, 93.4 GB, so 2 GPUs. Active 1.6 + 11.3 = 12.9 billion, 25.8 GB to read: "
        "7.7 ms on the "
        "bandwidth of one GPU.",
        {
            "45.1": 8 * 5.64,
            "46.7": 1.6 + 8 * 5.64,
            "93.4": 2 * (1.6 + 8 * 5.64),
            "2": math.ceil(93.4 / 80),
            "11.3": 2 * 5.64,
            "12.9": 1.6 + 2 * 5.64,
            "25.8": 2 * (1.6 + 2 * 5.64),
            "7.7": 25.76e9 / H100_BYTES * 1e3,
        },
    ),
    Derived(
        "At 4.5 bits: 26.3 GB, one GPU, 7.2 GB to read, 2.2 ms.",
        {"26.3": 46.72 * 4.5 / 8, "7.2": 12.88 * 4.5 / 8, "2.2": 12.88e9 * 4.5 / 8 / H100_BYTES * 1e3},
    ),
    Derived(
        "γ = 4, α = 0.8, a draft that costs 0.05 of a pass. A dense model gains 2.80 times",
        {"2.80": sum(0.8**i for i in range(5)) / (1 + 4 * 0.05)},
    ),
    Derived(
        "Five positions read 8 − 8 · 0.75⁵ = 6.1 experts instead of 2: 1.6 + 6.1 · 5.64 = 36.0 billion parameters "
        "instead of "
        "12.9, so a checking pass takes v = 2.8 single ones. 3.3616/(2.8 + 4 · 0.05) = 1.12 times.",
        {
            "6.1": 8 - unused(5, 8, 2),
            "36.0": 1.6 + 6.1 * 5.64,
            "2.8": 36.0 / 12.88,
            "3.3616": sum(0.8**i for i in range(5)),
            "1.12": 3.3616 / (2.8 + 0.2),
        },
    ),
    Given("256 experts, 8 chosen. From how many", "DeepSeek-V3"),
    Derived("so that each expert gets 295, the critical batch of an H100?", {"295": H100_OPS / H100_BYTES}),
    Derived(
        "256 · (31/32)ᴾ = 1 at P = ln 256 / −ln(31/32) = 5.545/0.03175 = 174.7: from 175 on. 295 · 256/8 = 9,440 "
        "positions:",
        {
            "5.545": math.log(256),
            "0.03175": -math.log(31 / 32),
            "174.7": math.log(256) / -math.log(31 / 32),
            "175": math.ceil(math.log(256) / -math.log(31 / 32)),
            "9,440": 295 * 256 / 8,
        },
    ),
    Given('"Our 671-billion model has only 37 billion active parameters, so at 8 bits it needs one 80 GB GPU."'),
    Given("behind a bus of 64 GB/s?", "PCIe 5.0, 16 lanes"),
    Derived("so 671 GB must be at hand: 9 such GPUs,", {"9": math.ceil(671 / 80)}),
    Derived("up to 37 GB have to be fetched for each token: 0.58 s,", {"0.58": 37 / 64}),
    Given("A mixture with D = 4,096, k = 2, 32 layers, all of them with experts, 16-bit numbers both ways."),
    Given("For a step of 256 texts on one device, at 50 GB/s?"),
    Derived(
        "2 · 4,096 · (2 + 2) · 32 = 1.05 MB. 256 of them are 268 MB: 5.4 ms.",
        {
            "1.05": 2 * 4096 * 4 * 32 / 1e6,
            "268": 256 * 2 * 4096 * 4 * 32 / 1e6,
            "5.4": 256 * 2 * 4096 * 4 * 32 / 50e9 * 1e3,
        },
    ),
    Derived(
        "Dense 8B with B = 16 against the 36-billion mixture with B = 72, both reading 1 GB a token. Caches of "
        "1.074 GB a text.",
        {"1": 72 / 72, "1.074": CACHE_8B},
    ),
    Derived(
        "16 + 17.2 = 33 GB, one GPU of 80 GB. 72 + 77.3 = 149 GB, two, nearly full. The same bytes for each "
        "token, 4.5 times the "
        "memory.",
        {
            "17.2": 16 * CACHE_8B,
            "33": 16 + 16 * CACHE_8B,
            "77.3": 72 * CACHE_8B,
            "149": 72 + 72 * CACHE_8B,
            "4.5": 149.3 / 33.2,
        },
    ),
    *(Given(f"**{number}.**", "a problem's number") for number in range(2, 8)),
    # Check yourself, the interview
    Given("at batch 64 like a large one.", "from about 32 on"),
    Given("256 positions, 256 experts, 8 chosen:", "the table"),
    Derived("Each expert works for 8 positions only:", {"8": 256 * 8 / 256}),
    Given('"We can serve a dense 8B model or a mixture with 36 billion parameters and 8 active.', "the example"),
    Derived("16 GB against 72 GB at 2 bytes:", {"16": 2 * 8, "72": 2 * 36}),
    Given("at p95 context with 10 to 20 % kept free", "usual"),
    Derived(
        "alone 16 GB either way; at 16 texts 64 against 16. The same bytes a token need 4.5 times the batch,",
        {"64": read_gb(16), "16": read_gb(1), "4.5": 36 / 8},
    ),
    Derived("the mixture is as cheap as 8B.", {"8": S + K * X}),
    Given("say 15 to 20B,", "a guess that is called one"),
    Given("4-bit experts", "a choice"),
    *(Given(f"({seconds} seconds)", "three minutes in all") for seconds in (30, 45)),
    # The written questions
    Given("Evaluate for S = 4, X = 2 billion, E = 16, k = 2.", "the example"),
    Derived("total/active = 36/8 = 4.5.", {"36": S + E * X, "8": S + K * X, "4.5": (S + E * X) / (S + K * X)}),
    Given("Mark scheme (8).", "marks"),
    Given("at most 1 of its 3.", "marks"),
    Given(r"\sum_e \bar p_e^2", "the formula"),
    Given("(Σ p̄_e · 1)² ≤ E Σ p̄_e²", "the formula"),
    Given("(0.26, 0.25, 0.25, 0.24 at every position)", "an example"),
    Given("Mark scheme (5).", "marks"),
    *(
        Given(part, "a year")
        for part in (
            "et al. 2017,",
            "Shazeer 2021,",
            "et al. 2024,",
            "DeepSeek-AI 2024,",
            "et al. 2020,",
            "Jiang 2024,",
        )
    ),
]
