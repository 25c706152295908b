"""The figures of week 6, first evening."""

import statistics

from nanolm.workload import load_trace

from .literals import Derived, Given

TRACE = load_trace()
OUTPUTS = [arrival.n_output_tokens for arrival in TRACE]

# The 8B model of the examples: bytes of a token's cache, bytes read and parameters multiplied, and a chip in round
# numbers.
TOKEN = 2 * 32 * 8 * 128 * 2
CACHE, WEIGHTS, PARAMETERS, BANDWIDTH, PEAK = 1024 * TOKEN, 15e9, 7.5e9, 3.35e12, 1e15
LOAD_MS, CACHE_MS, ARITHMETIC_MS = 1e3 * WEIGHTS / BANDWIDTH, 1e3 * CACHE / BANDWIDTH, 1e3 * 2 * PARAMETERS / PEAK


def reading(batch):
    return LOAD_MS + batch * CACHE_MS


def pass_ms(batch):
    return batch * CACHE_MS + max(LOAD_MS, batch * ARITHMETIC_MS)


def wait(rate, seconds, spread=0.0):
    """Pollaczek and Khinchine."""
    rho = rate * seconds
    return rho / (1 - rho) * seconds / 2 * (1 + spread**2)


D = 1024 * 0.015  # ms of a prefill of 1,024 tokens
SPREAD = (1920 - 128) / 2 / 1024

TABLE = [
    Given("does a pass for 16 take?", "what the prediction asks"),
    Given("GB is 10⁹ bytes", "the unit"),
    # --- by hand ---
    Given("Four requests need **4, 1, 1, 1** tokens"),
    Given("| 1 | 0 | 1 | 0 | 1 | | 2 | 0 | – | 0 | 2 | | 3 | 0 | – | 0 | 3 | | 4 | 0 | – | 0 | – | | 5 | 2 | 3 | | |"),
    Derived("Static: 5 steps of 2 slots are 10 seats", {"5": 4 + 1, "10": 5 * 2}),
    Derived("of which 4 + 1 + 1 + 1 = 7 are taken: **70 %**", {"7": 4 + 1 + 1 + 1, "70": 100 * 7 / 10}),
    Derived("Continuous: 4 steps, 8 seats, 7 taken: **87.5 %**", {"8": 4 * 2, "87.5": 100 * 7 / 8}),
    Derived(
        "The requests end after 4, 1, 5, 5 steps (mean 3.75) or after 4, 1, 2, 3 (mean 2.5).",
        {"3.75": statistics.fmean([4, 1, 5, 5]), "2.5": statistics.fmean([4, 1, 2, 3])},
    ),
    Given("Now 64 requests at once, one of which wants **500** tokens and the others **50**."),
    Derived(
        "In one static batch of 64, all but one are done after 50 passes; the server then makes 500 − 50 = "
        "**450 passes",
        {"450": 500 - 50},
    ),
    Derived("Seats: 500 · 64 = 32,000. Taken: 500 + 63 · 50 = 3,650", {"32,000": 500 * 64, "3,650": 500 + 63 * 50}),
    Derived("which is 11.4 %", {"11.4": 100 * 3650 / 32000}),
    Given("the same 64 requests, but 8 slots"),
    Derived("takes 500, each of the other seven batches 50: 850 steps", {"850": 500 + 7 * 50, "seven": 64 / 8 - 1}),
    Derived(
        "keeps a slot for 500 steps; the other seven slots share 63 requests, nine each, 450 steps. So 500",
        {"450": 63 / 7 * 50, "nine": 63 / 7},
    ),
    Derived("comes <em>last</em>, both take 850", {"850": 9 * 50 - 100 + 500}),
    Given("a request whose last step is number 2 had ended when 3 steps had been run", "how steps are counted"),
    Given("4, 1, 1, 1 in two slots"),
    Given("64 requests with one long"),
    # --- load against waits ---
    Derived(
        "as in the trace: 16 to 149 tokens, 38 on average",
        {"16": min(OUTPUTS), "149": max(OUTPUTS), "38": statistics.fmean(OUTPUTS)},
    ),
    Given("32 slots"),
    Given("At a load of 20 % of that"),
    Given("beyond a load of about 30 %", "a printed ratio, 38 over the longest of 32: one third"),
    # --- what limits the batch ---
    Given("why not 10,000?"),
    Given("a decode pass of an 8B model (15 GB of weights read, n = 7.5·10⁹", "the course's 8B model"),
    Given("W = 3.35 TB/s and P = 10¹⁵", "an H100 in round numbers"),
    Derived(
        "1,024 tokens in its cache: s = 1,024 · 131,072 B = 134,217,728 B", {"131,072": TOKEN, "134,217,728": CACHE}
    ),
    Given(r"\frac{2\,n\,B}{P}", "a multiplication and an addition"),
    Derived("15·10⁹ / 3.35·10¹² = 4.48 ms", {"4.48": LOAD_MS}),
    Derived("0.134·10⁹ / 3.35·10¹² = 0.0401 ms a request", {"0.134": CACHE / 1e9, "0.0401": CACHE_MS}),
    Derived("2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms a request", {"0.015": ARITHMETIC_MS}),
    Derived(
        "| 1 | 4.48 ms | 0.04 ms | **4.52 ms** | 1 / 4.52 ms = **221** | 0.02 ms |",
        {"0.04": CACHE_MS, "4.52": reading(1), "221": 1e3 / reading(1), "0.02": ARITHMETIC_MS},
    ),
    Derived(
        "| 16 | 4.48 | 16 · 0.0401 = 0.64 | **5.12** | **3,126** | 0.24 |",
        {"0.64": 16 * CACHE_MS, "5.12": reading(16), "3,126": 16e3 / reading(16), "0.24": 16 * ARITHMETIC_MS},
    ),
    Derived(
        "| 64 | 4.48 | 2.56 | **7.04** | **9,089** | 0.96 |",
        {"2.56": 64 * CACHE_MS, "7.04": reading(64), "9,089": 64e3 / reading(64), "0.96": 64 * ARITHMETIC_MS},
    ),
    Derived(
        "| 256 | 4.48 | 10.26 | **14.73** | **17,374** | 3.84 |",
        {"10.26": 256 * CACHE_MS, "14.73": reading(256), "17,374": 256e3 / reading(256), "3.84": 256 * ARITHMETIC_MS},
    ),
    Derived(
        "| 476 | 4.48 | 19.07 | **23.55** | **20,214** | 7.14, more than 4.48 |",
        {"19.07": 476 * CACHE_MS, "23.55": reading(476), "20,214": 476e3 / reading(476), "7.14": 476 * ARITHMETIC_MS},
    ),
    Derived("Up to 4.48 / 0.015 = 298 requests", {"298": int(LOAD_MS / ARITHMETIC_MS)}),
    Derived(
        "With 476 the arithmetic takes 7.14 ms, and the pass 19.07 + 7.14 = **26.2 ms**, which is **18,160 tokens/s**.",
        {"7.14": 476 * ARITHMETIC_MS, "26.2": pass_ms(476), "18,160": 476e3 / pass_ms(476)},
    ),
    Derived("The 23.55 ms are what reading alone takes", {"23.55": reading(476)}),
    Given("Real passes take 1.2 to 2 times as long as such bounds", "experience: see week 10's measurements"),
    Derived(
        "At B = 256 the pass reads 256 · 0.1342 = **34.4 GB of caches** and 15 GB of weights: 34.4 of 49.4 GB "
        "are caches.",
        {"0.1342": CACHE / 1e9, "34.4": 256 * CACHE / 1e9, "49.4": 256 * CACHE / 1e9 + 15},
    ),
    Derived("W/s = 25,000 tokens/s", {"25,000": BANDWIDTH / CACHE}, within=50),
    Derived("And 476 is where memory ends", {"476": 64e9 // CACHE}),
    Derived("80 − 16 = 64 GB are left, and 64·10⁹ / 134,217,728 = 476.8", {"64": 80 - 16, "476.8": 64e9 / CACHE}),
    Given("16 GB of weights, for the embedding has to be there too", "8·10⁹ parameters of 2 bytes"),
    Derived(
        "outgrows it from about 110 requests on, and from 298 on",
        {"110": WEIGHTS / CACHE, "298": int(LOAD_MS / ARITHMETIC_MS)},
        within=3,
    ),
    Derived(
        "a ceiling of 25,000, the solid one is flat from 298 on, at 18,160",
        {"25,000": BANDWIDTH / CACHE, "18,160": 1e3 / (CACHE_MS + ARITHMETIC_MS)},
        within=50,
    ),
    Derived("the solid line is flat from 298 requests on", {"298": int(LOAD_MS / ARITHMETIC_MS)}),
    Derived(
        "a request more adds 0.040065 ms of reading and 0.015 ms of arithmetic to the pass",
        {"0.040065": CACHE_MS, "0.015": ARITHMETIC_MS},
    ),
    Derived("1 / 0.055065 ms is 18,160 a second", {"18,160": 1e3 / (CACHE_MS + ARITHMETIC_MS)}),
    # --- a queue ---
    Given(r"\cdot \frac{d}{2} \cdot (1 + c^2)", "the formula itself"),
    Derived("1 at one half, 9 at nine tenths. d/2 is", {"1": 0.5 / 0.5, "9": 0.9 / (1 - 0.9)}),
    Derived("The 8B model, all prompts of 1,024 tokens: d = 1,024 · 0.015 ms = 15.4 ms, c = 0.", {"15.4": D}),
    Derived(
        "At 30 requests a second ρ = 0.46, and the wait is 0.46/0.54 · 7.7 = 6.6 ms: TTFT 21.9 ms.",
        {
            "0.46": 30 * D / 1e3,
            "0.54": 1 - 30 * D / 1e3,
            "7.7": D / 2,
            "6.6": 1e3 * wait(30, D / 1e3),
            "21.9": D + 1e3 * wait(30, D / 1e3),
        },
    ),
    Derived(
        "At 60 a second ρ = 0.92, and the wait is 0.92/0.08 · 7.7 = 90 ms: TTFT 106 ms.",
        {
            "0.92": 60 * D / 1e3,
            "0.08": 1 - 60 * D / 1e3,
            "90": 1e3 * wait(60, D / 1e3),
            "106": D + 1e3 * wait(60, D / 1e3),
        },
    ),
    Derived(
        "**Twice the load, five times the TTFT**",
        {"five": (D + 1e3 * wait(60, D / 1e3)) / (D + 1e3 * wait(30, D / 1e3))},
        within=0.25,
    ),
    Derived("half of the prompts have 128 tokens and half 1,920, the same mean", {"128": 2 * 1024 - 1920}),
    Derived("The times are 1.92 and 28.8 ms", {"1.92": 128 * 0.015, "28.8": 1920 * 0.015}),
    Derived(
        "half of their distance, 13.4 ms, so c = 0.875 and 1 + c² = 1.77: at 60 a second the wait is 159 ms",
        {
            "13.4": (28.8 - 1.92) / 2,
            "0.875": SPREAD,
            "1.77": 1 + SPREAD**2,
            "159": 1e3 * wait(60, D / 1e3, SPREAD),
        },
    ),
    Given("20,000 prompts come by chance", "enough for a mean"),
    Derived("at most 70 or 80 % of what it could do", {"80": 80}, within=0),
    Derived(
        "If 20 requests come a second and each stays 6 s, then 120 are inside; with 100 places the queue grows",
        {"120": 20 * 6},
    ),
    Derived(
        "the first 24 requests of the trace with their own arrival times (within 0.9 seconds), 16 slots",
        {"0.9": TRACE[23].seconds},
    ),
    Given("A step takes as long as a pass for 8"),
    # --- goodput ---
    Given("a first token within 200 ms and a token every 30 ms for 90 % of the requests"),
    Given("20 requests a second are finished. 80 % have their first token in time, 90 % their gaps, 72 % both."),
    Derived("The goodput is 20 · 0.72 = 14.4 a second", {"14.4": 20 * 0.72}),
    Derived("at least 70 % meet both, at most 80 %", {"70": 100 - 20 - 10, "80": min(80, 90)}),
    Given("32 requests come all at once to an engine of 8 places"),
    Given("0.4, 0.8, 1.2 or 2 times what the machine can do"),
    Given("With 32 requests the top"),
    Given("SmolLM2-135M", "a name"),
    # --- envelope ---
    Derived(
        "The model is the 8B one from above: 131,072 B a token, 4.48 ms to load the weights, 15 µs",
        {"131,072": TOKEN, "4.48": LOAD_MS, "15": 1e3 * ARITHMETIC_MS},
    ),
    Given("**1.** Static batches of 8. Seven answers have 50 tokens, one has 400."),
    Derived(
        "(7 · 50 + 400) / (8 · 400) = 750/3,200 = 23.4 %",
        {"750": 7 * 50 + 400, "3,200": 8 * 400, "23.4": 100 * 750 / 3200},
    ),
    Derived("1/0.234 = 4.3 times", {"4.3": 3200 / 750}),
    Given("**2.** Requests arrive at 20 a second; each stays 6 s. The server runs at most 100."),
    Given("(TPOT grows by 30 %)"),
    Derived("20 · 6 = 120 are inside in a steady state (Little), 100 have places", {"120": 20 * 6}),
    Derived(
        "it can finish 100/6 = 16.7 a second, and the queue grows by 3.3 every second",
        {"16.7": 100 / 6, "3.3": 20 - 100 / 6},
    ),
    Derived("about 3 s, 60 places suffice", {"3": 6 / 2, "60": 20 * 3}),
    Derived("7.8 s, 20 · 7.8 = 156 of 200", {"7.8": 6 * 1.3, "156": 20 * 7.8, "200": 2 * 100}),
    Given("has room for 200 caches"),
    Given("**3.** From which batch on does a pass of the 8B model"),
    Given("at 1,024 and at 8,192 tokens a request?"),
    Derived(
        "15 GB / 0.134 GB = 112 requests, and 15/1.074 = 14",
        {"0.134": CACHE / 1e9, "112": WEIGHTS / CACHE, "1.074": 8192 * TOKEN / 1e9, "14": WEIGHTS / (8192 * TOKEN)},
    ),
    Given("(weeks 5 and 9)", "numbers of weeks"),
    Given("**4.** Prompts of 2,048 tokens, all equal, on the 8B model."),
    Given("within 100 ms?"),
    Derived("d = 2,048 · 15 µs = 30.7 ms", {"30.7": 2048 * 0.015}),
    Derived(
        "The wait may be 69.3 ms, 4.51 times d/2 = 15.4 ms. ρ/(1 − ρ) = 4.51, so ρ = 0.82, and λ = 0.82/0.0307 = 26.6",
        {
            "69.3": 100 - 30.72,
            "4.51": (100 - 30.72) / 15.36,
            "15.4": 30.72 / 2,
            "0.82": 4.51 / 5.51,
            "26.6": 4.51 / 5.51 / 0.03072,
        },
    ),
    Derived("From 33 a second on TTFT has no bound", {"33": 1 / 0.03072}),
    Derived("goes from 0.8 to 0.9", {"0.8": 0.8}),
    Derived("ρ/(1 − ρ) goes from 4 to 9", {"4": 0.8 / 0.2, "9": 0.9 / 0.1}),
    *(Given(f"{who}, [*", "a year") for who in ("Yu et al. 2022", "Pope et al. 2022", "Zhong et al. 2024")),
    Given("Kleinrock 1975, *Queueing systems, volume 1*, chapter 5", "a book"),
]
