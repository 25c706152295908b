# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 3 · Choosing the token
#
# A model does not write. It gives every token of its vocabulary a score, called a logit, and a small piece of code
# picks one. This week you write that code, and learn which settings suit which task. Then you find out why the same
# prompt at temperature 0 can still give two different texts.
#
# **After this week you can**
#
# - turn logits into probabilities at any temperature, and say what top-k and top-p each cut away;
# - put the rules in the right order and show by an example that the order matters;
# - choose settings for a task, and say what a penalty or a bias does to a logit;
# - explain why temperature 0 does not promise the same text twice, find the near tie behind a difference and state its
#   size;
# - name two cures and say what each costs, measured on your own machine;
# - draw a fair sample from a stream of unknown length, and prove that it is fair.
#
# **Time:** about an hour and a half for the seven exercises, 40 minutes for the two written questions, an hour and
# three quarters of reading and measuring: two evenings. **Needs:** softmax, and some Python with torch. No exercise of
# another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, then run the `check(...)`
# cell below it. A check runs the course's own tests on your function alone: everything around it is the reference, so
# one mistake never hides another. Where a test failed, the call of your answer stands in `failing`, and
# `failing.again()` makes it once more. Where a lab uses a function that you have not written yet, a line called
# `needs` at the top of its cell puts the reference in its place and says so. If you prefer an editor, the same
# functions wait in `exercises/`, with the same tests.
#
# The docstring is the whole specification. Where it says *Raises*, the message has to name the argument, so that
# whoever reads it knows where to look: `raise ValueError(f"order is {order}; …")`. For most refusals a ready-made
# helper is imported with the exercise:
#
# | helper | what it refuses |
# |---|---|
# | `check_temperature(temperature)` | what is below 0, infinite or NaN |
# | `check_finite(largest)` | NaN, +inf or a row of -inf only, when it is handed the largest logit of each row |
# | `check_top_k(k)` | k below 1 |
# | `check_top_p(p)` | p outside (0, 1] |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.

# %%
# Set-up for the labs
import math

import torch
import torch.nn.functional as F
from nanolm import load
from nanolm.model import with_linear
from nanolm.sampling import Rng
from nanolm.sampling import params as engine  # engine.SamplingParams is the course's own, whatever you write below
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import take_turns
from course.lab.verdicts import ratio, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
greedy = engine.SamplingParams(0.0, end_tokens=())  # no text ends early: equal lengths for all
line = tokenizer.encode("HORATIO\nMy lord, I")
speech = "MACBETH\nIs this a dagger which I see before me,\nThe handle toward my hand? Come, let me clutch thee.\n"


def visible(tokens):
    """Tokens as text, with spaces and line ends to be seen."""
    return tokenizer.decode(tokens).replace(" ", "·").replace("\n", "↵")


@torch.inference_mode()
def scores_along(tokens):
    """The logits behind each token of a text, (tokens, V)."""
    return target(torch.tensor([tokens]))[0]


print(f"each pass gives {target.config.vocab_size:,} logits, one for each token of the vocabulary")

# %% [markdown]
# ## The idea in plain words
#
# Think of a raffle. Every token holds tickets, and the more the model likes a token, the more tickets it holds. One
# ticket is drawn, and its owner is the next token.
#
# - **Temperature** decides how unequal the holdings are. Low: the favourite holds nearly all. High: everybody holds
#   about the same. At 0 there is no draw, the favourite wins: **greedy decoding**.
# - **Top-k** sends everybody home but the k largest holders.
# - **Top-p** also sends the small holders home, but looks at shares instead of heads: it keeps the largest holders
#   until together they have the share p of all tickets.
# - **Min-p** looks at the largest holder: whoever has less than a given fraction of what that one has goes home.
#
# After each rule the remaining tickets are dealt out again so that they make a whole. Then one is drawn.
#
# Why cut anything? Thousands of tokens hold one ticket each. None of them is likely, but together they win now and
# then, and one absurd token spoils the text that follows.

# %%
stages = {
    "the model": (0.5, 0.3, 0.15, 0.05),
    "top-k 3": (0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0.0),
    "then top-p 0.84": (0.625, 0.375, 0.0, 0.0),
}
fig, ax = figures.figure(6.4, 2.8)
for row, probs in enumerate(stages.values()):
    left = 0.0
    for word, prob, colour in zip(("sun", "moon", "sea", "elf"), probs, figures.LINES, strict=False):
        ax.barh(-row, prob, left=left, color=colour + "55", edgecolor=colour)
        if prob:
            label, turned = (f"{word}\n{prob:.3g}", 0) if prob > 0.1 else (f"{word} {prob:.3g}", 90)
            ax.text(left + prob / 2, -row, label, ha="center", va="center", fontsize=9, rotation=turned)
        left += prob
ax.plot([0.58, 0.58], [-2.5, 0.55], color=figures.RED, linestyle="--")
ax.text(0.58, 0.6, "one random point", color=figures.RED, ha="center", fontsize=9)
ax.set_yticks([0, -1, -2], stages)
ax.set(xlim=(0, 1), ylim=(-2.5, 0.9), xlabel="a random point between 0 and 1 picks the token above it")
ax.grid(False)
figures.show(
    fig,
    "Three bars of length 1. The first is shared by sun 0.5, moon 0.3, sea 0.15 and elf 0.05. After top-k with k = 3 elf "
    "is gone and the others have grown. After top-p with 0.84 only sun 0.625 and moon 0.375 are left. A random point at "
    "0.58 falls on moon in the first two bars and on sun in the third.",
)

# %% [markdown]
# The dashed line is one random number. The same number picks *moon* in the first two rows and *sun* in the third,
# although *moon* is still there: borders have moved under the point. The section *One draw* has a way that does not
# have this weakness.
#
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | z | logits, the scores before softmax: any real numbers, one a token | `logits`, (B, V) |
# | T | temperature (in other weeks T counts positions; here it never does) | `temperature` |
# | k | number of tokens that top-k keeps | `k`, `top_k` |
# | p | share of probability that top-p keeps at least; p(x) is the probability of token x | `p`, `top_p`, `probs` |
# | m | fraction of the largest probability that min-p asks for | `min_p` |
# | S | the tokens that a filter keeps | |
# | B, V | texts in the batch; vocabulary | |
# | D, F | width of the model, of its feed-forward layers | |
# | E, G | random numbers of the draw: exponential, and G = −ln E; E with bars behind it is a mean | |
# | W | a running total of weights | |
#
# Probabilities are float64 everywhere. The models compute in float32 or in 16 bits, but a running total over a hundred
# thousand tokens should not add errors of its own.

# %% [markdown]
# ## By hand
#
# Three tokens with logits 2, 1, 0. Softmax at temperature T divides by T, exponentiates, and divides by the sum.
#
# | | e^(2/T) | e^(1/T) | e^0 | sum | probabilities |
# |---|---|---|---|---|---|
# | T = 0.5 | 54.6 | 7.39 | 1 | 63.0 | 0.867, 0.117, 0.016 |
# | T = 1 | 7.39 | 2.72 | 1 | 11.11 | 0.665, 0.245, 0.090 |
# | T = 2 | 2.72 | 1.65 | 1 | 5.37 | 0.506, 0.307, 0.186 |
#
# The order of the tokens never changes, only how far apart they are. What counts is the *difference* of two logits: two
# tokens stand e^((z₁ − z₂)/T) to 1. Adding 100 to all logits changes nothing.
#
# Now the filters, on the probabilities 0.5, 0.3, 0.15, 0.05.
#
# - **Top-k with k = 2** keeps 0.5 and 0.3. They total 0.8, so they become 0.5/0.8 = 0.625 and 0.3/0.8 = 0.375.
# - **Top-p with p = 0.9** counts from the top: 0.5, then 0.8, then 0.95. The third token is the first to *reach* 0.9,
#   and it stays. Divided by 0.95: 0.526, 0.316, 0.158.
# - **k = 3, then p = 0.84.** After top-k the three are 0.526, 0.316, 0.158. The first two total 0.842, which reaches
#   0.84, so two stay: 0.625 and 0.375. Had nobody renormalised in between, the first two would total 0.8 only, and the
#   third would have stayed as well.
#
# Try one yourself: probabilities 0.4, 0.35, 0.25 with k = 2 and then p = 0.53. And what if top-p came first?
#
# <details><summary>Answer</summary>Top-k leaves 0.4/0.75 = 0.533 and 0.467. The first alone reaches 0.53, so one token
# is left and nothing is random any more. The other way round, top-p needs two tokens to reach 0.53 (0.4, then 0.75),
# top-k with k = 2 changes nothing, and the draw is between 0.533 and 0.467.</details>

# %% [markdown]
# ## The rules as equations
#
# $$
# p_T(x) = \frac{e^{z_x / T}}{\sum_y e^{z_y / T}}
# \qquad
# p_{\text{kept}}(x) = \frac{p(x)}{\sum_{y \in S} p(y)} \ \text{ for } x \in S, \text{ else } 0
# $$
#
# For **top-k**, S holds the k most probable tokens. For **top-p**, S is the smallest set of most probable tokens whose
# total is p or more. For **min-p**, S holds the tokens with at least m times the largest probability. The order here
# is: *temperature, top-k, top-p, min-p, one draw*, with the total brought back to 1 after each filter. It is the order
# of transformers; another one is discussed below.
#
# All of it lives in [nanolm/sampling](../../nanolm/sampling), and this week you write its functions.
#
# Softmax has two traps. At a small T the quotient z/T gets so large that its exponential is infinite: subtract the
# largest logit from all of them first, which changes no difference. And T = 0 cannot be divided by: it is *defined* as
# the limit, all probability on the largest.

# %%
from nanolm.sampling import temperature_probs  # exercise: temperature_probs
# points: 4
# minutes: 15
# difficulty: 2
# tested: The three rows of the table above, 100 random rows against a plain loop, T = 0 and T close to 0, ties,
#   forbidden tokens (-inf), batches, float64 whatever comes in, and that impossible logits and temperatures are
#   refused.
# why: Every setting that a user calls "creativity" ends in this function.
# hint: Rows are on their own: every maximum and sum runs over the last dimension. And at a tiny T the division comes
#   after the subtraction. // Convert to float64 first. Take the largest of each row with `max(dim=-1, keepdim=True)`,
#   check it, subtract it, divide, and let `torch.softmax` do the rest. For T = 0 put a 1.0 at `argmax` in a row of
#   zeros (`scatter_`); argmax takes the first among equals.

# %% [markdown]
# ### See it on a real place
#
# What may follow *My lord, I*, at three temperatures? `·` is a space and `↵` the end of a line.

# %%
scores_here = scores_along(line)[-1]
best = scores_here.topk(8).indices
fig, ax = figures.figure(height=3.8)
for place, (T, colour) in enumerate(zip((0.5, 1.0, 2.0), figures.LINES, strict=False)):
    positions = [token + (place - 1) * 0.27 for token in range(8)]
    ax.bar(positions, temperature_probs(scores_here, T)[best], width=0.25, color=colour, label=f"T = {T}")
ax.set_xticks(range(8), [visible([token]) for token in best.tolist()], rotation=35)
ax.set(ylabel="probability", xlabel="the eight largest logits, the largest first")
ax.legend()
held = {T: temperature_probs(scores_here, T)[best].sum().item() for T in (0.5, 1.0, 2.0)}
figures.show(
    fig,
    "Three bars for each of the eight most probable next tokens, at temperatures 0.5, 1 and 2. The eight together hold "
    + ", ".join(f"{share:.0%} at T = {T}" for T, share in held.items())
    + " of the probability; the rest of the vocabulary has what is left.",
)
for T, share in held.items():
    print(f"T = {T}: these eight tokens hold {share:.0%} of the probability")

# %% [markdown]
# The last lines are the reason for the filters: the higher the temperature, the more of the probability lies on tokens
# that are not even in the picture.

# %%
from nanolm.sampling import top_k_filter  # exercise: top_k_filter
# points: 3
# minutes: 10
# difficulty: 1
# tested: The example above, tokens in their places, exactly k tokens also where the k-th is tied, k at or above V,
#   batches, random rows with ties against a plain loop, that the argument is left alone, and the refusal of k below 1.
# why: The oldest filter, and the cheapest guard against absurd tokens.
# hint: A threshold at the k-th largest value keeps too many where it is tied, so choose by place and not by size. And
#   the argument is not yours to change. // `argsort(dim=-1, descending=True, stable=True)` gives the ids from the most
#   probable down, lower ids first among equals. The ids from place k on get probability 0: `scatter` makes a copy with
#   zeros there. Then divide by what is left.

# %% [markdown]
# Top-p asks a question of each token: *had the ones before me reached p already?* Only then does it go. The token that
# crosses the line stays.
#
# Rounding needs care. 0.7 + 0.1 is 0.7999999999999999 in float64. With p = 0.8 those two tokens should be enough, so a
# total within 10⁻⁹ of p counts as having reached it.

# %%
from nanolm.sampling import top_p_filter  # exercise: top_p_filter
# points: 4
# minutes: 20
# difficulty: 2
# tested: The example above, 200 random rows against a plain loop (with ties, zeros and totals equal to p), totals that
#   just reach p or just miss it, p = 1, p at or below the largest probability, batches, tokens in their places, and the
#   refusal of p outside (0, 1].
# why: It adapts: where the model is sure it keeps one token, where many are possible it keeps many.
# hint: The token that crosses p stays, so the question to each token is about those *before* it. And the answer has the
#   order of the argument, not the sorted one. // Sort with `sort(dim=-1, descending=True, stable=True)`, which gives
#   values and ids. `cumsum` minus the value itself is the total before each token. A token goes if that total is p or
#   more, give or take `rounding_tolerance(probs)`, imported with the exercise. The first always stays. p = 1 needs a
#   line of its own: a tiny probability must not fall to the allowance. `scatter` puts the sorted values back in their
#   places.

# %% [markdown]
# ### Prediction 1
#
# The model reads two texts: a speech from *Macbeth*, which it never saw in training, and a sum written out. At each
# place, count how many of the 1,024 tokens top-p keeps at p = 0.9. What is the median over the places of the speech?

# %%
my_guess_of_tokens_kept = 0  # the median in the speech; change it

# %%
kept = {}
for name, text in (("a speech", speech), ("a sum", "12 + 31: 2 + 1 = 3, 10 + 30 = 40, 40 + 3 = 43.")):
    tokens = tokenizer.encode(text)
    kept[name] = (top_p_filter(temperature_probs(scores_along(tokens), 1.0), 0.9) > 0).sum(-1)
    print(f"{name}: median {kept[name].median()} tokens kept, from {kept[name].min()} to {kept[name].max()}")
print(f"your guess for the speech was {my_guess_of_tokens_kept}")
following = tokenizer.encode(speech)[1:]
starts_word = torch.tensor([visible([token])[0] in "·↵" for token in following])
for place, mask in (("where a word begins", starts_word), ("inside a word", ~starts_word)):
    print(f"in the speech, {place}: median {kept['a speech'][:-1][mask].median()} of {mask.sum()} places")

# %%
fig, ax = figures.figure()
for (name, counts), colour in zip(kept.items(), figures.LINES, strict=False):
    ax.step(range(1, len(counts) + 1), counts, color=colour, where="mid", label=f"{name}, top-p 0.9")
ax.axhline(40, color=figures.GREY, linestyle="--", label="top-k 40")
ax.set(yscale="log", ylim=(0.8, 2000), xlabel="tokens read so far", ylabel="tokens kept, of 1,024")
ax.legend(fontsize=9, ncols=2, loc="upper center")
ranges = ", ".join(f"in {name} between {counts.min()} and {counts.max()}" for name, counts in kept.items())
figures.show(
    fig,
    f"Number of tokens that top-p keeps at each place of two texts, on a logarithmic scale: {ranges}. A dashed line marks "
    "top-k 40.",
)

# %% [markdown]
# Top-p keeps few tokens where the text leaves no choice and many where it does, as at the beginning of most words.
# Top-k keeps 40 in both cases. That is why most services offer both and set p.
#
# Min-p adapts too, and it is the simplest of the three. `min_p_filter(probs, 0.1)` keeps the tokens that have at least
# a tenth of the largest probability; it is written for you in [filters.py](../../nanolm/sampling/filters.py), two
# lines. Two tokens stand e^((z₁ − z₂)/T) to 1, so in logits it keeps x exactly if
#
# $$
# z_{\max} - z_x \le T \ln \tfrac{1}{m}
# $$
#
# With m = 0.1 that is a window of 2.30 below the best logit at T = 1, and of 4.61 at T = 2. Top-p has no window: at a
# high temperature it must let nearly everything in, because nothing short of it reaches p. **Predict:** how many tokens
# does each of the three keep at T = 2?

# %%
from nanolm.sampling import min_p_filter

along = scores_along(tokenizer.encode(speech))
for T in (1.0, 1.5, 2.0):
    probs = temperature_probs(along, T)
    filtered = {"top-k 40": top_k_filter(probs, 40), "top-p 0.9": top_p_filter(probs, 0.9)}
    filtered["min-p 0.1"] = min_p_filter(probs, 0.1)
    said = ", ".join(f"{name} keeps {(left > 0).sum(-1).median()}" for name, left in filtered.items())
    print(f"T = {T}: {said} (medians over the speech)")

# %% [markdown]
# ## The order of the rules
#
# A request carries its rules in one small object:
#
# ```python
# SamplingParams(temperature=0.8, top_k=40, top_p=0.9)
# ```
#
# `None` leaves a filter out. Only its method `probs` is asked: three functions that you have and `min_p_filter`, in the
# right order. (The other fields come before the temperature, and further down.)

# %%
from nanolm.sampling import SamplingParams  # exercise: probs
# points: 2
# minutes: 5
# difficulty: 1
# tested: Each rule alone, rules that change nothing, and four combinations that come out differently in another order
#   or without renormalising in between; float64 in the shape of the logits; the refusal of impossible logits.
# why: Two services with the same settings write different texts if their rules run in another order.
# hint: `min_p = 0` is a filter that is there, so ask for `is not None`, never for truth. // The temperature first,
#   always; then top-k, top-p and min-p, each behind its own `if` and each fed with what the one before has left.

# %% [markdown]
# ### Another house, another order
#
# llama.cpp's default chain runs penalties and the filters first (top-k, top-p, min-p among them) and the *temperature
# last*. By hand, on the probabilities 0.5, 0.3, 0.15, 0.05 with T = 2 and p = 0.9:
#
# - *Temperature first, as here.* At T = 2 a probability becomes its square root: 0.707, 0.548, 0.387, 0.224, in all
#   1.866. So 0.379, 0.294, 0.208, 0.120. The first three total 0.880 and do not reach 0.9: all four stay, and the last
#   has 12 %.
# - *Temperature last.* Top-p sees 0.5, 0.3, 0.15, which reach 0.9. The fourth is gone. Then the temperature: 0.431,
#   0.334, 0.236.
#
# Same model, same settings, and an absurd token comes one time in eight or never. With the temperature last one may
# turn it up without letting the tail in. Neither is wrong, but settings cannot be carried from one to the other.
#
# ## The rules before the temperature
#
# Four kinds of rule change logits, and three of them look at the text so far. `adjust_logits` in
# [adjust.py](../../nanolm/sampling/adjust.py) applies them in this order, before your `probs`:
#
# | rule | what happens to z | what it is for |
# |---|---|---|
# | **logit bias** b | z + b for the tokens named; b = −∞ forbids one | only these labels; never that word |
# | minimum length | −∞ for tokens that end the text | no empty answers |
# | **repetition penalty** r | z/r if z > 0, z · r if not, for tokens of prompt and answer | loops |
# | **presence penalty** a, **frequency penalty** f | z − a − f · count, for tokens of the answer | new subjects; fewer pet words |
#
# A bias multiplies the odds by e^(b/T): b = 2 at T = 1 makes a token 7.39 times as likely against each other one. A
# token with logit 2 that stands in the answer three times, with a = 0.5 and f = 0.3, goes to 2 − 0.5 − 0.9 = 0.6; with
# r = 1.3 it goes to 2/1.3 = 1.54, and a logit of −1 to −1.3. (So the repetition penalty depends on where the zero of
# the logits lies, although softmax does not: adding 100 to all of them makes it brutal.)
#
# **Predict:** the shipped model can add and subtract numbers of two digits, mostly. What do penalties do to that, and
# what a higher temperature? (The cell takes about ten seconds.)

# %%
pairs = [(a, b) for a in (12, 27, 35, 48, 61, 74) for b in (31, 16, 23, 9)]
sums = [(f"{a} + {b}:", a + b) for a, b in pairs] + [(f"{a + b} - {b}:", a) for a, b in pairs]


def share_right(rules):
    """How many of the sums come out right, the answer being the number behind "so"."""
    answers = target.generate([tokenizer.encode(question) for question, _ in sums], 30, rules, Rng(0))
    texts = [tokenizer.decode(answer).partition("so ")[2].partition(".")[0] for answer in answers]
    return sum(text.strip() == str(right) for text, (_, right) in zip(texts, sums, strict=True)) / len(sums)


for name, rules in {
    "greedy": {"temperature": 0.0},
    "greedy, repetition penalty 1.3": {"temperature": 0.0, "repetition_penalty": 1.3},
    "greedy, presence penalty 1": {"temperature": 0.0, "presence_penalty": 1.0},
    "T = 0.5": {"temperature": 0.5},
    "T = 1": {"temperature": 1.0},
    "T = 1.5": {"temperature": 1.5},
    "T = 1.5, min-p 0.1": {"temperature": 1.5, "min_p": 0.1},
}.items():
    print(f"{name:31} {share_right(engine.SamplingParams(**rules)):4.0%} of {len(sums)} sums right")

# %% [markdown]
# A sum has to repeat its digits, JSON its quotes, code its names. A penalty punishes just that.
#
# ## Which settings for which task
#
# | task | temperature | besides |
# |---|---|---|
# | extraction, classification, calls of tools, sums | 0 to 0.2 | no penalties; a bias or a grammar where only some answers exist |
# | code, answers from documents | 0.2 to 0.5 | top-p 0.95, no penalties |
# | chat | 0.6 to 0.8 | top-p 0.9 to 0.95, or min-p 0.05 |
# | brainstorming, stories, many different drafts | 1 to 1.3 | min-p 0.05 to 0.1; perhaps a presence penalty of 0.3 |
#
# These are starting points, not laws; a model's card often names its own. The reason behind the first row is a product.
# Say the right token has 95 % at T = 1 and one other has the rest: 19 to 1. An answer of 20 tokens is right with 0.95²⁰
# = 36 %. At T = 0.5 the odds are squared, 361 to 1, and 0.9972²⁰ = 95 %. Where only one text is right, each bit of
# temperature is paid for at every token. Where many are, the same low temperature gives the same draft ten times.

# %% [markdown]
# ## One draw
#
# Lay the probabilities end to end on a line from 0 to 1 and throw a point onto it: the picture at the start. That is
# fair, but the point does not know what it fell on: when a border moves a little, the same point names another token.
#
# So this package lets the tokens *race*. Token v arrives after the time $E_v / p_v$, where $E_v$ is a random number of
# its own, exponentially distributed, and the first to arrive is drawn. Twice the probability is twice the speed, and of
# runners with speeds $p_v$ each wins with just the probability $p_v$. In logarithms it is known as the **Gumbel-max
# trick**, because −ln E has Gumbel's distribution:
#
# $$
# \arg\min_v \frac{E_v}{p_v} = \arg\max_v \, (\ln p_v + G_v), \qquad G_v = -\ln E_v
# $$
#
# What is it good for?
#
# - *A winner stays the winner* when a filter sends others home, and two models that nearly agree mostly draw the same
#   token from the same random numbers: a small model can guess what a seed will make the large one choose.
# - *It batches.* A point on a line needs a running total over the vocabulary, row by row, and then a search. The race
#   is one division and one argmax over the whole table of B rows. Nothing has to sum to 1, and if the vocabulary lies
#   on several GPUs each names its first arrival and the earliest of those wins.
#
# All randomness of this package comes from one small object: `rng.categorical(probs)` draws an index. Its random
# numbers are no sequence that must be taken in turn but a *function* of four things:
#
# $$
# E_v = h(\text{seed}, \text{stream}, \text{position}, v)
# $$
#
# - **Seed**: the request's. Two requests with one seed draw alike, two with others have nothing in common.
# - *Stream*: what the draw is for. The engine draws tokens in one, drafts in another, so that drafting uses up no
#   number that a token needs.
# - *Position*: how many tokens the answer has. So a request that was thrown out and computed again, or that moved to
#   another place of another batch, draws the same token as before.
#
# In `sample_next` use `rng.categorical` for every row in turn, so that a seed always means the same. At temperature 0
# nothing is drawn at all. If it were, a greedy request would use up random numbers and change the texts of its
# neighbours.

# %%
from nanolm.sampling import sample_next  # exercise: sample_next
# points: 3
# minutes: 10
# difficulty: 2
# tested: Seven sets of rules, one draw for each row and in order, repeatable with the seed, greedy at temperature 0
#   without any draw and with the lowest id among equals, and the refusal of NaN, +inf and rows of -inf.
# why: It stands at the end of every pass of every engine.
# hint: Temperature 0 is checked like the rest: impossible logits are refused there too. // `sampling.probs(logits)`
#   does all but the draw. `rng.categorical` takes one row and gives an int; make a tensor of them. For temperature 0,
#   `logits.max(dim=-1)` gives the values, to check with `check_finite`, and the ids to return.

# %% [markdown]
# ### The race, tried
#
# Three claims: the two forms draw the same token; many rows are drawn at once, and faster; a draw can be made again
# from its position alone.

# %%
from nanolm.sampling import draw_rows as race_all

table = torch.softmax(torch.randn(64, 1024, generator=torch.Generator().manual_seed(1)).double(), dim=-1)
noise = torch.empty_like(table).exponential_(generator=torch.Generator().manual_seed(2))
same = torch.equal((noise / table).argmin(-1), (table.log() - noise.log()).argmax(-1))
print(f"64 rows: the race and Gumbel-max draw the same tokens: {same}")


positions = range(10)  # ten draws a row, so that a round takes long enough to be timed


def in_turn():
    return [[Rng(seed, at).categorical(row) for seed, row in enumerate(table)] for at in positions]


def at_once():
    return [race_all(table, [Rng(seed, at) for seed in range(64)]) for at in positions]


print(f"in turn and at once, the same tokens: {in_turn() == at_once()}")
print(which_is_faster(take_turns({"at once": at_once, "in turn": in_turn}, repeats=5), "at once", "in turn"))
sequence = Rng(7)
drawn = [sequence.categorical(table[0]) for _ in range(6)]
print(f"six draws: {drawn}; the draw at position 4, made again on its own: {Rng(7, position=4).categorical(table[0])}")

# %% [markdown]
# ### Prediction 2
#
# At temperature 1 every token is drawn. In what share of places is the token that comes out the one with
# the largest logit?

# %%
my_guess_of_share = 0.0  # at temperature 1; change it

# %% [markdown]
# It can be predicted from the probabilities alone: the token with the largest logit comes out with just its own
# probability, so the share is the *average of the largest probability* along the text. The cell writes eight texts at
# each temperature and compares; it takes about five seconds. (The cache in it keeps what the model has read, so that
# each pass needs the new token only: [week 2](../week02_kv_cache/week02_kv_cache.ipynb).)

# %%
speakers = ["HAMLET\n", "JULIET\n", "BRUTUS\n", "KING\n", "FIRST\n", "ROMEO\n", "PORTIA\n", "CASSIUS\n"]
prompts = [tokenizer.encode(name) for name in speakers]


@torch.inference_mode()
def write_along(temperature, new_tokens=40):
    """Write a text behind each prompt; return how often the largest logit came out, and the mean largest probability."""
    rules, rng, hits, largest = SamplingParams(temperature), Rng(1), [], []
    for prompt in prompts:
        cache = target.new_cache(1, len(prompt) + new_tokens)
        tokens = torch.tensor([prompt])
        for _ in range(new_tokens):
            logits = target(tokens, cache, last=1)[:, -1]
            cache.advance(tokens.shape[1])
            tokens = sample_next(logits, rules, rng)[:, None]
            hits.append((tokens[0, 0] == logits.argmax()).item())
            largest.append(temperature_probs(logits, temperature).max().item())
    return sum(hits) / len(hits), sum(largest) / len(largest)


for T in tqdm((0.5, 1.0, 2.0), leave=False):
    measured, predicted = write_along(T)
    print(f"T = {T}: the largest logit came out in {measured:.0%} of places; predicted {predicted:.0%}")
print(f"your guess for T = 1 was {my_guess_of_share:.0%}")

# %% [markdown]
# Now read what the settings sound like. This cell uses the course's own functions.

# %%
for name, rules in {
    "T = 0": engine.SamplingParams(0.0, end_tokens=()),
    "T = 0.7": engine.SamplingParams(0.7, end_tokens=()),
    "T = 1": engine.SamplingParams(1.0, end_tokens=()),
    "T = 1, top-p 0.9": engine.SamplingParams(1.0, top_p=0.9, end_tokens=()),
    "T = 2": engine.SamplingParams(2.0, end_tokens=()),
    "T = 2, top-k 5": engine.SamplingParams(2.0, top_k=5, end_tokens=()),
}.items():
    written = target.generate(tokenizer.encode("HAMLET\n"), 36, rules, Rng(2))
    print(f"{name:17} {visible(written)}")

# %% [markdown]
# Greedy text is safe and tends to repeat itself. At T = 2 words break. A filter brings a high temperature back to
# words, but not to sense.
#
# Where two of the drawn texts begin alike it is because they share a seed, and so the random numbers of each position:
# whoever wins the race there wins under every set of rules that leaves it in and does not let another one overtake it.

# %% [markdown]
# ## Temperature 0 is not a promise
#
# Greedy decoding draws nothing. One would think that the same prompt gives the same text every time. It does not, and
# people who run evaluations or chase bugs find that out the hard way. The reason is in the way computers add.
#
# ### Adding, by hand
#
# Take a machine that keeps three significant digits and rounds after every addition.
#
# - (100 + 0.4) + 0.4: 100.4 rounds to 100. Again 100.4 rounds to 100. **Result 100.**
# - 100 + (0.4 + 0.4): 0.8 is exact. 100.8 rounds to 101. **Result 101.**
#
# The same three numbers, another order, another sum. Real machines do this with more digits. float32 keeps 24 binary
# digits, about seven decimal ones. Near 10⁸ its numbers stand 8 apart, so
#
# - (10⁸ + 1) − 10⁸ = **0**: the 1 is lost at once;
# - (10⁸ − 10⁸) + 1 = **1**.
#
# A logit is a sum of products. The model ends with a vector, its last hidden state, and multiplies it with the weights
# of each token: 128 products a token here, 4,096 or more in a large model. The numbers of that vector are themselves
# results of sums, layer upon layer. Whoever chooses the order of the additions chooses the last digits of the logit.

# %%
from nanolm.sampling import float32_sum  # exercise: float32_sum
# points: 3
# minutes: 15
# difficulty: 2
# tested: The two sums above, 2²⁴ + 1 + 1 in two orders, 100 random lists against a plain loop that rounds with the
#   standard library, a long list that torch.sum adds in groups, that values are rounded first, that the result is a
#   Python float, and the refusal of an order that is no permutation.
# why: Two servers with the same weights differ in nothing but the order of sums, and that is enough.
# hint: A Python float is float64: if the total is one, nothing is rounded. // A 0-dimensional float32 tensor as the
#   total, a float32 tensor for each value, and `total + value` rounds by itself. `sorted(order)` shows whether it names
#   each place once. `.item()` at the end.

# %%
from nanolm.sampling import greedy_pick_with_summation_order  # exercise: greedy_pick_with_summation_order
# points: 2
# minutes: 10
# difficulty: 1
# tested: A pair of tokens of which another one wins when the order changes, equals, logits below zero, random terms
#   against a plain loop, and the refusal of an order that is no permutation.
# why: It is the whole mystery in one function: nothing is drawn, and there are two answers.
# hint: Among equals the lower id wins, and a logit may be negative. // One `float32_sum` a token gives the logits;
#   `max` of them, and `list.index` finds the first.

# %% [markdown]
# ### One logit, two hundred orders
#
# Below is a real logit: the last hidden state behind *My lord, I* times the weights of the token with the
# largest logit, 128 products. They are added up in 200 random orders. (About two seconds.)

# %%
import random

states = []
hook = target.norm.register_forward_hook(lambda module, inputs, output: states.append(output[0, -1]))
with torch.inference_mode():
    target(torch.tensor([line]), last=1)
hook.remove()
products = (states[0] * target.head.weight[scores_along(line)[-1].argmax()]).tolist()
exact = math.fsum(products)
shuffle = random.Random(0)
sums = [float32_sum(products, shuffle.sample(range(len(products)), len(products))) for _ in range(200)]
print(f"200 orders give {len(set(sums))} different sums, from {min(sums):.7f} to {max(sums):.7f}")
print(f"without rounding it would be {exact:.7f}")

# %%
fig, ax = figures.figure()
ax.hist([(total - exact) * 1e6 for total in sums], bins=25, color=figures.BLUE)
ax.axvline(0, color=figures.RED, linestyle="--", label="the exact sum")
ax.set(xlabel="difference from the exact sum, in millionths", ylabel="orders, of 200")
ax.legend()
figures.show(
    fig,
    "Histogram of the differences between a float32 sum of 128 products and its exact value, over 200 orders. They reach "
    f"from {(min(sums) - exact) * 1e6:.1f} to {(max(sums) - exact) * 1e6:.1f} millionths around a dashed line at zero.",
)

# %% [markdown]
# Float32 numbers between 4 and 8 stand half a millionth apart, hence the spaces between the bars. Next to the logit
# itself the whole spread looks like nothing. It is nothing, unless two tokens lie closer together than that.

# %% [markdown]
# ## Lab: alone, among 16, among 64
#
# A server computes many requests in one pass, a *batch*: the weights are read once for all of them. Who is in the batch
# changes from moment to moment.
#
# Who changes the order of the sums? The library does, by itself. A product of one row with a matrix runs through other
# code than a product of 64 rows: the numbers are grouped differently to use the processor well. So the logits of *your*
# request depend on how many strangers are in the batch with it.
#
# First one layer by itself. Row 0 is the same in all batches. (On some processors the library keeps to one order for
# all these shapes, and you will see zeros from here on. On one two-core machine 676 of the 768 outputs differed, and
# three of the sixteen texts further down parted.)

# %%
rows = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
weight = target.layers[0].feedforward.gate_up.weight  # (2F, D)
alone = F.linear(rows[:1], weight)[0]
for B in (1, 2, 4, 16, 64):
    among = F.linear(rows[:B], weight)[0]
    print(f"batch of {B:2}: {(among != alone).sum():3} of {len(alone)} outputs of row 0 differ from row 0 alone")

# %% [markdown]
# ### Prediction 3
#
# Now the whole model. It reads a text token by token, as in decoding, once alone, once in a batch of 16 and once in a
# batch of 64. In what share of places is at least one of the 1,024 logits *not* the same to the last bit? And how many
# of the 60 greedy picks change? (The cell takes about five seconds.)

# %%
my_share_of_places, my_picks_changed = 0.0, 0  # change both

# %%
unending = engine.SamplingParams(1.0, end_tokens=())  # let no text end early: equal lengths for all
texts = torch.tensor(target.generate([tokenizer.encode("HAMLET\n")] * 64, 60, unending, Rng(3)))  # (64, 60)
batches = (1, 16, 64)


@torch.inference_mode()
def read(model, rows):
    """Logits behind every token of every row, read one token a pass: (B, tokens, V)."""
    cache, logits = model.new_cache(len(rows), rows.shape[1]), []
    for column in rows.T:
        logits.append(model(column[:, None], cache)[:, -1])
        cache.advance(1)
    return torch.stack(logits, dim=1)


def report(name, logits):
    """Compare the first row's logits in each batch with those it had alone."""
    for B in batches[1:]:
        change = (logits[B][0] - logits[1][0]).abs().amax(-1)
        picks = (logits[B][0].argmax(-1) != logits[1][0].argmax(-1)).sum()
        said = f"logits differ at {(change > 0).double().mean():.0%} of places, by {change.max():.1e} at most"
        said = said if change.any() else "every logit is the same to the last bit"
        print(f"{name}, batch of {B}: {said}; {picks} of {len(change)} picks changed")


in_float32 = {B: read(target, texts[:B]) for B in tqdm(batches, leave=False)}
report("float32", in_float32)
print(f"you said {my_share_of_places:.0%} of places and {my_picks_changed} picks")

# %% [markdown]
# Note what is *not* random here. The same batch gives the same bits, run after run. Nothing is drawn, no threads race.
# The result depends on the batch, and the other requests in it are not yours to choose.

# %% [markdown]
# ### How close is close?
#
# A pick changes only where the two best tokens lie closer together than the change. That is a **near tie**. So look for
# the closest pair: among all 64 texts, 3,840 places.


# %%
def gaps_of(logits):
    """Distance of the two largest logits, place by place."""
    first, second = logits.double().topk(2, dim=-1).values.unbind(-1)
    return first - second


def moves_of(logits):
    """How far the batch has moved the first row's two best tokens apart or together, place by place."""
    pair = logits[1][0].topk(2, dim=-1).indices
    change = (logits[16][0] - logits[1][0]).double().gather(-1, pair)
    return change[:, 0] - change[:, 1]


gaps = gaps_of(in_float32[64])  # (64, 60)
row, place = divmod(gaps.argmin().item(), gaps.shape[1])
pair = in_float32[64][row, place].topk(2)
print(f"after …{visible(texts[row, max(0, place - 14) : place + 1])}")
for logit, token in zip(pair.values.tolist(), pair.indices.tolist(), strict=True):
    print(f"  {visible([token])!r:10} {logit:.6f}")
smallest, move = gaps.min().item(), moves_of(in_float32).abs().mean().item()
print(f"the smallest gap is {smallest:.1e}; a batch moves two tokens by {move:.1e} on average")
print("a batch moves nothing here" if move == 0 else f"the nearest tie is {smallest / move:.1f} such moves wide")

# %% [markdown]
# How many places would it take to see a pick change?
#
# Near zero, gaps are spread evenly: call their density f, so that a gap below some small x occurs in a share f · x of
# places. A move m towards the other token flips the pick if the gap is below m. Half of the moves go that way, so
#
# $$
# \Pr[\text{pick changes}] = \tfrac{1}{2}\, f \cdot E|m|
# $$

# %%
density = (gaps < 0.1).double().mean().item() / 0.1


def tokens_per_flip(logits):
    """After how many places, on average, a pick changes."""
    mean_move = moves_of(logits).abs().mean().item()
    return math.inf if mean_move == 0 else 2 / (density * mean_move)


print(f"density of gaps near zero: f = {density:.2f}")
print(f"float32: one pick in {tokens_per_flip(in_float32):,.0f} changes")
print(
    f"a server that writes 2,000 tokens a second sees one every {tokens_per_flip(in_float32) / 2000 / 60:.0f} minutes"
)

# %% [markdown]
# What is rare for one request can be daily business for a server. And hardly anybody serves in float32.

# %% [markdown]
# ### Sixteen bits
#
# Real servers keep weights and states in 16 bits. The matrix units of a GPU take 16-bit numbers, add the products in
# float32, and give 16-bit numbers back. We do just that to every linear layer: round what goes in and what comes out to
# bfloat16, which has 8 binary digits. A sum that differs in its last float32 bit is usually rounded to the same 16-bit
# number. When it lies on a border, it jumps by a whole step, 65,536 times as far. (The cell takes about five seconds.)


# %%
def half(x):
    return x.bfloat16().float()


sixteen = with_linear(target, lambda x, weight: half(F.linear(half(x), weight)))  # the same weights, other products
in_sixteen = {B: read(sixteen, texts[:B]) for B in tqdm(batches, leave=False)}
report("16 bits", in_sixteen)
print(f"one pick in {tokens_per_flip(in_sixteen):,.0f} should change")

# %% [markdown]
# ### Prediction 4
#
# Sixteen beginnings, each continued greedily by 60 tokens: once alone, once in a batch of all sixteen. With one pick in
# so many changing, how many of the sixteen texts will part from themselves? (About ten seconds.)

# %%
my_texts_that_part = 0  # of 16; change it

# %%
beginnings = texts[:16, :8].tolist()


def parting(one, other):
    """The first place where two texts differ, or None."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)


texts_alone = [sixteen.generate(start, 60, greedy) for start in tqdm(beginnings, leave=False)]
texts_16 = sixteen.generate(beginnings, 60, greedy)
texts_64 = sixteen.generate(beginnings * 4, 60, greedy)[:16]
partings = {row: parting(texts_alone[row], texts_16[row]) for row in range(16)}
parted = {row: place for row, place in partings.items() if place is not None}
among_64 = sum(parting(*both) is not None for both in zip(texts_alone, texts_64, strict=True))
print(f"{len(parted)} of 16 texts part in a batch of 16, {among_64} in a batch of 64")
print(f"predicted: {16 * (1 - math.exp(-60 / tokens_per_flip(in_sixteen))):.1f}; you said {my_texts_that_part}")
again = [sixteen.generate(start, 60, greedy) for start in beginnings[:2]]
print(f"alone once more, the same text: {again == texts_alone[:2]}")


# %%
@torch.inference_mode()
def written_again(model, starts, texts, at):
    """Logits behind the first `at` tokens of each text, with the very passes in which they were written."""
    cache = model.new_cache(len(starts), len(starts[0]) + at)
    logits = model(torch.tensor(starts), cache, last=1)[:, -1]
    cache.advance(len(starts[0]))
    for column in torch.tensor(texts)[:, :at].T:
        logits = model(column[:, None], cache)[:, -1]
        cache.advance(1)
    return logits


if parted:
    row, at = min(parted.items(), key=lambda item: item[1])
    alone = written_again(sixteen, beginnings[row : row + 1], texts_alone[row : row + 1], at)[0]
    among = written_again(sixteen, beginnings, texts_16, at)[row]
    print(f"both texts:       …{visible([*beginnings[row], *texts_alone[row][:at]][-16:])}")
    print(f"alone:             {visible(texts_alone[row][at : at + 10])}")
    print(f"in a batch of 16:  {visible(texts_16[row][at : at + 10])}")
    print("the two tokens, and their logits alone and in the batch:")
    for token in (texts_alone[row][at], texts_16[row][at]):
        print(f"  {visible([token])!r:10} {alone[token]:.5f}  {among[token]:.5f}")
    step = 2.0 ** (math.floor(math.log2(abs(alone.max().item()))) - 7)
    gap = abs(alone[texts_alone[row][at]] - alone[texts_16[row][at]]).item()
    print(f"numbers of this size stand {step:.5f} apart in bfloat16: alone the two are {gap / step:.0f} steps apart")
else:
    print("no text has parted on this machine: its library keeps to one order for these shapes")

# %% [markdown]
# Where two logits are equal, the lower id wins. From the first other token on, the two texts are different texts: each
# continues what it has written. That is why the end of a long answer can differ completely although only a last bit was
# different at the start.

# %% [markdown]
# ## Two cures, and their price
#
# **More digits.** In float64 the moves are about 10⁻¹⁴. They are still there, only so small that a near tie of that
# size does not come up in a lifetime.
#
# **A fixed order.** If every sum is taken in the same order whatever the batch, there is no move at all. Two ways:
#
# - *A tree.* `tree_linear` writes out all products and adds the first half to the second, again and again, until one is
#   left. Every step is a single rounded operation, so the order stands in the code and not in the library.
# - *Tiles.* `tile_linear` calls the library always with 16 rows, filled up with zeros or cut into pieces. The library
#   sees one shape and keeps to one order. That is how real **batch-invariant** kernels work: a fixed tile, never split
#   differently.
#
# Both are in [batch_invariant.py](../../nanolm/batch_invariant.py), a page long. Do they hold? (About five seconds.)

# %%
from nanolm.batch_invariant import tile_linear, tree_linear

double, _ = load("target", dtype=torch.float64)
ways = {
    "float32": target,
    "float64": double,
    "tiles of 16": with_linear(target, tile_linear),
    "a tree": with_linear(target, tree_linear),
}
in_float64 = {B: read(double, texts[:B, :30]) for B in batches}
report("float64", in_float64)
for name in tqdm(("tiles of 16", "a tree"), leave=False):
    report(name, {B: read(ways[name], texts[:B, :8]) for B in batches})
tiles = ways["tiles of 16"]
elsewhere = torch.equal(read(tiles, texts[5:6, :8])[0], read(tiles, texts[:16, :8])[5])
print(f"tiles of 16: the sixth row of a batch has the bits that it has alone: {elsewhere}")

# %% [markdown]
# The next picture is the whole story. Grey are the gaps between the two best tokens, over all texts. In colour are the
# moves that a batch of 16 makes, at three precisions. A pick can change only where a colour reaches under the grey.

# %%
fig, ax = figures.figure(height=3.8)
bins = [10 ** (e / 3) for e in range(-52, 5)]
for name, values, colour in (
    ("gaps", gaps, figures.GREY),
    ("moves, float64", moves_of(in_float64).abs(), figures.GREEN),
    ("moves, float32", moves_of(in_float32).abs(), figures.BLUE),
    ("moves, 16 bits", moves_of(in_sixteen).abs(), figures.ORANGE),
):
    values = values.flatten().clamp(min=1.1 * bins[0])
    ax.hist(values, bins=bins, weights=torch.full_like(values, 1 / len(values)), color=colour, alpha=0.7, label=name)
ax.set(xscale="log", xlabel="logit difference (a move of exactly 0 stands at the left edge)", ylabel="share of places")
ax.legend(fontsize=9)
middle = {
    "gaps": gaps.median(),
    **{
        f"moves in {name}": moves_of(logits).abs().mean()
        for name, logits in (("float64", in_float64), ("float32", in_float32), ("16 bits", in_sixteen))
    },
}
figures.show(
    fig,
    "Histograms on a logarithmic axis from 1e-17 to 10: the gaps of the two best tokens, their median "
    f"{middle.pop('gaps'):.1g}, and the moves of a batch, on average "
    + ", ".join(f"{size:.0e} ({name})" for name, size in middle.items())
    + ".",
)

# %% [markdown]
# ### Prediction 5
#
# What do the cures cost? Guess how many times as long a decoding pass takes, at batch 1 and at batch 64. (The
# measurement takes about five seconds.)

# %%
my_price = {"float64": (1.0, 1.0), "tiles of 16": (1.0, 1.0), "a tree": (1.0, 1.0)}  # (batch 1, batch 64); change them


# %%
def one_pass(model, B):
    """A decoding pass of B rows behind a cached text."""
    cache = model.new_cache(B, 40)
    cache.advance(32)  # what is in the cache does not matter for the time

    @torch.inference_mode()
    def run():
        model(texts[:B, 32:33], cache)

    return run


rounds_of = take_turns({(name, B): one_pass(model, B) for name, model in ways.items() for B in batches}, repeats=5)
price = {name: [ratio(rounds_of, (name, B), ("float32", B)) for B in batches] for name in ways}
for name in list(ways)[1:]:
    for B, times in zip(batches, price[name], strict=True):
        told = "" if times.is_told else ": dearer or cheaper, this run cannot tell"
        print(f"{name:12} batch {B:2}: {times}{told}")
    print("{:12} you said {} and {} for batches 1 and 64".format("", *my_price[name]))

# %%
fig, ax = figures.figure()
for i, (name, colour) in enumerate(zip(ways, (figures.GREY, *figures.LINES), strict=False)):
    heights = [times.middle for times in price[name]]
    ax.bar([place + (i - 1.5) * 0.2 for place in range(3)], heights, width=0.18, color=colour, label=name)
ax.axhline(1, color=figures.GREY, linewidth=0.8)
middles = [times.middle for of_way in price.values() for times in of_way]
limits = min(0.8, 0.9 * min(middles)), max(30, 1.1 * max(middles))
ax.set(yscale="log", ylim=limits, ylabel="time of a pass, float32 = 1", xlabel="texts in the batch")
ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.set_yticks([], minor=True)
ax.set_xticks(range(3), [str(B) for B in batches])
ax.legend(fontsize=9)
told = "; ".join(f"{name} {', '.join(f'{times.middle:.1f}' for times in price[name])}" for name in list(ways)[1:])
figures.show(
    fig,
    f"Time of a decoding pass relative to float32, on a logarithmic scale, for batches of 1, 16 and 64: {told}.",
)

# %% [markdown]
# Where do these prices come from?
#
# - **float64** moves twice the bytes and computes half the numbers per instruction. On a large GPU it costs far more
#   than that, since the matrix units are built for 16 bits.
# - **Tiles** make a single text pay for fifteen rows of zeros. A batch that fills its tiles pays for
#   none of them; what its line shows is the price of cutting it up and joining the pieces.
# - **The tree** writes every product to memory, which a matrix kernel never does, and it has more products the larger
#   the batch. It is the version to trust, and to test the others with.
#
# On GPUs, He and others (2025) sent one thousand equal requests at temperature 0 and got 80 different answers. With
# batch-invariant kernels for norms, matrix products and attention they got one. In their timing, with a smaller model,
# that took 1.6 to 2.1 times as long.
#
# Does the cheap cure also mend the 16-bit texts? The inputs and outputs are rounded as before, only the sums keep their
# order.

# %%
mended = with_linear(target, lambda x, weight: half(tile_linear(half(x), weight)))
rows_to_try = list(parted)[:3] or [0]
in_company = mended.generate(beginnings, 60, greedy)
by_itself = [mended.generate(beginnings[row], 60, greedy) for row in rows_to_try]
same = sum(one == in_company[row] for one, row in zip(by_itself, rows_to_try, strict=True))
if parted:
    print(f"{same} of {len(rows_to_try)} texts that had parted are now the same alone and in a batch of 16")
else:
    print(f"no text had parted here; with tiles the first one is the same alone and in a batch of 16: {same == 1}")

# %% [markdown]
# ### What stays open
#
# A fixed order for the linear layers makes a text independent of the *batch*, on one machine with one version of the
# library. Other things change the order too:
#
# - a prompt read in one pass, in chunks, or taken from the cache of an earlier one: attention sums over other pieces;
# - several tokens checked in one pass, as in speculative decoding;
# - another number of threads or of GPUs, another chip, a new release of a library.
#
# So "the same text every time" needs a list of things held fixed. Temperature 0 is only the first entry, and a seed is
# of the same kind: it fixes the draws, not the sums.

# %% [markdown]
# ## Depth: drawing from a stream
#
# A large vocabulary may sit on several GPUs, each with its own piece of the logits. Can one draw a token without ever
# having all probabilities in one place? Yes: walk through the pieces with a single candidate in hand. When token i
# comes by with weight wᵢ, it replaces the candidate with probability wᵢ / (w₁ + … + wᵢ). No total is needed beforehand.
#
# Why is that right? Token i ends as the winner if it was taken when it came and never replaced after. With Wᵢ for the
# total up to and including i,
#
# $$
# \frac{w_i}{W_i} \cdot \frac{W_i}{W_{i+1}} \cdot \frac{W_{i+1}}{W_{i+2}} \cdots \frac{W_{n-1}}{W_n} = \frac{w_i}{W_n}
# $$
#
# which is its probability. The factors cancel in a row. (The race does it without a running total: each piece names its
# first arrival and the time, and the earliest of those wins.)


# %%
def pick_from_stream(weights, rng):
    """Return an index drawn in proportion to the weights, seen once, one after the other."""
    candidate, total = None, 0.0
    for index, weight in enumerate(weights):
        total += weight
        if weight > 0 and rng.bernoulli(weight / total):
            candidate = index
    return candidate


rng, draws = Rng(0), 20_000
counts = [0] * 4
for _ in range(draws):
    counts[pick_from_stream([10.0, 6.0, 3.0, 1.0], rng)] += 1
print("shares drawn:", ", ".join(f"{count / draws:.3f}" for count in counts), "; wanted: 0.500, 0.300, 0.150, 0.050")

# %% [markdown]
# With equal weights and m places instead of one this is **reservoir sampling**: the way to take 1,000 requests out of a
# day's traffic for an evaluation while the day is still going on. One of the written questions below asks for the
# proof.

# %% [markdown]
# ## The same with libraries
#
# transformers calls the rules *logits processors*. They set the logits of what they drop to −inf, one after the other
# in the same order as ours, and softmax does the renormalising.

# %%
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    transformers.utils.logging.set_verbosity_error()
    logits = in_float32[64][:, -1]  # (64, V)
    rules = LogitsProcessorList([TemperatureLogitsWarper(0.8), TopKLogitsWarper(40), TopPLogitsWarper(0.9)])
    theirs = torch.softmax(rules(None, logits.double()), dim=-1)
    ours = engine.SamplingParams(0.8, top_k=40, top_p=0.9).probs(logits)
    print(f"64 rows, largest difference from transformers: {(theirs - ours).abs().max():.1e}")
    tied = TopKLogitsWarper(2)(None, torch.zeros(1, 4))
    print(f"four equal logits, k = 2: transformers keeps {(tied > -math.inf).sum()}, we keep 2")
else:
    print("transformers is not installed here; with it, this cell compares its probabilities with ours")

# %% [markdown]
# At the border of a tie the two differ: transformers keeps every token as large as the k-th, we keep exactly k. In
# `generate`, greedy decoding is `do_sample=False`; the temperature has to be above 0.
#
# vLLM takes the rules per request, and requests with different rules share a batch (not run here):
#
# ```python
# from vllm import SamplingParams
#
# SamplingParams(temperature=0.8, top_k=40, top_p=0.9, seed=7)  # a top_k of 0 or -1 leaves the filter out
# SamplingParams(temperature=0.0)  # greedy
# ```
#
# There, a seed makes the draws of one request repeatable. It does not fix the sums. For that there is a switch, in
# development at the time of writing and for recent GPUs only:
#
# ```
# VLLM_BATCH_INVARIANT=1 vllm serve your-model
# ```

# %% [markdown]
# ## The same on a real model
#
# SmolLM2-135M has 49,152 tokens, 48 times as many as the shipped model, so a tail of 48 times as many. It reads a story
# and a piece of JSON. **Predict:** how many tokens does each filter keep in the middle of each? The cell takes about
# ten seconds, and is left out where the model is not installed.

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, its_tokenizer = real
    for name, text in {
        "a story": "Once upon a time an old sailor lived by the sea. One morning he found a small box on the beach.",
        "JSON": '{"name": "Anna", "age": 31, "city": "Oslo"}\n{"name": "Ben", "age": 54, "city": "Bergen"}\n',
    }.items():
        with torch.inference_mode():
            behind = smol(torch.tensor([its_tokenizer.encode(text)]))[0]
        for T in (0.7, 1.0, 1.5):
            rule = {"top-p 0.9": engine.SamplingParams(T, top_p=0.9), "min-p 0.1": engine.SamplingParams(T, min_p=0.1)}
            said = [f"{label} keeps {(each.probs(behind) > 0).sum(-1).median():,}" for label, each in rule.items()]
            tail = 1 - temperature_probs(behind, T).topk(40).values.sum(-1).median()
            print(f"{name}, T = {T}: {', '.join(said)}; beyond the best 40 lie {tail:.0%} of the probability (medians)")

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **Logits multiplied by the temperature.** A high temperature then sharpens.
#   `test_temperature_probs_of_the_worked_example`
# - **The largest logit not subtracted before the division.** NaN at a small temperature.
#   `test_temperature_probs_near_zero_goes_to_greedy_without_overflow`
# - **Softmax over the batch.** Looks right for one row. `test_temperature_probs_treats_each_row_on_its_own`
# - **A threshold in place of k.** Every token tied with the k-th stays.
#   `test_top_k_filter_keeps_exactly_k_when_the_kth_is_tied`
# - **What is kept is not brought back to 1.** `test_top_k_filter_keeps_the_two_likeliest_of_the_worked_example`
# - **Probabilities returned in sorted order.** The draw is right and the ids are wrong.
#   `test_top_p_filter_keeps_tokens_in_their_places`
# - **The crossing token dropped.** At p below the largest probability nothing is left.
#   `test_top_p_filter_keeps_the_crossing_token_of_the_worked_example`
# - **No renormalising between top-k and top-p.** `test_probs_hands_top_p_the_renormalised_probabilities`
# - **The temperature after the filters.** `test_probs_applies_the_temperature_before_the_filters`
# - **Top-p before top-k.** `test_probs_applies_top_k_before_top_p`
# - **Min-p before top-p.** `test_probs_applies_min_p_after_top_p`
# - **A draw at temperature 0.** `test_sample_next_at_temperature_zero_is_greedy_and_uses_no_randomness`
# - **A float64 sum called float32.** A Python number is float64. `test_float32_sum_depends_on_the_order`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** Two tokens with logits 3 and 1, temperature 2. Their probabilities?
#
# <details><summary>Answer</summary>They stand e^((3 − 1)/2) = e = 2.718 to 1, so 2.718/3.718 = 0.731 and
# 0.269.</details>
#
# **2.** Probabilities 0.4, 0.3, 0.2, 0.1. Top-k 3, then top-p 0.75. What is left? And without renormalising in between?
#
# <details><summary>Answer</summary>After top-k: 0.444, 0.333, 0.222. The first two total 0.778, which reaches 0.75: two
# are left, 0.4/0.7 = 0.571 and 0.429. Without renormalising the first two total 0.7 only, and the third stays
# too.</details>
#
# **3.** You count tokens by adding 1 to a float32 number. At which count does it stop? And in bfloat16, with 8 binary
# digits?
#
# <details><summary>Answer</summary>float32 has 24 binary digits: every whole number up to 2²⁴ = 16,777,216 is exact.
# 2²⁴ + 1 lies between two numbers and rounds back: there the count stands still. bfloat16 stops at 2⁸ = 256.</details>
#
# **4.** Near zero the gaps of a model have density 1, and a full batch moves its two best logits by 0.01 on average.
# How often does a greedy pick change? What share of answers with 500 tokens stays the same from start to end?
#
# <details><summary>Answer</summary>½ · 1 · 0.01 = 0.005, one pick in 200. (1 − 0.005)⁵⁰⁰ = e^(−2.5) = 8 %. More than
# nine answers of ten change somewhere.</details>
#
# **5.** A vocabulary of 128,256 tokens, 256 requests, float32 logits. How many bytes is one pass's worth of logits, and
# how long does an H100 (3.35 TB/s) take to read them once?
#
# <details><summary>Answer</summary>128,256 · 256 · 4 = 131,334,144 B, 0.131 GB. Read once: 0.039 ms. A sort reads and
# writes them several times. Against a decoding step of 5 to 15 ms that is small but not nothing, and it is why samplers
# avoid a full sort.</details>

# %% [markdown]
# ## Check yourself
#
# - What does a temperature do to the ratio of two probabilities? What does it never change?
# - Why does the token that crosses p stay?
# - Where does top-p keep more tokens than top-k 40, and where fewer?
# - Which settings for calls of tools, and which for a list of product names? Why no penalty in the first?
# - Which of these makes a greedy text independent of the batch: a seed, one thread, float64, a fixed order of sums?
# - Two texts of the same request are equal for 300 tokens and then have nothing in common. What do you look at first?
#
# <details><summary>Short answers</summary> It raises it to the power 1/T. It never changes the order. · Without it the
# total would stay below p, and at p below the largest probability nothing would be left. · More at the start of a word
# in free text, fewer inside a word or a sum. · Temperature 0 to 0.2 and no penalty, since a call repeats its quotes and
# names; 1 to 1.3 with min-p. · A fixed order does. float64 makes a difference so rare that nobody sees one. A seed does
# nothing, for nothing is drawn; one thread does nothing either, for the batch still changes the shape of the product. ·
# The two largest logits at the first token that differs, and their gap. </details>

# %% [markdown]
# ## In an interview
#
# *"Our nightly evaluation runs at temperature 0, and the score changes by half a point from night to night. The team
# says that the model is random. What do you do?"*
#
# A structure for three minutes:
#
# 1. **Say what temperature 0 is.** The largest logit wins, nothing is drawn. So the logits must differ (20 seconds).
# 2. **Say how they can.** Floating-point sums depend on their order; the order depends on the shape of the batch, and
#    the batch on the load. Same bits for the same batch, other bits in another (40 seconds).
# 3. **Prove it.** Take one question whose answer changed, run it alone twice, then in batches of 16 and 64. Find the
#    first token that differs and print the two best logits: the gap is of the size of a rounding step (40 seconds).
# 4. **Say how much it matters.** One changed pick in some hundred tokens at 16 bits. Half a point may be noise: repeat
#    the evaluation, report the spread, compare models by more than that (30 seconds).
# 5. **Offer the cures with their price.** Batch size 1 or always the same batches for the evaluation (slow, no new
#    code); batch-invariant kernels (up to twice the time); more digits. Not a seed (30 seconds).
# 6. **Name what stays open:** other chips, other releases, chunked prompts (20 seconds).

# %% [markdown] written="reservoir sampling" points=8 minutes=25 difficulty=3
# **Prove that reservoir sampling is fair.** Requests arrive one after the other, nobody knows how many. You keep m of
# them: the first m go into the reservoir; request number i, for i > m, is taken with probability m/i, and if it is
# taken it replaces one of the m in the reservoir, each with probability 1/m.
#
# (a) Prove by induction: after n ≥ m requests, each of them is in the reservoir with probability m/n. (b) How much
# memory does it need, and how many passes over the data? (c) Say in two or three sentences why one samples from a
# stream this way, and not by drawing m random places.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) *Statement S(n):* after n requests each of the n is in the reservoir with probability m/n.
#
# *Start, n = m.* The first m are all in: probability 1 = m/m.
#
# *Step from n to n + 1.* Assume S(n). Request n + 1 is taken with probability m/(n + 1), as S(n + 1) wants. Take any
# earlier request j ≤ n. It is in the reservoir after n with probability m/n by S(n). It is thrown out in step n + 1 if
# the new one is taken, m/(n + 1), *and* replaces just this one, 1/m: together 1/(n + 1). The draws of step n + 1 do not
# depend on what happened before, so j stays with probability 1 − 1/(n + 1) = n/(n + 1), and is in after n + 1 with
# probability m/n · n/(n + 1) = m/(n + 1). So S(n + 1) holds for all n + 1 requests, and by induction S(n) for every n ≥
# m.
#
# (b) Memory for m requests and one counter, whatever n is. One pass; each request is looked at once, when it arrives.
#
# (c) Drawing places needs n beforehand, or a second pass over stored data. A stream has no known end and is too large
# to store. The reservoir is a fair sample at *every* moment, so one can stop at any time.
#
# **Mark scheme (8).** Start of the induction, with the statement written down, 1. Probability of the new request, 1. An
# old one: hypothesis used, 1; thrown out with m/(n + 1) · 1/m, 1; independence of the new draws said, 1; product is
# m/(n + 1), 1. (b) constant memory and one pass, 1. (c) n unknown, or fair at every moment, 1. A proof by the product
# of all later steps instead of induction: at most 7. An example with numbers only: at most 2.
# ### END SOLUTION

# %% [markdown] written="two answers at temperature 0" points=5 minutes=15 difficulty=2
# **Explain two answers.** A customer sends the same prompt twice at temperature 0 to the same service and gets two
# different texts. (a) Explain it in at most five sentences, without the words "the model is random". (b) What would you
# measure at the first token that differs, and what do you expect to find? (c) Name one cure that makes the texts equal
# and one that only makes the difference rare, and what each costs. (d) Name a cause that a fixed order of sums in the
# linear layers does not cure.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) A logit is a sum of many products in numbers with few digits, and such a sum depends on the
# order of its terms. The service computes several requests in one batch, and its kernels choose the order by the shape
# of the batch. The batch depends on what others sent at that moment. So the logits differed in their last digits. At
# one token the two best were closer together than that, another one won, and each text went on from its own token.
#
# (b) The two largest logits there, alone and in the batch. Their gap should be of the size of a rounding step (16 bits:
# about a hundredth to a tenth; float32: about a millionth), and the moves between the two runs at least as large as the
# gap.
#
# (c) A fixed order (batch-invariant kernels, or every request alone): equal bits, for up to twice the time, or for the
# whole gain of batching. float64: differences of 10⁻¹⁴, at twice the bytes here and far more on a GPU.
#
# (d) Any one of: prompt in chunks or from the cache of an earlier one, speculation with several positions a pass,
# another number of GPUs, another chip, another release.
#
# **Mark scheme (5).** (a) order of sums, 1; order depends on the batch, and the batch on others, 1. (b) the gap of the
# two best logits, with a size, 1. (c) both cures with a price, 1. (d) 1.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can turn logits into a token and defend every step of the way; you can predict how often a greedy text changes
# from two numbers, find the near tie, and price a cure; and you can prove that a sample from a stream is fair. Run
# `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Holtzman et al. 2020, *The curious case of neural text degeneration*,
#   [arXiv:1904.09751](https://arxiv.org/abs/1904.09751): top-p, and why greedy text repeats itself.
# - Fan, Lewis, Dauphin 2018, *Hierarchical neural story generation*,
#   [arXiv:1805.04833](https://arxiv.org/abs/1805.04833): top-k.
# - Nguyen et al. 2024, *Turning up the heat: min-p sampling for creative and coherent LLM outputs*,
#   [arXiv:2407.01082](https://arxiv.org/abs/2407.01082).
# - Keskar et al. 2019, *CTRL*, [arXiv:1909.05858](https://arxiv.org/abs/1909.05858): the repetition penalty.
# - Maddison, Tarlow, Minka 2014, *A\* sampling*, [arXiv:1411.0030](https://arxiv.org/abs/1411.0030): the race, as
#   Gumbel-max. Daliri, Musco, Suresh 2024, [arXiv:2408.07978](https://arxiv.org/abs/2408.07978): two models that race
#   with the same numbers.
# - Salmon et al. 2011, *Parallel random numbers: as easy as 1, 2, 3*,
#   [doi:10.1145/2063384.2063405](https://doi.org/10.1145/2063384.2063405): numbers that are a function of their
#   position.
# - Goldberg 1991, *What every computer scientist should know about floating-point arithmetic*,
#   [doi:10.1145/103162.103163](https://doi.org/10.1145/103162.103163).
# - Higham 2002, *Accuracy and stability of numerical algorithms*, chapter 4: sums, and why a tree is also the more
#   exact one.
# - He et al. 2025, [*Defeating nondeterminism in LLM
#   inference*](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/): batch invariance, and what
#   it costs on a GPU.
# - Vitter 1985, *Random sampling with a reservoir*, [doi:10.1145/3147.3165](https://doi.org/10.1145/3147.3165).
