"""Every figure in the text of week 5, derived anew."""

import math

from .literals import Derived, Given

H100_BYTES, H100_OPS, H100_OPS_8 = 3.35e12, 989e12, 1979e12
MULTIPLIED = 7.5e9  # weights of an 8B model that a pass multiplies with
CACHE = 32 * 2 * 8 * 128 * 2  # bytes a token, 16 bits


def largest_of(n):
    """The mean of the largest absolute value of n normal numbers: the integral of P(largest > x)."""
    step = 1e-3
    return step * sum(1 - math.erf(i * step / math.sqrt(2)) ** n for i in range(10_000))


def q(bits):
    return 2 ** (bits - 1) - 1


def error(sizes, bits):
    """Root mean square of rounding, a share of the row's size, if the largest is so many sizes."""
    return sizes / q(bits) / math.sqrt(12)


def back(weights, bits):
    """What absmax gives back: (scale, codes, weights)."""
    scale = max(map(abs, weights)) / q(bits)
    codes = [round(w / scale) for w in weights]
    return scale, codes, [c * scale for c in codes]


def read(bits, gigabytes=15):
    """Milliseconds to read 15 GB of 16-bit weights, in other bits, on an H100."""
    return gigabytes * bits / 16 * 1e9 / H100_BYTES * 1e3


EIGHT, FOUR, OTHERS = back([0.5, -1.27, 0.02], 8), back([0.5, -1.27, 0.02], 4), back([0.7, -0.23, 0.04, 0.38], 4)
TRY_4, TRY_2 = back([0.06, -0.35, 0.21], 4), back([0.06, -0.35, 0.21], 2)
ASYMMETRIC = [-0.3, 1.2, 0.5, 0.07]
ZERO_SCALE = (max(ASYMMETRIC) - min(ASYMMETRIC)) / (2**4 - 1)
ZERO = round(-min(ASYMMETRIC) / ZERO_SCALE)
ZERO_CODES = [round(w / ZERO_SCALE) + ZERO for w in ASYMMETRIC]
SYMMETRIC = back(ASYMMETRIC, 4)
FP4 = sorted({sign * mantissa for sign in (1, -1) for mantissa in (0, 0.5, 1, 1.5, 2, 3, 4, 6)})
MX_SCALE = 2.0 ** (math.floor(math.log2(0.7)) - math.floor(math.log2(6)))
MX = [min(FP4, key=lambda mark, w=w: abs(w / MX_SCALE - mark)) for w in (0.7, -0.23, 0.04, 0.38)]
NAPKIN_SCALE = 40 * largest_of(768) / 127
MATRIX_SIZE = math.sqrt((3 * 40**2 + 61) / 64)

TABLE = [
    # The ruler and the rows by hand
    Derived("a whole number from −7 to 7.", {"7": q(4)}),
    Derived(
        "Eight bits give q = 2⁷ − 1 = 127. The largest in absolute value is 1.27, so the scale is 1.27/127 = 0.01.",
        {"127": q(8), "0.01": EIGHT[0]},
    ),
    Derived("The codes are 0.5/0.01 = 50, −127 and 2.", {"50": EIGHT[1][0], "−127": EIGHT[1][1], "2": EIGHT[1][2]}),
    Given("The weights 0.5, −1.27, 0.02.", "an example"),
    Given("Times 0.01 they give", "the scale of the line before"),
    Derived(
        "q = 2³ − 1 = 7. The scale is 1.27/7 = 0.181. 0.5/0.181 = 2.76, code 3; −7;",
        {"7": q(4), "0.181": FOUR[0], "2.76": 0.5 / FOUR[0], "3": FOUR[1][0], "−7": FOUR[1][1]},
    ),
    Derived("0.02/0.181 = 0.11, code 0.", {"0.11": 0.02 / FOUR[0]}),
    Derived(
        "Back come 3 · 0.1814 = 0.544, −1.27 and 0.", {"0.1814": FOUR[0], "0.544": FOUR[2][0], "−1.27": FOUR[2][1]}
    ),
    Given("0.7, −0.23, 0.04, 0.38, the row of the picture.", "an example"),
    Derived(
        "The scale is 0.7/7 = 0.1, the codes 7, −2, 0 and 4.",
        {"0.1": OTHERS[0], "−2": OTHERS[1][1], "4": OTHERS[1][3]},
    ),
    Derived("Back come 0.7, −0.2, 0, 0.4.", {"0.7": OTHERS[2][0], "−0.2": OTHERS[2][1], "0.4": OTHERS[2][3]}),
    Derived(
        "The errors are 0, 0.03, −0.04 and 0.02, none above 0.05:",
        {"0.03": OTHERS[2][1] + 0.23, "−0.04": OTHERS[2][2] - 0.04, "0.02": OTHERS[2][3] - 0.38, "0.05": OTHERS[0] / 2},
    ),
    Derived(
        "0.7 − 0.23 + 0.04 + 0.38 = 0.89 and gives 9 · 0.1 = 0.90.",
        {"0.89": 0.7 - 0.23 + 0.04 + 0.38, "9": sum(OTHERS[1]), "0.90": sum(OTHERS[2])},
    ),
    Derived("Why −7 and not −8? Four bits have 16 patterns,", {"16": 2**4, "−8": -(q(4) + 1)}),
    Given("Try one yourself: 0.06, −0.35, 0.21, once with 4 bits, once with 2.", "an example"),
    Derived(
        "scale 0.35/7 = 0.05; 0.06/0.05 = 1.2, code 1; −7; 0.21/0.05 = 4.2, code 4. Back: 0.05, −0.35, 0.20.",
        {"0.05": TRY_4[0], "1.2": 0.06 / TRY_4[0], "4.2": 0.21 / TRY_4[0], "4": TRY_4[1][2], "0.20": TRY_4[2][2]},
    ),
    Derived(
        "the scale is 0.35: 0.06/0.35 = 0.17 becomes 0, then −1, and 0.21/0.35 = 0.6 becomes 1. Back: 0, −0.35, 0.35.",
        {"0.17": 0.06 / TRY_2[0], "0.6": 0.21 / TRY_2[0], "1": TRY_2[1][2], "−0.35": TRY_2[2][1]},
    ),
    Given(
        "The weights 0.7, -0.23, 0.04 and 0.38 above three rulers of equal length. With 4 bits the ruler has fifteen "
        "marks and each weight moves a little to the nearest. With 3 bits it has seven marks, with 2 bits three: -0.23 "
        "and 0.04 fall to 0.",
        "the row by hand; 2 · 7 + 1, 2 · 3 + 1 and 2 · 1 + 1 marks",
    ),
    Given("the largest code, 2^(b−1) − 1", "the definition"),
    Given(r"q = 2^{b-1} - 1", "the definition"),
    Given(r"\tfrac{1}{2} s", "the definition: the nearest mark"),
    Given(r"\frac{\max - \min}{2^b - 1}", "the definition"),
    Given("q = 2^(b−1).", "a mistake"),
    Given("Codes from −8 to 7.", "a mistake"),
    # Exercises
    Given("q for 8, 7, 4, 3 and 2 bits, and the refusal of bits that are not a whole number from 2 to 8.", "the tests"),
    Given("What is left to refuse is above 8.", "the docstring"),
    Given("and bits outside 2 to 8.", "the docstring"),
    Given("2 to 8 bits against a loop", "the tests"),
    Derived("As int8 the number 130 would be −126,", {"−126": 130 - 256}),
    Given("(3, 4) against (3, 3),", "the tests"),
    Given("Groups of 128, 32 and 16, a row of 4,096,", "the tests"),
    Given("that are not a whole number of at least 2 |", "the helper"),
    Derived("all 256 pairs", {"256": 16 * 16}),
    Derived("all 256 bytes", {"256": 2**8}),
    Derived("In uint8, 1 − 8 is 249:", {"249": (1 - 8) % 256}),
    Given("add 8 first,", "the docstring"),
    Given("8, 4, 3 and 2 bits with a scale a row", "the tests"),
    Given("Codes of 8 bits are not packed,", "the docstring"),
    Derived("// 21 candidates.", {"21": 20 + 1}),
    Derived(
        '"4 bits" on a label may be 4.125 or 5. With 70 billion weights that is a difference of 7.7 GB.',
        {"4.125": 4 + 16 / 128, "5": (2 + 2 + 16) * 8 / 32, "7.7": 70 * (5 - 4.125) / 8},
    ),
    # Who shares a scale
    Given("of, say, 32 or 128 neighbours", "usual sizes"),
    Given("A matrix of 64 rows and 256 columns holds normal random numbers. Three of its rows are 40 times as large."),
    Derived("is about 3 %.", {"3 %": 100 * NAPKIN_SCALE / math.sqrt(12) / MATRIX_SIZE}, within=0.55),
    Derived(
        "the largest of 768 normal numbers is 3.36 sizes on average, so here 40 · 3.36 = 134, and the scale is 134/127 "
        "= 1.06.",
        {"768": 3 * 256, "3.36": largest_of(768), "134": 40 * 3.36, "1.06": NAPKIN_SCALE},
    ),
    Derived(
        "whose root mean square is s/√12 = 0.31. An ordinary row has size 1: 31 %.",
        {"0.31": NAPKIN_SCALE / math.sqrt(12), "31 %": 100 * NAPKIN_SCALE / math.sqrt(12)},
    ),
    Given("between −s/2 and s/2,", "half a scale to either side"),
    Derived(
        "√((3 · 40² + 61 · 1²)/64) = 8.7, and 0.31/8.7 = 0.035.",
        {"61": 64 - 3, "8.7": MATRIX_SIZE, "0.035": NAPKIN_SCALE / math.sqrt(12) / MATRIX_SIZE},
    ),
    Derived(
        "the largest of 256 normal numbers is 3.04 sizes on average, the scale 3.04/127, and the error "
        "(3.04/127)/√12 = 0.0069 of the row.",
        {"3.04": largest_of(256), "0.0069": error(largest_of(256), 8)},
    ),
    Derived(r"4 + \frac{16}{128} = 4.125", {"4.125": 4 + 16 / 128}),
    Derived("With groups of 128, 4-bit codes cost", {"128": 2**7}),
    Derived(
        "Groups of 32 cost 4.5. A row of 4,096 in 8 bits costs 8 + 16/4096 = 8.004.",
        {"4.5": 4 + 16 / 32, "8.004": 8 + 16 / 4096},
    ),
    Derived(
        "A released mixture of experts has 117 billion parameters. At 16 bits they take 117 · 10⁹ · 2 = 234 GB. "
        "At 4 bits it is 117 · 10⁹ · 4/8 = 58.5 GB, and with scales for groups of 32, 117 · 10⁹ · 4.5/8 = 65.8 GB. "
        "That fits on one GPU of 80 GB, with 14 GB left for caches.",
        {"234": 117 * 2, "58.5": 117 / 2, "65.8": 117 * 4.5 / 8, "14": 80 - 117 * 4.5 / 8},
    ),
    Derived(
        "You may spend 4 bits a weight, all in all. Do you take 3-bit codes in groups of 16 (3 + 16/16 = 4), or "
        "4-bit codes with one scale for a whole row of 384 (4 + 16/384 = 4.04)?",
        {"4": 3 + 16 / 16, "4.04": 4 + 16 / 384},
    ),
    Derived(
        "q goes from 3 to 7. A scale of its own for 16 weights only shrinks it from the largest of a row to the "
        "largest "
        "of 16. In numbers shaped like a bell that is from 3.17 sizes on average to 2.08, by a third.",
        {"3": q(3), "7": q(4), "3.17": largest_of(384), "2.08": largest_of(16)},
    ),
    Derived("by a third.", {"third": 1 - largest_of(16) / largest_of(384)}, within=0.02),
    Given("groups of 32 to 128 are usual at 4 bits, and hardly anybody needs them at 8.", "usual sizes"),
    # Two codes in a byte
    Derived("store code + 8, a number from 0 to 15.", {"8": 2**3, "15": 2**4 - 1}),
    Derived(
        "the codes 3, −7, 0, 5 are stored as 11, 1, 8, 13. The bytes are 11 + 16 · 1 = 27 and 8 + 16 · 13 = 216.",
        {"11": 3 + 8, "1": -7 + 8, "13": 5 + 8, "27": 11 + 16, "216": 8 + 16 * 13},
    ),
    # Multiplying with codes
    Given("its own in C, for 8 bits and for 4, which", "nanolm/kernels/products.c"),
    Derived("A layer of 4,096 × 4,096 weights is 67 MB in float32,", {"67": 4096**2 * 4 / 1e6}),
    Derived("with 8-bit codes (17 MB),", {"17": 4096**2 * (8 + 16 / 4096) / 8 / 1e6}),
    Derived("in groups of 128 (8.7 MB)?", {"8.7": 4096**2 * 4.125 / 8 / 1e6}),
    Given("when it reads the 256 positions of a prompt?"),
    Given("Around 4 rows float32", "seen on one machine with AVX-512"),
    Derived("while the 67 MB cannot.", {"67": 4096**2 * 4 / 1e6}),
    Given("With 256 rows each weight that was read is used 256 times.", "once for each row"),
    Derived(
        "29 times its size.", {"29": (2 * (2048 * (16 + 2 * 4 + 16) * 128 + 3 * 2048 * 4096) + 1024 * 2048) / 2_493_568}
    ),
    Derived("the shipped target, 10 MB in float32,", {"10": 2_493_568 * 4 / 1e6}),
    Given("at batch 1?", "the smallest"),
    Given("What holds for a 70B model", "a usual size"),
    Derived(
        "An 8B model multiplies with 7.5 · 10⁹ weights: 15 GB in 16 bits, 4.48 ms at 3.35 TB/s. In 8 bits it is 2.24 "
        "ms, in 4 bits with groups of 128 15 · 4.125/16 = 3.87 GB and 1.15 ms.",
        {"15": MULTIPLIED * 2 / 1e9, "4.48": read(16), "2.24": read(8), "3.87": 15 * 4.125 / 16, "1.15": read(4.125)},
    ),
    Derived("up to 3.9× |", {"3.9": 16 / 4.125}),
    Derived("up to 2× |", {"2": 16 / 8}),
    Given("has both in 8.", "the name says it"),
    # The evaluation
    Derived("We take 200, 50 of each kind,", {"200": 4 * 50}),
    Given("We take 16 windows of 256 tokens,"),
    Derived("2 to the power of the bits per *token*.", {"2": 2}),
    Derived("a perplexity of 2² = 4.", {"4": 2**2}),
    Derived("A share near 96 % of 200 problems", {"200": 4 * 50}),
    Derived(
        "√(0.96 · 0.04/200) = 1.4 points; near 80 % it is 2.8.",
        {"1.4": 100 * math.sqrt(0.96 * 0.04 / 200), "2.8": 100 * math.sqrt(0.8 * 0.2 / 200)},
    ),
    Given("measures all 400 problems and 96 windows.", "benchmarks/quantization_quality.py"),
    Derived("these 200 problems and 32 windows", {"32": 2 * 16}),
    Given("200 problems are too few"),
    Given("with weights of 8, 4, 3 and 2 bits, one scale a row?"),
    # Other rulers
    Given("By hand, −0.3, 1.2, 0.5, 0.07 in 4 bits:", "an example"),
    Derived(
        "s = 1.5/15 = 0.1, z = 3, the codes are 0, 15, 8 and 4, and back come −0.3, 1.2, 0.5, 0.1.",
        {
            "0.1": ZERO_SCALE,
            "3": ZERO,
            "15": ZERO_CODES[1],
            "8": ZERO_CODES[2],
            "4": ZERO_CODES[3],
            "−0.3": (ZERO_CODES[0] - ZERO) * ZERO_SCALE,
            "1.2": (ZERO_CODES[1] - ZERO) * ZERO_SCALE,
            "0.5": (ZERO_CODES[2] - ZERO) * ZERO_SCALE,
        },
    ),
    Derived(
        "Symmetric, s = 1.2/7 = 0.171: back come −0.343, 1.2, 0.514 and 0.",
        {"0.171": SYMMETRIC[0], "−0.343": SYMMETRIC[2][0], "1.2": SYMMETRIC[2][1], "0.514": SYMMETRIC[2][2]},
    ),
    Derived("puts its 16 marks where", {"16": 2**4}),
    Given("A block of 64 weights", "QLoRA, section 3"),
    Derived("With a scale of 32 bits that is 4 + 32/64 = 4.5 bits;", {"4.5": 4 + 32 / 64}),
    Derived("to 8 bits in blocks of 256: 4 + 8/64 + 32/(64 · 256) = 4.127.", {"4.127": 4 + 8 / 64 + 32 / (64 * 256)}),
    Derived(
        "0, 0.5, 1, 1.5, 2, 3, 4, 6 and the same below zero.",
        {"0.5": 0.5, "1.5": 1 + 0.5, "2": 2, "3": 2 * 1.5, "4": 4, "6": 4 * 1.5},
    ),
    Derived(
        "takes blocks of 32 and a scale of 8 bits that is a power of two: 4 + 8/32 = 4.25 bits.", {"4.25": 4 + 8 / 32}
    ),
    Derived("takes blocks of 16 and a scale that is an 8-bit float itself: 4 + 8/16 = 4.5,", {"4.5": 4 + 8 / 16}),
    Derived(
        "The 117-billion mixture above was released in MXFP4: 117 · 10⁹ · 4.25/8 = 62.2 GB", {"62.2": 117 * 4.25 / 8}
    ),
    Derived(
        "a block whose largest is 0.7, in MXFP4: the power of two below it is 2⁻¹, that of the largest mark, 6, is 2², "
        "so the scale is 2⁻¹/2² = 0.125.",
        {"0.125": MX_SCALE},
    ),
    Derived(
        "0.7/0.125 = 5.6 becomes 6, −1.84 becomes −2, 0.32 becomes 0.5, 3.04 becomes 3.",
        {
            "5.6": 0.7 / MX_SCALE,
            "6": MX[0],
            "−1.84": -0.23 / MX_SCALE,
            "−2": MX[1],
            "0.32": 0.04 / MX_SCALE,
            "0.5": MX[2],
            "3.04": 0.38 / MX_SCALE,
            "3": MX[3],
        },
    ),
    Derived(
        "Back come 0.75, −0.25, 0.0625 and 0.375.",
        dict(zip(("0.75", "−0.25", "0.0625", "0.375"), (mark * MX_SCALE for mark in MX), strict=True)),
    ),
    Derived("| int4, absmax | equal steps | 32 | 16-bit float | 4 + 16/32 = 4.5 |", {"4.5": 4 + 16 / 32}),
    Derived(
        "| int4, zero point | equal steps | 32 | 16-bit float, 4-bit z | 4 + 20/32 = 4.625 |",
        {"20": 16 + 4, "4.625": 4 + 20 / 32},
    ),
    Derived("| NF4 | like a bell | 64 | 32-bit float | 4 + 32/64 = 4.5 |", {"4.5": 4 + 32 / 64}),
    Derived("| NF4, scales rounded | like a bell | 64 | 8 bits | 4.127 |", {"4.127": 4 + 8 / 64 + 32 / (64 * 256)}),
    Derived("| MXFP4 | 4-bit floats | 32 | power of two, 8 bits | 4.25 |", {"4.25": (32 * 4 + 8) / 32}),
    Derived("| NVFP4 | 4-bit floats | 16 | 8-bit float | 4.5 |", {"4.5": (16 * 4 + 8) / 16}),
    # The cache
    Derived("Between about 0.016 and 448 a number is off", {"0.016": 2.0**-6, "448": 1.75 * 2**8}),
    Derived("1/254 of the *largest of its row*.", {"254": 2 * q(8)}),
    Derived(
        "32 layers · 2 · 8 heads · 128 numbers are 65,536 a token; times 8,192 · 16 tokens and 2 bytes, 17.18 GB. "
        "In FP8 "
        "it is half, 8.59 GB; in int8 130 bytes in place of 256, 8.72 GB.",
        {
            "65,536": 32 * 2 * 8 * 128,
            "17.18": CACHE * 8192 * 16 / 1e9,
            "8.59": CACHE * 8192 * 8 / 1e9,
            "130": 128 + 2,
            "256": 2 * 128,
            "8.72": CACHE * 8192 * 16 / 1e9 * 130 / 256,
        },
    ),
    Given("a sign, 4 bits of exponent, 3 of mantissa.", "E4M3"),
    # W8A8
    Given("compute capability 8.9", "NVIDIA"),
    Given("On an H100 both are 1,979 · 10¹² operations a second against 989 · 10¹².", "NVIDIA's data sheet, dense"),
    Derived(
        "2 · 7.5 · 10⁹ · 1,000 = 1.5 · 10¹³ operations, takes 15.2 ms in 16 bits and 7.6 ms in 8. Weight-only "
        "int8 leaves "
        "it at 15.2.",
        {
            "1.5 · 10¹³": 2 * MULTIPLIED * 1000,
            "15.2": 2 * MULTIPLIED * 1000 / H100_OPS * 1e3,
            "7.6": 2 * MULTIPLIED * 1000 / H100_OPS_8 * 1e3,
        },
    ),
    Derived(
        "127 · 127 · 384 = 6,193,536, far below 2²⁴ = 16,777,216,", {"6,193,536": 127**2 * 384, "16,777,216": 2**24}
    ),
    Derived("E4M3 has 3 bits of mantissa and int8 up to 7 for the largest numbers:", {"7": math.log2(q(8) + 1)}),
    Given("For that x has to be 8 bits too,"),
    Given("8 bits are not always 8 bits."),
    # Calibrated rounding
    Derived(
        "Take the weights 0.7, 0.26, 0.26 with scale 0.1, and let inputs 2 and 3 always be equal, say 1. Together they "
        "should give 0.52. Plain rounding makes both 0.3 and gives 0.60, off by 0.08.",
        {"0.52": 0.26 + 0.26, "0.3": round(0.26 / 0.1) * 0.1, "0.60": 2 * 0.3, "0.08": 0.6 - 0.52},
    ),
    Derived(
        "0.26 becomes 0.3, too much by 0.04. Since the third always comes along with it, take those 0.04 out of the "
        "third: 0.26 − 0.04 = 0.22, which rounds to 0.2. Together 0.50, off by 0.02.",
        {
            "0.04": 0.3 - 0.26,
            "0.22": 0.26 - 0.04,
            "0.2": round(0.22 / 0.1) * 0.1,
            "0.50": 0.3 + 0.2,
            "0.02": 0.52 - 0.5,
        },
    ),
    Derived("by 1 · (0.26 − 0.30) = −0.04.", {"−0.04": 0.26 - 0.30}),
    Given("175 billion weights went to 4 bits in hours on one GPU; many published 4-bit", "Frantar 2022, abstract"),
    Derived(
        "With scale 0.1 a weight of 0.26 becomes 0.3; as 0.52 it becomes 0.5, which is 0.25 of the old ones.",
        {"0.3": round(2.6) * 0.1, "0.52": 2 * 0.26, "0.5": round(5.2) * 0.1, "0.25": 0.5 / 2},
    ),
    Given("Multiply such a column by 2 before"),
    Given("let the layer divide that input by 2:"),
    Derived("1,536 tokens of each.", {"1,536": 6 * 256}),
    Given("At 2 or 3 bits it can be better"),
    Derived(
        "A block is 2 + 2 + 16 = 20 bytes for 32 weights, 20 · 8/32 = 5 bits each.",
        {"16": 32 / 2, "20": 2 + 2 + 16, "5": 20 * 8 / 32},
    ),
    Derived("with codes 0 … 15.", {"15": 2**4 - 1}),
    Derived("weights 0 to 15, the high ones 16 to 31.", {"15": 32 / 2 - 1, "31": 32 - 1}),
    Given("keep weights in blocks of 32,", "the format"),
    Given("SmolLM2 has 135 million parameters", "its name"),
    Derived("already means numbers of 5 bits.", {"5": 20 * 8 / 32}),
    Given("In groups of 32 the cell rounds them again, to 8, 4, 3 and 2 bits,"),
    # Back of the envelope
    Given("An H100 has 80 GB and 3.35 TB/s.", "NVIDIA's data sheet"),
    Derived(
        "70 · 10⁹ · 4.125/8 = 36.1 GB. In 8 bits 70 GB (the scales of long rows hardly count), in 16 bits 140.",
        {"36.1": 70 * 4.125 / 8, "70": 70, "140": 70 * 2},
    ),
    Given("A 70B model in 4 bits with groups of 128 and 2-byte scales. How many GB? In 8 bits? In 16?"),
    Derived(
        "An 8B model reads 15 GB of weights in a pass (16 bits), and 1.074 GB of cache for a text of 8,192 tokens.",
        {"15": MULTIPLIED * 2 / 1e9, "1.074": CACHE * 8192 / 1e9},
    ),
    Given("with 8-bit weights, with 4-bit weights (4.125 bits), and with an 8-bit cache"),
    Derived(
        "4.48 + 0.32 = 4.80 ms. 2.24 + 0.32 = 2.56 ms. With 4-bit weights, 3.87 GB, 1.15 + 0.32 = 1.47 ms; with "
        "the 8-bit "
        "cache 1.15 + 0.16 = 1.31 ms.",
        {
            "0.32": CACHE * 8192 / H100_BYTES * 1e3,
            "4.80": read(16) + CACHE * 8192 / H100_BYTES * 1e3,
            "2.56": read(8) + CACHE * 8192 / H100_BYTES * 1e3,
            "1.47": read(4.125) + CACHE * 8192 / H100_BYTES * 1e3,
            "1.31": read(4.125) + CACHE * 8192 / 2 / H100_BYTES * 1e3,
        },
        within=0.0101,
    ),
    Derived(
        "From 4.80 to 1.47 is a factor of 3.3, though the weights shrank 3.9-fold:",
        {"3.3": 4.8 / 1.47, "3.9": 16 / 4.125},
    ),
    Given(
        "How many such texts of 8,192 tokens fit beside the weights of an 8B model (16 GB in 16 bits) on 80 GB? "
        "And with 8 bits"
    ),
    Derived(
        "(80 − 16)/1.074 = 59.6, so 59. (80 − 8)/0.537 = 134.1, so 134.",
        {
            "59.6": 64e9 / (CACHE * 8192),
            "59": 64e9 // (CACHE * 8192),
            "0.537": CACHE * 8192 / 2e9,
            "134.1": 72e9 / (CACHE * 4096),
            "134": 72e9 // (CACHE * 4096),
        },
    ),
    Derived(
        "A prompt of 1,000 tokens, the same 8B model (7.5 · 10⁹ weights that are multiplied): 1.5 · 10¹³ "
        "operations at 989 · "
        "10¹² a second are 15.2 ms. What do weight-only int8 and W8A8 (1,979 · 10¹²) make of it?",
        {"1.5 · 10¹³": 2 * MULTIPLIED * 1000, "15.2": 2 * MULTIPLIED * 1e3 / H100_OPS * 1e3},
    ),
    Derived("15.2 ms at best. Loading takes 2.24 ms in place of 4.48,", {"2.24": read(8), "4.48": read(16)}),
    Derived("W8A8: 7.6 ms.", {"7.6": 2 * MULTIPLIED * 1e3 / H100_OPS_8 * 1e3}),
    Derived("rows of 4,096, whose largest is 3.8 sizes on average.", {"3.8": largest_of(4096)}),
    Given("do you expect in 8, 4 and 3 bits,"),
    Derived(
        "s/√12 with s = 3.8/q: q = 127: 0.9 %. q = 7: 16 %. q = 3: 37 %.",
        {"0.9 %": 100 * error(3.8, 8), "16 %": 100 * error(3.8, 4), "37 %": 100 * error(3.8, 3)},
    ),
    Given("(At 3 bits nearly all codes"),
    Given("A 70B model in MXFP4, in NVFP4, in NF4 with rounded scales (4.127):"),
    Derived(
        "70 · 10⁹ · 4.25/8 = 37.2 GB, 70 · 10⁹ · 4.5/8 = 39.4 GB, 70 · 10⁹ · 4.127/8 = 36.1 GB.",
        {"37.2": 70 * 4.25 / 8, "39.4": 70 * 4.5 / 8, "36.1": 70 * 4.127 / 8},
    ),
    Given('"our 4-bit model loses 0.4 points on average over twelve benchmarks."'),
    Derived("Eleven unchanged and one down by 4.8 points", {"4.8": 12 * 0.4}),
    Given("A matrix has an overall error of 3 %.", "as in the first prediction"),
    # The interview
    Given('"Our 70B model runs on two 80 GB GPUs in 16 bits. Somebody wants it on one, in 4 bits.'),
    Derived("Two GPUs hold 140 GB", {"140": 70 * 2}),
    Derived(
        "4.125 bits: 36 GB. Keep 10 % of the GPU free: 72 − 36 = 36 GB for caches, at 80 layers · 2 · 8 heads · "
        "128 numbers "
        "· 2 B = 328 KB a token 13 texts of 8,192 tokens,",
        {
            "36": 70 * 4.125 / 8,
            "72": 0.9 * 80,
            "328": 80 * 2 * 8 * 128 * 2 / 1e3,
            "13": (72 - 70 * 4.125 / 8) * 1e9 // (80 * 2 * 8 * 128 * 2 * 8192),
        },
    ),
    Given("8 bits would need 70 GB: no room.", "70 · 10⁹ bytes of 72 GB"),
    Derived(
        "Two GPUs read 140 GB at 6.7 TB/s in 20.9 ms, one reads 36 GB in 10.8 ms: 1.9 times as fast at batch 1, "
        "not 3.9.",
        {
            "6.7": 2 * 3.35,
            "20.9": 140 / 6.7,
            "10.8": 36.1 / 3.35,
            "1.9": (140 / 6.7) / (36.1 / 3.35),
            "3.9": 16 / 4.125,
        },
    ),
    # The written question
    Given("codes (1, 1), scales (1, 10). x = (1, 0) gives 1 and x = (0, 1) gives 10,", "an example"),
    Given("that it does not depend on j, 2; codes in the inner loop, 1.", "marks"),
    Given("Mark scheme (8).", "marks"),
    Given("at most 3.", "marks"),
    # Seconds in which to say it
    *(Given(f"({seconds} seconds)", "three minutes in all") for seconds in (15, 30, 40, 45)),
    Derived("GB is 10⁹ bytes", {"10⁹": 1e9}),
    Given("int8 on NVIDIA GPUs since 2018,", "Turing"),
    Given("A thousand-token prefill of an 8B model,", "a usual size"),
    Given("*gpt-oss-120b and gpt-oss-20b model card*", "names"),
    Given("the 117-billion mixture, its experts in MXFP4.", "its model card"),
    *(Given(f"**{number}.**", "a problem's number") for number in range(2, 8)),
    *(
        Given(part, "a year")
        for part in (
            "Zettlemoyer 2022,",
            "Alistarh 2022,",
            "Lin et al. 2023,",
            "Shen et al. 2020,",
            "Micikevicius et al. 2022,",
            "Xiao et al. 2022,",
            "Zettlemoyer 2023,",
            "Rouhani et al. 2023,",
            "OpenAI 2025,",
        )
    ),
    # Names of formats and ways, wherever they stand
    *(
        Given(name, "the name of a format or a way")
        for name in (
            "8 and 4 bits",
            "3 and 2 bits",
            "16, 3 and 2 bits",
            "8 bits",
            "4 bits",
            "3 bits",
            "2 bits",
            "16 bits",
            "32 bits",
            "8-bit",
            "4-bit",
            "3-bit",
            "16-bit",
            "32-bit",
            "80 GB",
        )
    ),
]
