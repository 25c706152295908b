"""The figures of week 1: two numbers of a chip, two of a model, and division."""

from math import floor

from nanolm.budget import H100, H200, LLAMA_3_8B

from .literals import Derived, Given

W, P = 3.35e12, 1e15  # the H100 of the text, its peak rounded
ALL, N = 8e9, 7.5e9  # parameters of the 8B; those multiplied
READ, ONE = 2 * N / W * 1e3, 2 * N / P * 1e3  # ms: all weights once; one position's arithmetic
RIDGE = P / W
PER_POSITION = 4 * 32 * 4096  # attention's operations for one position seen, 32 layers of width 4,096
SHARE = PER_POSITION * 512.5 / (2 * N)
CACHE = 2 * 32 * 8 * 128 * 2  # bytes a token
CHOSEN = "chosen for the example"
UNIT = "what a unit or a letter means"
TESTED = "what the tests of the exercise use"
TIME = "measured on one two-core machine"
MINUTES = "a plan for three minutes"

TABLE = [
    # The idea, the legend
    Given("A model of 8·10⁹ parameters, 2 bytes each. An H100 reads 3.35·10¹² bytes a second", "NVIDIA's data sheet"),
    Derived("rounded, 10¹⁵ operations a second", {"10¹⁵": round(H100.peak_flops_per_second, -14)}),
    Given("GB is 10⁹ bytes; GiB would be 2³⁰.", UNIT),
    # By hand
    Given("8·10⁹ parameters of 2 bytes, W = 3.35 TB/s, and P rounded to 10¹⁵ operations a second."),
    Given("decode, 1 position | prefill, 1,000 positions"),
    Derived("bytes of weights to read | 16·10⁹ | 16·10⁹", {"16·10⁹": 2 * ALL}),
    Derived("reading, bytes / W | **4.78 ms** | 4.78 ms", {"4.78": 2 * ALL / W * 1e3}),
    Derived(
        "operations, 2 · 8·10⁹ · positions | 1.6·10¹⁰ | 1.6·10¹³", {"1.6·10¹⁰": 2 * ALL, "1.6·10¹³": 2 * ALL * 1000}
    ),
    Derived(
        "arithmetic, operations / P | 0.016 ms | **16.0 ms**",
        {"0.016": 2 * ALL / P * 1e3, "16.0": 2 * ALL * 1000 / P * 1e3},
    ),
    Derived("operations a byte | 1 | 1,000 |", {"1,000": 1000 * 2 * ALL / (2 * ALL)}),
    Derived(
        "So a decode pass takes 4.78 ms, and no more than 209 tokens a second can come out",
        {"4.78": 2 * ALL / W * 1e3, "209": W / (2 * ALL)},
    ),
    Derived("The prefill takes 16.0 ms for a thousand tokens.", {"16.0": 2 * ALL * 1000 / P * 1e3}),
    Derived(
        "This chip does 10¹⁵ operations in the second in which it reads 3.35·10¹² bytes: 298.5 for each byte",
        {"298.5": RIDGE},
    ),
    Derived("1 is far below, so decode is memory-bound; 1,000 is above", {"1,000": 2 * ALL * 1000 / (2 * ALL)}),
    Derived(
        "so 7.5·10⁹ are multiplied. That is 15 GB and 4.48 ms of reading",
        {"7.5·10⁹": LLAMA_3_8B.n_multiplied_params, "15": 2 * N / 1e9, "4.48": 2 * N / W * 1e3},
    ),
    Derived("2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms of arithmetic a position", {"0.015": 2 * 7.5e9 / 1e15 * 1e3}),
    Derived(
        "A prompt of 1,024 tokens takes 15.4 ms of arithmetic against 4.48 ms of reading; a decode pass 0.015 against "
        "4.48",
        {"15.4": 1024 * ONE, "4.48": READ, "0.015": ONE},
    ),
    Derived(
        "A written token takes 4.48 ms and a prompt token, one of many, 0.015 ms: **about 300 times less**",
        {"4.48": READ, "0.015": ONE},
    ),
    Derived("about 300 times less", {"300": READ / ONE}, within=5),
    Derived("it is no accident that it is the chip's 298.5", {"298.5": RIDGE}),
    Given("the 8·10⁹ parameters again, on a chip that reads only 3.0 TB/s"),
    Given("How long does a prompt of 2,000 tokens take?"),
    Derived("10¹⁵ / 3.0·10¹² = 333.3 operations a byte", {"333.3": 1e15 / 3.0e12}),
    Derived("16·10⁹ / 3.0·10¹² = 5.33 ms a token, 187.5 tokens/s", {"5.33": 16e9 / 3e12 * 1e3, "187.5": 3e12 / 16e9}),
    Derived(
        "2 · 8·10⁹ · 2,000 = 3.2·10¹³ operations, 32 ms. Reading, 5.33 ms, hides",
        {"3.2·10¹³": 2 * 8e9 * 2000, "32": 2 * 8e9 * 2000 / P * 1e3, "5.33": 16e9 / 3e12 * 1e3},
    ),
    Given("to scale: 1,024 tokens in, 8 out"),
    Derived(
        "The prefill of 1,024 positions lasts 15.4 ms: arithmetic fills it, reading ends after 4.48 ms. Then seven "
        "decode passes of 4.48 ms each",
        {"15.4": 1024 * ONE, "4.48": READ, "seven": 8 - 1},
    ),
    Derived("nothing to do for 99.7 % of the time. (Their 0.015 ms", {"99.7": 100 * (1 - ONE / READ), "0.015": ONE}),
    Given(r"I = \frac{2\, n\, T}{\text{bytes}}", "a multiplication and an addition"),
    Given(r"\max\!\left( \frac{\text{bytes of weights}}{W},\; \frac{2\, n\, T}{P} \right)", "the same"),
    Given(r"\max\!\left( \frac{\text{bytes of weights}}{W},\; \frac{2\, n}{P} \right)", "the same, T = 1"),
    # Exercises 1.1 to 1.6
    Given("A prefill of 2,000 tokens, one position of two models", TESTED),
    Derived("1 for decode and 1,000 for a prefill of 1,000 tokens", {"1,000": 2 * ALL * 1000 / (2 * ALL)}),
    Given("a batch of 32 with a gigabyte of cache each", TESTED),
    Derived("298.5 and 333.3 operations a byte.", {"298.5": RIDGE, "333.3": 1e15 / 3e12}),
    Given("Decode, prefill and a batch of 32; the ridge point itself; 50 random chips", TESTED),
    Given("With 2 bytes a weight the intensity"),
    Derived("up to the 298th, one more is free", {"298": floor(RIDGE)}),
    Derived(
        "298 users who each wait for one token, 59 users with five positions each",
        {"298": floor(RIDGE), "59": floor(298 / 5)},
    ),
    Given("costs b/W to read and 2B/P to multiply, so it is b/2 · P/W", "two operations a weight and sequence"),
    Derived(
        "298 with 2 bytes, 149 with 1, 74 with half a byte",
        {"298": floor(2 / 2 * RIDGE), "149": floor(1 / 2 * RIDGE), "74": floor(0.5 / 2 * RIDGE)},
    ),
    Derived("4.78 ms and 5.33 ms on the two chips", {"4.78": 2 * ALL / W * 1e3, "5.33": 2 * ALL / 3e12 * 1e3}),
    Given("Prompts of 1,000, 2,000 and 1,024 tokens that are arithmetic, one of 100 tokens that is reading", TESTED),
    Derived("the ratio of 300", {"300": READ / ONE}, within=5),
    Given("is never faster, on 50 random chips", TESTED),
    Derived("It is flat at 4.48 ms, the reading, up to 298.5 positions", {"4.48": READ, "298.5": READ / ONE}),
    # What it costs
    Given("Say a provider asks for 2 dollars a million prompt tokens and 10 dollars a million written ones."),
    Derived(
        "1,000 tokens in and 500 out cost 0.002 + 0.005 = 0.007 dollars",
        {"0.002": 1000 * 2e-6, "0.005": 500 * 10e-6, "0.007": 1000 * 2e-6 + 500 * 10e-6},
    ),
    Derived("A written token costs 5 times as much", {"5": 10 / 2}),
    Derived("but alone it takes 300 times as long", {"300": READ / ONE}, within=5),
    Derived("4.48 ms / 60 = 0.075 ms each", {"4.48": READ, "0.075": READ / 60}),
    Derived("and that is 5 times the 0.015 ms", {"5": READ / 60 / ONE, "0.015": ONE}),
    # What attention adds
    Given(
        "That is 2·N·H operations and 2·N·H more.", "a multiplication and an addition for each of H numbers in N heads"
    ),
    Given(r"\text{share} = \frac{4\, L\, N\, H \cdot \overline{t}}{2\, n}", "2·N·H and 2·N·H in L layers, over 2·n"),
    Derived(r"\overline{t} = \frac{T + 1}{2}", {"2": 1 / (sum(range(1, 6)) / 5 / (5 + 1))}),
    Derived("for 1,024 tokens: the mean of 1 to 1,024 is 512.5", {"512.5": sum(range(1, 1025)) / 1024}),
    Derived("With 32 layers and a width N·H of 32 · 128 = 4,096", {"4,096": 32 * 128}),
    Derived(
        "it is 4 · 32 · 4,096 · 512.5 = 2.69·10⁸ operations a position, against 2 · 7.5·10⁹ with the weights. That is "
        "**1.8 %**",
        {"2.69·10⁸": 4 * 32 * 4096 * 512.5, "1.8 %": 100 * SHARE},
    ),
    Derived("The 1.8 % of the example", {"1.8 %": 100 * SHARE}),
    Given('up to which length "2 n T" is the truth', "the formula of the week"),
    Derived("At about 57,000 tokens attention is as much work", {"57,000": 2 * (2 * N) / PER_POSITION - 1}, within=500),
    # Your machine, the roofline
    Given("(1 GFLOP/s is 10⁹.)", UNIT),
    Derived("The shipped model has 10 MB", {"10": 2_493_568 * 4 / 1e6}),
    Given(r"\text{MFU} = \frac{2\, n\, T / t}{P}", "two operations a parameter and position"),
    Given("The 8B of this lesson writes 150 tokens a second for one user of the chip with P = 10¹⁵."),
    Derived(
        "It reads 150 · 15 GB = 2.25 TB/s, an MBU of 67 %.", {"2.25": 150 * 15e9 / 1e12, "67 %": 100 * 150 * 15e9 / W}
    ),
    Derived(
        "It does 150 · 1.5·10¹⁰ = 2.25·10¹² operations a second, an MFU of 0.2 %",
        {"1.5·10¹⁰": 2 * N, "2.25·10¹²": 150 * 2 * N, "0.2 %": 100 * 150 * 2 * N / P},
    ),
    Derived(
        "A prompt of 4,000 tokens takes it 100 ms: 6·10¹³ operations in 0.1 s, an MFU of 60 %",
        {"6·10¹³": 2 * N * 4000, "60 %": 100 * 2 * N * 4000 / 0.1 / P},
    ),
    Given("one decode pass and a prefill of 256 positions"),
    Derived(
        "some 27 times as many bytes",
        {"27": (6 * (1024 * 24 * 64 + 1024 * 1024 + 3 * 1024 * 2816) + 1024 * 1024) / 2_490_368},
        within=1,
    ),
    Given("It takes about 10 seconds.", TIME),
    Derived(
        "Weights in float32 have 4 bytes, so a decode pass does 2 operations for 4 bytes: an intensity of 0.5",
        {"0.5": 2 / 4},
    ),
    Derived("one position more adds 0.5", {"0.5": 2 / 4}),
    Derived("its ridge point divided by 0.5", {"0.5": 2 / 4}),
    Derived(
        "with weights of 2 bytes an H100 has 295",
        {"295": floor(H100.peak_flops_per_second / H100.bandwidth_bytes_per_second)},
    ),
    # Predict, then measure
    Given("with weights in float32 and with weights in 8 bits, which are a quarter of the bytes"),
    Given("How many times as fast will it be with 8 bits?"),
    Given("In practice a good engine's step takes 1.2 to 2 times as long.", "experience with engines on GPUs"),
    # What a user waits for
    Given("TTFT 200 ms, TPOT 25 ms, an answer of 300 tokens."),
    Derived(
        "there after 0.2 s. 299 others follow at 25 ms each: 0.2 + 7.475 = 7.675 s",
        {"0.2": 200 / 1000, "299": 300 - 1, "7.475": 299 * 0.025, "7.675": 0.2 + 299 * 0.025},
    ),
    Derived("the user sees 1 / 0.025 = 40 tokens a second", {"0.025": 25 / 1000, "40": 1 / 0.025}),
    Derived("7.675 s for the example", {"7.675": 0.2 + 299 * 0.025}),
    Given("A user at 25 ms, a batch of 32, a ceiling", TESTED),
    Given("The shipped model serves 1, 8 and 32 requests at once, prompts of 64 tokens, 24 tokens each."),
    Given("At batch 32, how many times slower"),
    Given("(About 10 seconds.)", TIME),
    Given('("TPOT at most 30 ms")'),
    Derived("it takes 32 times as long for 32 prompts", {"32": 32 * 64 / 64}),
    # Levers, the library, SmolLM2
    Given(
        "| **bytes of weights** | 8 or 4 bits ([week 5](../week05_quantization/week05_quantization.ipynb))",
        "later weeks",
    ),
    Given("8 bits nearly free; measure 4 |", "week 5 measures it"),
    Given("8 bits ([week 5](../week05_quantization/week05_quantization.ipynb)) | less queueing", "later weeks"),
    Given("mostly trained in; 8 bits nearly free", "week 5 measures it"),
    Given("8-bit arithmetic ([week 5](../week05_quantization/week05_quantization.ipynb))", "later weeks"),
    Given("(About 20 seconds, most of them to import it.)", TIME),
    Given("With an 8B on a GPU it would count for little."),
    Given("mean, median and 99th percentile of TTFT", "what the tool prints"),
    Derived(
        "SmolLM2 has 135 million parameters",
        {"135": (49_152 * 576 + 30 * (576 * 15 * 64 + 576 * 576 + 3 * 576 * 1536 + 2 * 576) + 576) / 1e6},
    ),
    Derived("(About 20 seconds, and 0.5 GB of memory", {"0.5": 134_515_008 * 4 / 1e9}),
    Given("**The factor 2 forgotten.** A multiplication *and* an addition", "two operations"),
    # Back of the envelope
    Given(
        "13·10⁹ parameters at 2 bytes. At most how many tokens a second for one user on an H100 (3.35 TB/s)? On an "
        "H200 (4.8 TB/s, the same peak)?",
        "data sheets",
    ),
    Given("By how much is a prompt of 1,000 tokens faster there?"),
    Derived("26 GB / 3.35 TB/s = 7.76 ms, 129 tokens/s", {"26": 26e9 / 1e9, "7.76": 26e9 / W * 1e3, "129": W / 26e9}),
    Derived(
        "On the H200 5.42 ms, 185.",
        {
            "5.42": 26e9 / H200.bandwidth_bytes_per_second * 1e3,
            "185": H200.bandwidth_bytes_per_second / 26e9,
        },
    ),
    Derived(
        "The prompt is bound by compute (26 ms of arithmetic)",
        {"26": 2 * 13e9 * 1000 / H100.peak_flops_per_second * 1e3},
    ),
    Given("**2.** The 8B of this lesson (7.5·10⁹ multiplied, 15 GB) gets weights of one byte"),
    Given("stays as it was, 10¹⁵ a second. What happens to TPOT? To the prefill of 1,024 tokens?"),
    Derived("TPOT halves: 7.5 GB / 3.35 TB/s = 2.24 ms", {"7.5": N / 1e9, "2.24": N / W * 1e3}),
    Derived("The prefill stays at 15.4 ms.", {"15.4": 1024 * ONE}),
    Derived(
        "compute takes over from 150 positions on instead of 299",
        {"150": floor(N / W * 1e3 / ONE) + 1, "299": floor(READ / ONE) + 1},
    ),
    Derived("**3.** TTFT 200 ms, TPOT 25 ms, 300 tokens: 7.675 s.", {"7.675": 0.2 + 299 * 0.025}),
    Derived(
        "TPOT: 0.2 + 299 · 0.0125 = 3.94 s, against 7.575 s",
        {"3.94": 0.2 + 299 * 0.0125, "0.0125": 0.025 / 2, "7.575": 0.1 + 299 * 0.025},
    ),
    Derived("For an answer of 300 tokens TTFT is 2.6 % of the whole.", {"2.6 %": 100 * 0.2 / 7.675}),
    Derived("With 8 tokens it would be more than half", {"half": 0.5 if 0.2 / (0.2 + 7 * 0.025) > 0.5 else 0}),
    Derived("**4.** The 8B (all of its 8·10⁹ parameters, 16 GB)", {"16": 2 * 8e9 / 1e9}),
    Given("answers prompts of 4,000 tokens with 200 tokens, one user at a time, W = 3.35 TB/s, P = 10¹⁵."),
    Derived(
        "Prefill 2 · 8·10⁹ · 4,000 / 10¹⁵ = 64 ms (attention adds 7 %)",
        {"64": 2 * 8e9 * 4000 / 1e15 * 1e3, "7 %": 100 * PER_POSITION * 2000.5 / (2 * 8e9)},
    ),
    Derived("Decode 199 · 4.78 = 950 ms", {"199": 200 - 1, "4.78": 16e9 / W * 1e3, "950": 199 * 16e9 / W * 1e3}),
    Derived("15 times as long for a twentieth of the tokens", {"15": 199 * 16e9 / W / 0.064}),
    Given("**5.** At 2 dollars a million input tokens and 10 dollars a million output tokens"),
    Derived(
        "4,000 · 2·10⁻⁶ + 200 · 10·10⁻⁶ = 0.008 + 0.002 = 0.01 dollars",
        {"0.008": 4000 * 2e-6, "0.002": 200 * 10e-6, "0.01": 4000 * 2e-6 + 200 * 10e-6},
    ),
    Derived(
        "The prompt is 80 % of the price and 6 % of the time at batch 1",
        {"80 %": 100 * 0.008 / 0.01, "6 %": 100 * 64 / (64 + 199 * 16e9 / W * 1e3)},
    ),
    Given("**6.** A colleague shows 400 tokens a second for a single user of the 8B in 16 bits on an H100."),
    Derived("Reading 15 GB takes 4.48 ms, so 223 passes a second is the end", {"4.48": READ, "223": 1e3 / READ}),
    Given(
        "**7.** The 8B (15 GB, 7.5·10⁹ multiplied) prefills 2,048 tokens in 50 ms and writes 180 tokens a "
        "second for one "
        "user; W = 3.35 TB/s, P = 10¹⁵."
    ),
    Derived(
        "2 · 7.5·10⁹ · 2,048 = 3.07·10¹³ operations in 0.05 s are 6.1·10¹⁴ a second, an MFU of 61 %.",
        {
            "3.07·10¹³": 2 * N * 2048,
            "0.05": 50 / 1e3,
            "6.1·10¹⁴": 2 * N * 2048 / 0.05,
            "61 %": 100 * 2 * N * 2048 / 0.05 / P,
        },
    ),
    Derived("180 · 15 GB = 2.7 TB/s, an MBU of 81 %.", {"2.7": 180 * 15e9 / 1e12, "81 %": 100 * 180 * 15e9 / W}),
    # Check yourself, the interview
    Given("the intensity of decode with weights of 4 bits, batch 1"),
    Derived("2 operations for half a byte: 4.", {"4": 2 / 0.5}),
    Given('*"An 8B service answers slowly.'),
    Given("median and 99th percentile, at the load at which people complain (30 seconds)", MINUTES),
    Derived("15 GB / 3.35 TB/s = 4.5 ms and the caches", {"4.5": 15e9 / W * 1e3}),
    Given("so about 5 ms for one user", "4.5 ms and a cache of one or two GB"),
    Derived("0.015 ms a prompt token", {"0.015": ONE}),
    Given("the numbers have to change (30 seconds)", MINUTES),
    Given("(compute it once)? (40 seconds)", MINUTES),
    Given("fewer bytes (8-bit weights; an 8-bit cache if contexts are long)", "later weeks"),
    Given("too large for the goal? (40 seconds)", MINUTES),
    Given("break before chat does (40 seconds)", MINUTES),
    # In words: the intensity of a batched decode step
    Given("Take n = 7.5·10⁹, b = 2 and a cache of 131,072 bytes for each of S tokens."),
    Given("Show that at S = 8,192 no batch, however large, reaches a ridge point of 298.5."),
    Given("H numbers, 2 bytes each, and each of the N query heads"),
    Given("a position costs 2n operations: 2nB.", "a multiplication and an addition"),
    Given("So I(B) = 2nB / (nb + Bc).", "algebra"),
    Given("with slope 2/b while the caches are small", "algebra"),
    Given("I = 2n / (nb/B + c), which rises with B towards 2n/c. Half of the limit means nb/B + c = 2c", "algebra"),
    Derived("c = 8,192 · 131,072 = 1.074·10⁹ bytes", {"131,072": CACHE, "1.074·10⁹": 8192 * CACHE}),
    Derived(
        "so the limit is 1.5·10¹⁰ / 1.074·10⁹ = 14.0, far below 298.5",
        {"1.5·10¹⁰": 2 * N, "14.0": 2 * N / (8192 * CACHE), "298.5": RIDGE},
    ),
    Derived(
        "if 1.5·10¹⁰ / (131,072 S) > 298.5, so S < 383.4: up to 383 tokens",
        {"383.4": 1.5e10 / (131_072 * 298.5), "383": floor(1.5e10 / (131_072 * RIDGE))},
    ),
    Derived("there are 2K·H numbers of 2 bytes, 4KH bytes", {"4": 2 * 2}),
    Derived("and 4NH operations (2NH for the scores, 2NH for the sum of values)", {"4": 2 + 2}),
    Derived("The intensity is N/K: 4 for 32 and 8 heads", {"4": 32 / 8}),
    Derived("**Mark scheme (8).** (a) 2nB with a reason", {"8": 2 + 2 + 2 + 2}),
    Derived(
        "(c) 14 < 298.5, 1; S up to about 383, 1.", {"14": 2 * N / (8192 * CACHE), "383": 1.5e10 / (131_072 * RIDGE)}
    ),
    # In words: two services
    Derived(
        "The 8B of this lesson (15 GB, 0.015 ms of arithmetic a position, 4.48 ms of reading)",
        {"15": 2 * N / 1e9, "0.015": ONE, "4.48": READ},
    ),
    Given("*A* sorts documents: 8,000 tokens in, 5 out. *B* chats: 200 in, 800 out."),
    Derived("prefill 8,000 · 0.015 = 120 ms", {"120": 8000 * 0.015}),
    Derived("attention adds another 14 %", {"14 %": 100 * PER_POSITION * 4000.5 / (2 * N)}),
    Derived("4 more take 4 · 4.48 = 18 ms", {"4": 5 - 1, "18": 4 * 4.48}),
    Derived("Prefill is about 87 % of the time.", {"87 %": 100 * 120 / (120 + 4 * 4.48)}),
    Derived(
        "200 positions need 3 ms of arithmetic, less than the 4.48 ms of reading, so even the prefill is bound by "
        "memory, 4.48 ms; decode 799 · 4.48 = 3.58 s",
        {"3": 200 * ONE, "4.48": READ, "799": 800 - 1, "3.58": 799 * READ / 1e3},
    ),
    Given("arithmetic in 8 bits, a chip with more operations a second", "later weeks"),
    Derived("**Mark scheme (5).** A's times", {"5": 1 + 1 + 1 + 1 + 1}),
    Given("5 and 800 decode passes instead of 4 and 799: no deduction.", "one more each"),
    Given(": 2 operations a parameter and token", "what the source says"),
    Given("dense 16-bit rates", "what the data sheets give"),
]
