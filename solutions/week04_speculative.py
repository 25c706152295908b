# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 4 · Speculative decoding is exact
#
# A large model writes one token per pass. A small model can draft several tokens in the same time. This week you let
# the small one draft and the large one check, and you prove that the text which comes out is *exactly* as random as if
# the large model had written it alone.
#
# **After this week you can**
#
# - say why checking five tokens costs hardly more than writing one, and when that stops being true;
# - write the acceptance rule, the residual and the whole loop, and pass a test that follows *every* random outcome;
# - prove on paper that the output distribution is the target's;
# - predict the speed-up from three numbers, and measure it on your own machine.
#
# **Time:** about two hours for the ten exercises, half an hour for the two written questions, an hour of reading and
# measuring. **Needs:** the idea of a KV cache (week 2). No exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell below
# it. A check runs the course's own tests on your function alone: everything around it is the reference, so one mistake
# never hides another. Cells that measure use *your* functions and name the exercises they need. If you prefer an editor,
# the same functions wait in `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, the message has to name the argument, so that whoever reads it knows where to look:
# `raise ValueError(f"draft_cost is {draft_cost}; it must be 0 or more")`.
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.

# %%
import torch
from nanolm import load
from nanolm.sampling import Rng
from nanolm.speculative import ModelDraft, PromptLookupDraft
from nanolm.sampling import SamplingParams
from nanolm.speculative import Session

from course.lab import figures
from course.lab.timing import side_by_side

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
draft, _ = load("draft")


def parameters(model):
    return sum(weight.numel() for weight in model.parameters())


for name, model in (("target", target), ("draft", draft)):
    layers = model.config.n_layers
    print(f"{name}: {parameters(model):,} parameters, {layers} layer{'s' if layers > 1 else ''}")

# %% [markdown]
# ## The idea in plain words
#
# Think of a careful author and a quick assistant. The assistant writes the next four words in pencil. The author reads
# all four at once and strikes out the first one that does not fit, with everything after it, and puts a word of their
# own in its place. If all four fit, the author adds a fifth. Either way the author looked at the page once, and at least
# one word is final.
#
# For models the author is the **target**, the assistant the **draft**. Reading is cheap for the same reason that
# prefill is cheap: a pass has to load all weights from memory, and once they are loaded, multiplying them by five
# positions instead of one takes hardly longer. The arithmetic units were idle anyway.

# %%
from nanolm.speculative import Round

words = ["the", "cat", "sat", "under", "on", "a", "red", "mat", "today"]
pencil = [Round([0, 1, 2, 3], [0, 1, 2, 4]), Round([0, 6, 7, 8], [5]), Round([6, 7, 8, 0], [6, 7, 8, 0, 1])]
fig = figures.draw_rounds(pencil, lambda ids: words[ids[0]])
figures.show(
    fig,
    "Three rounds. In the first, three drafted words are kept, the fourth is struck out and another stands in its place. "
    "In the second the first drafted word is struck out at once. In the third all four are kept and a bonus word follows.",
)

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | p | the target's distribution of the next token | `target_probs` |
# | q | the draft's | `draft_probs` |
# | γ | tokens drafted per round (say "gamma") | `gamma` |
# | α | probability that one drafted token is kept ("alpha") | `alpha` |
# | c | time of a draft pass, in target passes | `draft_cost` |
# | v | time of a target pass over γ + 1 positions, in passes of one | |
# | B, V | texts in the batch; vocabulary | |
#
# Papers disagree about the letters: some call the draft p. Here **p is the target, q is the draft**, always.
#
# Both are the distributions that tokens are really drawn from: temperature, top-k and top-p are applied to both *before*
# any ratio is taken. The ratios are taken in float64.

# %% [markdown]
# ### Prediction 1
#
# The target reads γ + 1 positions in one pass to check γ drafted tokens. How many times longer than a pass of one position
# does a pass of 5 take on your machine? Write your guess down, then measure.

# %%
my_guess_for_5_positions = 5.0  # times as long as 1 position; change it

# %%
text = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 8)
positions = [1, 2, 3, 4, 5, 7, 9, 17]


def pass_of(model, n):
    """A pass over n new positions behind a text that is cached already."""
    session = Session(model, SamplingParams(1.0), capacity=len(text) + 32)
    session.feed(text)

    def run():
        session.feed(text[:n], last=n)
        session.truncate(len(text))

    return run


seconds = side_by_side({n: pass_of(target, n) for n in positions}, repeats=30)
for n in positions:
    print(f"{n:2} positions: {seconds[n] * 1e3:5.2f} ms, {seconds[n] / seconds[1]:.2f} times one position")
print(f"your guess for 5 positions was {my_guess_for_5_positions:.2f} times")

# %%
fig, ax = figures.figure()
ax.plot(positions, [seconds[n] / seconds[1] for n in positions], "o-", color=figures.BLUE, label="measured here")
ax.plot(positions, positions, "--", color=figures.GREY, label="if every position cost a full pass")
ax.set(xlabel="positions in the pass, γ + 1", ylabel="time, in passes of one position", ylim=(0, 8))
ax.legend()
figures.show(
    fig,
    "Time of one pass against the number of positions in it. The measured line should rise slowly and stay far below "
    "the dashed diagonal on which every position costs a full pass.",
)

# %% [markdown]
# Look at the gap between the line and the diagonal: it is what speculation lives on.
#
# Here much of a pass is a fixed cost of another kind: starting a few hundred small operations. On a GPU with a large
# model the fixed cost is loading the weights: 16 GB at 3.35 TB/s take 4.8 ms, and one position's arithmetic
# (2 · 8·10⁹ operations at 989 · 10¹² a second) takes 0.016 ms. The shape is the same, the cause is not.

# %% [markdown]
# ## A round, by hand
#
# Vocabulary: three words. At some place in the text
#
# | | A | B | C |
# |---|---|---|---|
# | target p | 0.5 | 0.3 | 0.2 |
# | draft q | 0.3 | 0.3 | 0.4 |
#
# The draft draws a word x from q. It is kept with probability min(1, p(x)/q(x)):
#
# - A: 0.5/0.3 is above 1, so A is always kept. B: 0.3/0.3 = 1, always kept.
# - C: 0.2/0.4 = 0.5. The draft proposes C twice as often as the target wants it, so half of the C's must go.
#
# How often is a drafted token kept? 0.3 · 1 + 0.3 · 1 + 0.4 · 0.5 = 0.8. That is **α**, and it is the mass that both
# distributions share: min(0.5, 0.3) + min(0.3, 0.3) + min(0.2, 0.4) = 0.8.
#
# And what comes when a C is rejected? So far A has come out with 0.3, B with 0.3, C with 0.2. The target wants 0.5, 0.3,
# 0.2. What is missing is 0.2 of A, and 0.2 is just the share that was rejected. So every rejected C becomes an A. In
# general the missing part is max(p − q, 0), scaled to sum 1: the **residual**.
#
# Note what the residual is *not*: it is not p. A and B have had their kept share already. Drawing from p after a
# rejection would give B 0.3 + 0.2 · 0.3 = 0.36, too much.
#
# Try one yourself: p = (0.6, 0.4), q = (0.9, 0.1). How often is A kept, how often is a drafted token rejected, what comes then?
#
# <details><summary>Answer</summary>A is kept with 0.6/0.9 = 2/3, B always. Rejected: 0.9 · 1/3 = 30 %. The residual is
# max(−0.3, 0) and max(0.3, 0), so it is B alone. B comes out with 0.1 + 0.3 = 0.4, as the target wants.</details>

# %% [markdown]
# ## The rule as equations
#
# $$\Pr[\text{keep } x] = \min\!\left(1, \frac{p(x)}{q(x)}\right)$$
#
# $$r(x) = \frac{\max(p(x) - q(x),\, 0)}{\sum_y \max(p(y) - q(y),\, 0)}$$
#
# $$\alpha = \sum_x \min(p(x), q(x))$$
#
# It lives in `nanolm/speculative/`, and this week you write its functions. First the residual.

# %%
from nanolm.speculative import residual_distribution  # exercise: residual_distribution
# points: 3
# minutes: 10
# difficulty: 1
# tested: The values on a worked example, tokens that the draft overrated, distributions that share no token, p = q,
#   and for 200 random pairs that kept mass plus rejected mass times residual is p.
# why: This one distribution is what makes speculation exact instead of approximate.
# hint: Clamp a difference at 0 and divide by its sum. Which way round is the difference? Check with the A, B, C table
#   above: the result must be (1, 0, 0). Look at the sum before you divide by it.

# %% [markdown]
# The randomness. Every random choice in this package goes through one small object, `rng`, with two methods: `rng.bernoulli(prob)`
# says yes with that probability, and `rng.categorical(probs)` draws an index. Use nothing else, not even `torch.rand`.
# Soon you will see what that buys: a test can put a *scripted* one in its place.

# %%
from nanolm.speculative import accept_or_resample  # exercise: accept_or_resample
# points: 5
# minutes: 20
# difficulty: 2
# tested: The exact output distribution with every outcome followed, 60,000 draws with a stated false-alarm rate, the
#   probability of keeping each token, tokens the draft never proposes, and that wrong input is refused.
# why: It turns a token drawn from the wrong distribution into one drawn from the right distribution.
# hint: Two choices in a row. `rng.bernoulli` needs the probability of keeping this token; it treats anything above 1
#   as 1. Only if it says no, draw from the residual. `check_distributions` and the q(x) = 0 case come first.

# %% [markdown]
# ### See it happen
#
# The next picture takes one place in a real text. Blue is what both models agree on and is kept. The hatched part of the
# draft is what gets rejected; the orange part is where it goes. Over the whole vocabulary the two have the same area;
# the nine tokens here show a part of it. `·` is a space and `↵` the end of a line.

# %%
context = tokenizer.encode("JULIET\nO Romeo, Romeo! wherefore art thou")
p = Session(target, SamplingParams(1.0), 64).feed(context)[-1]
q = Session(draft, SamplingParams(1.0), 64).feed(context)[-1]
shown = torch.maximum(p, q).topk(9).indices
names = [tokenizer.decode([i]).replace(" ", "·").replace("\n", "↵") for i in shown.tolist()]
places = range(len(names))
kept = torch.minimum(p, q)[shown]
fig, ax = figures.figure(height=3.8)
ax.bar(places, kept, color=figures.BLUE, label="min(p, q): kept")
ax.bar(
    places, (q - p).clamp(min=0)[shown], bottom=kept, color="white", edgecolor=figures.RED, hatch="///", label="rejected"
)
ax.bar(places, (p - q).clamp(min=0)[shown], bottom=kept, color=figures.ORANGE, label="residual: drawn instead")
ax.set(ylabel="probability", xlabel="token")
ax.set_xticks(places, names, rotation=35)
ax.legend()
figures.show(
    fig,
    "Bars for the nine most probable next tokens. The shared part of target and draft is blue; above it either a "
    "hatched part, where the draft gives too much, or an orange part, where the target gives more.",
)
print(f"α at this place: {torch.minimum(p, q).sum():.2f}; rejected {(q - p).clamp(min=0).sum():.2f}")

# %%
from nanolm.speculative import acceptance_rate  # exercise: acceptance_rate
# points: 2
# minutes: 5
# difficulty: 1
# tested: Four pairs of distributions with known α, among them equal ones and ones that share no token; a batch of rows;
#   tokens that neither model ever says.
# why: α is the one number about a draft that decides whether it is worth having.
# hint: One torch call gives the smaller of two tensors, element by element. Sum over the last dimension only.

# %% [markdown]
# ## From one token to a round
#
# A round drafts γ tokens and checks them in one pass. Number them 1 to γ. Number i is kept only if 1, …, i − 1 were kept
# as well, since it was drafted as their continuation. If we take α as the same everywhere, token i survives with αⁱ. One
# token more always comes: the one drawn in place of the first rejected token, or a **bonus token** when all were kept,
# for the pass has also computed what follows the last drafted token. So
#
# $$E[\text{tokens per round}] = 1 + \alpha + \dots + \alpha^\gamma$$
#
# $$= \frac{1 - \alpha^{\gamma+1}}{1 - \alpha}$$
#
# With α = 0.8 and γ = 4: 1 + 0.8 + 0.64 + 0.512 + 0.4096 = 3.3616 tokens for one pass of the target.

# %%
from nanolm.speculative import expected_tokens_per_round  # exercise: expected_tokens_per_round
# points: 3
# minutes: 10
# difficulty: 1
# tested: Six values, among them α = 0, α = 1 and γ = 0, and refusal of an α outside 0 to 1 or a negative γ.
# why: It is half of the speed-up formula, and the half that people get wrong by one.
# hint: The closed form divides by 1 − α. The sum does not, and γ is small.

# %% [markdown]
# A round costs γ passes of the draft and one of the target. With c the time of a draft pass, measured in target passes:
#
# $$
# \text{speed-up} = \frac{E[\text{tokens per round}]}{1 + \gamma c}
# $$
#
# α = 0.8, γ = 4, c = 0.05: 3.3616 / 1.2 = 2.80 times as fast. With α = 0.5 it is 1.9375 / 1.2 = 1.61.

# %%
from nanolm.speculative import speculative_speedup  # exercise: speculative_speedup
# points: 2
# minutes: 5
# difficulty: 1
# tested: Six values, one of them a loss; a negative cost is refused.
# why: Before you deploy a draft, this line tells whether you should.
# hint: Tokens over time. The time of a round, in target passes, is one plus what the draft takes.

# %%
from nanolm.speculative import best_gamma  # exercise: best_gamma
# points: 2
# minutes: 5
# difficulty: 1
# tested: The best γ for α = 0.6, 0.8 and 0.9 at c = 0.05, and that the answer is 0 where speculation cannot pay.
# why: Drafting too far wastes draft passes, drafting too little wastes target passes.
# hint: Try them all. `max` takes a `key`; among equals the smaller γ should win.

# %%
# needs 4.4 to 4.6
fig, axes = figures.figure(8.4, 3.6, columns=2)
gammas = range(17)
for alpha, colour in zip((0.5, 0.6, 0.7, 0.8, 0.9), figures.LINES, strict=False):
    axes[0].plot(gammas, [expected_tokens_per_round(alpha, g) for g in gammas], color=colour, label=f"α = {alpha}")
    axes[1].plot(gammas, [speculative_speedup(alpha, g, 0.05) for g in gammas], color=colour)
    best = best_gamma(alpha, 0.05)
    axes[1].plot(best, speculative_speedup(alpha, best, 0.05), "o", color=colour)
axes[0].set(xlabel="γ, tokens drafted", ylabel="tokens per target pass", xticks=range(0, 17, 4))
axes[1].set(xlabel="γ, tokens drafted", ylabel="speed-up at c = 0.05", xticks=range(0, 17, 4))
axes[1].axhline(1, color=figures.GREY, linestyle="--")
axes[0].legend()
figures.show(
    fig,
    "Left: tokens per target pass rise with γ towards 1/(1 − α). Right: the speed-up has a peak, marked with a dot, at "
    "γ = 3 for α = 0.5 up to γ = 13 for α = 0.9, and falls after it.",
)

# %% [markdown]
# The left curves rise towards 1/(1 − α) and no further: nobody gets past the first rejection. The right ones have a peak
# and then fall, because the draft goes on costing. A better draft moves the peak to the right.

# %% [markdown]
# ## The code of a round
#
# Two kinds of object take part. A **session** is a model in the middle of a text. `session.feed(tokens, last=n)` reads
# tokens in one pass and returns the next-token distributions after the last n of them; `session.length` says how many
# tokens it has read; `session.truncate(length)` forgets the rest. A **draft** has `propose(text, gamma, rng)`, which
# returns the drafted tokens and the distributions they were drawn from, and the same `length` and `truncate`.
#
# A few helpers are imported for you:
#
# | helper | what it does |
# |---|---|
# | `check_distributions(target_probs, draft_probs)` | refuses what are no distributions over one vocabulary |
# | `check_alpha_gamma(alpha, gamma)` | refuses α outside 0 to 1 and a negative γ |
# | `check_request(prompt, max_new_tokens, gamma)` | refuses an empty prompt and negative counts |
# | `up_to_end(tokens, end_tokens)` | the tokens up to and with the first end token |
# | `Round(drafted, tokens)` | what one round did |
# | `stats.count(round, written)` | adds a round, of which `written` tokens went into the text |
#
# First the decision about one row of drafted tokens, without any model.

# %%
from nanolm.speculative import verify_draft  # exercise: verify_draft
# points: 4
# minutes: 15
# difficulty: 2
# tested: A rejection ends the round, the bonus token comes and comes from the target, each drafted token is held against
#   its own row, and no drafted tokens at all.
# why: Where the last token of a round comes from is the most common mistake in speculation.
# hint: Go through rows of p and q and the drafted tokens together. `target_probs` has one row more than there are of them:
#   when does anybody look at it?

# %% [markdown]
# ### The trap: caches remember what you threw away
#
# While it drafts, the draft reads its own tokens. While it checks, the target reads them too. After a rejection both
# caches hold tokens that are not in the text. Forget to remove them and, with luck, the next pass finds nothing left to
# read and complains, as a session does here. An engine that writes by position goes on without a word, from a text that
# nobody wrote. So a round ends with `truncate`.
#
# How much stays? Say the text had n tokens and the round gave m new ones. Think before you open the answer.
#
# <details><summary>Answer</summary>n + m − 1. The last of the m was drawn <em>after</em> the pass, so nobody has read it;
# all before it have been read. The draft has not read its own last token, so it may hold less than that; then it keeps
# what it has. <code>truncate</code> refuses a length beyond what was read.</details>

# %%
from nanolm.speculative import speculative_round  # exercise: speculative_round
# points: 6
# minutes: 25
# difficulty: 3
# tested: One target pass per round, what target and draft have read after a rejection and after a round in which all
#   was kept, three rounds in a row, a draft that proposes less than γ, γ = 0, and the refusal of a negative γ.
# why: This is the algorithm. Everything else in the file serves these ten lines.
# hint: Four steps, as in the docstring. In step 2 the target has not read the last token of the text yet, perhaps not
#   even the prompt: feed it text[target.length:] and the drafted tokens together. How many rows do you need back?

# %%
from nanolm.speculative import speculative_generate  # exercise: speculative_generate
# points: 5
# minutes: 20
# difficulty: 3
# tested: The joint distribution of all texts of two and three tokens, exact to 1e-12; the number of target passes when
#   draft and target are equal; the exact length; an end token inside a draft; the counts; `on_round`.
# why: The joint distribution is the proof by machine that nothing leaks from one round into the next.
# hint: A loop around `speculative_round`. With r tokens left, more than r − 1 drafted tokens cannot be used. Cut what comes
#   behind an end token before you add it to the text (`up_to_end`), and tell `stats.count` how many went in.

# %% [markdown]
# ## Look at real rounds
#
# Each line is one round at temperature 1, with γ = 4.

# %%
# needs 4.9
sampling = SamplingParams(temperature=1.0)
prompt = tokenizer.encode("HAMLET\n")


def sessions(prompt, new_tokens, sampling=sampling):
    capacity = len(prompt) + new_tokens
    return Session(target, sampling, capacity), ModelDraft(draft, sampling, capacity)


rounds = []
tokens, stats = speculative_generate(
    *sessions(prompt, 40), prompt, 40, gamma=4, rng=Rng(seed=11), on_round=rounds.append
)
fig = figures.draw_rounds(rounds[:8], tokenizer.decode)
figures.show(
    fig,
    "Eight rounds of speculation, one a line: kept drafted tokens in blue, a struck-out rejected one in red followed by the "
    "token drawn instead in orange, or a green bonus token where all four drafted tokens were kept.",
)
print(tokenizer.decode(prompt + tokens))

# %% [markdown]
# ### Several texts at once
#
# A server writes many texts at a time. It drafts for all of them in one pass of the draft and checks them all in one pass of
# the target; each text keeps its own number of drafted tokens. `Engine(model, draft=draft)` does that; week 6 takes the
# engine apart.
#
# There is one more thing to see here. Give a request a *seed*, and draft and target draw each token with the same random
# numbers. The target's own token is then known as soon as its logits are, and a drafted token is simply right or wrong. So
# the text is, token for token, the one that the target writes alone. **Predict:** does a draft that guesses this way keep
# more tokens than your rule, or fewer?

# %%
from nanolm.engine import Engine

starts = [tokenizer.encode(start) for start in ("HAMLET\n", "12 + 31:", "Enter the GHOST\n\n")]
for name, seeds in (("with seeds", [0, 1, 2]), ("your rule", None)):
    engine = Engine(target, draft=draft, gamma=4, adaptive=False)
    texts = engine.generate(starts, 40, sampling, seeds)
    print(f"{name:<10} {engine.metrics.n_steps} passes for {sum(map(len, texts))} tokens")
    if seeds:
        alone = [target.generate(start, 40, sampling, Rng(seed)) for start, seed in zip(starts, seeds, strict=True)]
        print(f"           {'the' if texts == alone else 'NOT the'} texts that the target writes alone")

# %% [markdown]
# Fewer, usually. Two draws that use the same numbers agree with probability at least (1 - d) / (1 + d), where d is the
# distance between p and q (half the sum of |p - q|); your rule keeps with probability 1 - d, and no rule keeps more. (Daliri
# 2024, arXiv:2408.07978.) What the seed buys for that is a text that no draft and no neighbour can change.

# %% [markdown]
# ## Proof by machine: follow every outcome
#
# A sample of texts can only make it *likely* that the distribution is right. But all randomness goes through the rng,
# so we can do better. Put a scripted one in its place that first takes one branch and then, run after run, all others,
# each with its probability. Add the probabilities up per text. That is the exact output distribution, no sampling.
#
# Below: four tokens, γ = 1, all texts of two tokens. The difference from p is rounding error, about 10⁻¹⁷.

# %%
# needs 4.9
P = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)


class Branching:
    """Rng that follow a given path of choices, then take the first branch and remember the others."""

    def __init__(self, path):
        self.path, self.taken, self.others, self.weight = path, [], [], 1.0

    def bernoulli(self, prob):
        prob = min(1.0, float(prob))
        return self.categorical([1 - prob, prob]) == 1

    def categorical(self, probs):
        possible = [i for i, prob in enumerate(probs) if prob > 0]
        step = len(self.taken)
        choice = self.path[step] if step < len(self.path) else possible[0]
        if step >= len(self.path):
            self.others += [[*self.taken, i] for i in possible if i > choice]
        self.taken.append(choice)
        self.weight *= float(probs[choice])
        return choice


def exact(algorithm):
    """{outcome: probability} with every path followed, and the number of paths."""
    total, paths, count = {}, [[]], 0
    while paths:
        rng = Branching(paths.pop())
        outcome = algorithm(rng)
        total[outcome] = total.get(outcome, 0.0) + rng.weight
        paths += rng.others
        count += 1
    return total, count


class Fixed:
    """A model that gives the same distribution after every token; draft and target in one."""

    def __init__(self, probs):
        self.probs, self.length = probs, 0

    def feed(self, tokens, last=1):
        self.length += len(tokens)
        return self.probs.repeat(last, 1)

    def truncate(self, length):
        self.length = length

    def propose(self, text, gamma, rng):
        return [rng.categorical(self.probs) for _ in range(gamma)], self.probs.repeat(gamma, 1)


joint, count = exact(lambda rng: tuple(speculative_generate(Fixed(P), Fixed(Q), [0], 2, 1, rng)[0]))
worst = max(abs(joint[a, b] - float(P[a] * P[b])) for a in range(4) for b in range(4))
print(f"{count} paths, {len(joint)} texts, probabilities sum to {sum(joint.values()):.12f}")
print(f"largest difference from the target's own distribution: {worst:.1e}")

# %% [markdown]
# The course's tests do the same with distributions that depend on the last token, and with two real (tiny) models at
# several temperatures, with top-k, and with prompt-lookup: `tests/speculative/test_speculative.py` and `tests/speculative/test_exactness.py`.

# %% [markdown]
# ## Predict, then measure: the shipped pair
#
# Three numbers decide. You can measure each of them before a single round is run.
#
# - **α**: let the target write a text, and take the sum of min(p, q) at every place of it.
# - **c**: a draft pass over a target pass, one position each.
# - **v**: a target pass over γ + 1 positions, over one of one position. The formula takes it as 1; you measured it above.

# %%
# needs 4.3
plays = ["KING HENRY V\n", "ROMEO\nBut soft, what light", "First Witch\nWhen shall we three meet again\n"]
problems = ["12 + 31:", "Who has more, Anna with 31 pens or Ben with 54?"]
unending = {t: SamplingParams(t, end_tokens=()) for t in (0.0, 0.7, 1.0)}  # let no text end early: equal work for all


@torch.inference_mode()
def mean_alpha(prompts, sampling, length=120):
    """α along texts that the target writes itself."""
    rates = []
    for seed, prompt in enumerate(prompts):
        start = tokenizer.encode(prompt)
        written = target.generate(start, length, sampling, Rng(seed))
        whole = start + written
        p, q = (Session(m, sampling, len(whole)).feed(whole[:-1], last=len(written)) for m in (target, draft))
        rates.append(acceptance_rate(p, q).mean().item())
    return sum(rates) / len(rates)


alphas = {t: mean_alpha(plays, unending[t]) for t in unending}
alpha_problems = {t: mean_alpha(problems, unending[t]) for t in unending}
for t in unending:
    print(f"temperature {t}: α = {alphas[t]:.2f} in plays, {alpha_problems[t]:.2f} in worked problems")

# %%
passes = side_by_side({"target": pass_of(target, 1), "draft": pass_of(draft, 1)}, repeats=50)
c = passes["draft"] / passes["target"]
print(f"target pass {passes['target'] * 1e3:.2f} ms, draft pass {passes['draft'] * 1e3:.2f} ms: c = {c:.2f}")

# %% [markdown]
# ### Prediction 2
#
# With these numbers: which γ is best at temperature 1 on plays, and how many times as fast as plain decoding will it be?
# With v in it, the speed-up is `expected_tokens_per_round(alpha, gamma) / (v + gamma * c)`. Take v from the first
# measurement, and write both down before you run the cell behind the next one.

# %%
my_best_gamma, my_speedup = 0, 1.0  # change both

# %%
# needs 4.4 to 4.9; about half a minute
from nanolm.speculative import baseline_generate

length, tried = 60, [1, 2, 3, 4, 6]


def write_plain(t):
    for seed, prompt in enumerate(plays):
        start = tokenizer.encode(prompt)
        baseline_generate(Session(target, unending[t], len(start) + length), start, length, Rng(seed))


def write_speculatively(t, gamma):
    counts[t, gamma] = []
    for seed, prompt in enumerate(plays):
        start = tokenizer.encode(prompt)
        pair = sessions(start, length, unending[t])
        counts[t, gamma].append(speculative_generate(*pair, start, length, gamma, Rng(seed))[1])


measured, tokens_per_pass, counts = {}, {}, {}
for t in unending:
    runs = {0: lambda t=t: write_plain(t)} | {g: lambda t=t, g=g: write_speculatively(t, g) for g in tried}
    times = side_by_side(runs, repeats=2)
    measured[t] = {g: times[0] / times[g] for g in tried}
    tokens_per_pass[t] = {
        g: sum(s.new_tokens for s in counts[t, g]) / sum(s.target_forwards for s in counts[t, g]) for g in tried
    }
    print(f"temperature {t}: speed-up " + ", ".join(f"γ {g}: {measured[t][g]:.2f}" for g in tried))

# %%
v = {g: seconds[g + 1] / seconds[1] for g in tried}


def predicted(t, g):
    return expected_tokens_per_round(alphas[t], g) / (v[g] + g * c)


guess = max(tried, key=lambda g: predicted(1.0, g))
best = max([0, *tried], key=lambda g: measured[1.0].get(g, 1.0))
print(f"temperature 1: you said γ = {my_best_gamma}, {my_speedup:.2f} times;", end=" ")
print(f"the formula γ = {guess}, {predicted(1.0, guess):.2f};", end=" ")
print(f"measured γ = {best}, {measured[1.0].get(best, 1.0):.2f}")

# %%
fig, axes = figures.figure(8.4, 3.8, columns=2, sharex=True)
for t, colour in zip(unending, figures.LINES, strict=False):
    axes[0].plot(tried, [expected_tokens_per_round(alphas[t], g) for g in tried], color=colour, label=f"T = {t}")
    axes[0].plot(tried, tokens_per_pass[t].values(), "o", color=colour)
    axes[1].plot(tried, [predicted(t, g) for g in tried], color=colour)
    axes[1].plot(tried, measured[t].values(), "o", color=colour)
axes[1].axhline(1, color=figures.GREY, linestyle="--")
axes[0].set(xlabel="γ, tokens drafted", ylabel="tokens per target pass", ylim=(1, None))
axes[1].set(xlabel="γ, tokens drafted", ylabel="speed-up over plain decoding", ylim=(0, None))
axes[0].legend(fontsize=8.5)
figures.show(
    fig,
    "Lines are predictions, dots measurements, at temperatures 0, 0.7 and 1. Left, tokens per target pass: the dots "
    "scatter around the lines. Right, wall-clock speed-up with v included: they scatter more.",
)

# %% [markdown]
# Lines are the formula, dots are measured. On the left only tokens are counted, and they do not depend on your machine.
# Each dot comes from 180 tokens, so it scatters by about a tenth. Where the dots lie below a line as a whole (look at
# temperature 0), α varies in stretches: easy passages and hard ones. The mean of α hides that, and long stretches make the
# formula too high.
#
# On the right each dot carries the scatter of its neighbour on the left, and the noise of the machine. Drawing and
# comparing in Python takes time that the formula does not know, which pulls all dots down a little.
#
# Note where α differs: a worked problem is nearly certain once it has begun, so even a small draft proposes well; free
# text is not. Code, boilerplate and quotations accept well in large models for the same reason.

# %% [markdown]
# ### Temperature 0
#
# At temperature 0 both distributions are certain: p and q are 1 at one token. A drafted token is kept if the two are
# equal, and otherwise the residual is certain too. Every throw of the dice is certain, and the text must be the target's
# own greedy text.

# %%
# needs 4.9
start = tokenizer.encode("BRUTUS\n")
greedy = SamplingParams(0.0, end_tokens=())
alone = target.generate(start, 80, greedy)
together, stats = speculative_generate(*sessions(start, 80, greedy), start, 80, 4, Rng(0))
print(f"same text: {alone == together}; {stats.tokens_per_target_forward:.2f} tokens per target pass")

# %% [markdown]
# On a GPU, on some CPUs, or with 16-bit numbers, you may see the two texts part at some place. Look at the two best logits there: they
# will be nearly equal. A pass over five positions adds its products up in another order than a pass over one, and the
# last bits differ (week 3 has the experiment). The algorithm is exact; floating point is not associative.

# %% [markdown]
# ## A draft without a model
#
# Summaries quote their source, code repeats its names, a chat answer repeats the question. Then the cheapest draft is the
# text itself: find the last few tokens earlier in the text and guess that what followed then follows now. Each token is
# drafted with certainty, so q is 1 at that token and the rule keeps it with probability p(x).

# %%
from nanolm.speculative import prompt_lookup  # exercise: prompt_lookup
# points: 4
# minutes: 15
# difficulty: 2
# tested: The longest match wins, among equals the latest, the tail does not match itself, fewer tokens at the end of
#   the text, no match, and refusal of a negative γ or an n below 1.
# why: It costs nothing, needs no second model, and on the right texts it beats one.
# hint: For n from max_ngram down, compare text[start : start + n] with the last n tokens, for start from the right to
#   the left. The first start that may be compared is the one whose match ends before the last token of the text.

# %%
# needs 4.9 and 4.10
start = tokenizer.encode("HAMLET\nTo be, or not to be, that is the question:\n")
for name, rule in (("temperature 0", greedy), ("temperature 1", unending[1.0])):
    session = Session(target, rule, len(start) + 120)
    _, stats = speculative_generate(session, PromptLookupDraft(tokenizer.vocab_size), start, 120, 4, Rng(0))
    print(f"{name}: {stats.tokens_per_target_forward:.2f} tokens per pass, kept {stats.accepted} of {stats.drafted} drafted")

# %% [markdown]
# The greedy text of a small model soon repeats itself, and then its past is a good draft. At temperature 1 it says new
# things, and looking back finds little. With a large model the same contrast lies between editing a file and writing a poem.

# %% [markdown]
# ## When it does not pay
#
# Speculation buys fewer passes in sequence with more arithmetic. It pays while the arithmetic is idle.
#
# - **A large batch.** A batch of B texts already has B positions per pass. With speculation it has B · (γ + 1). On an H100
#   a pass is bound by memory only up to about 295 positions (its peak of 989 · 10¹² operations a second over 3.35 · 10¹²
#   bytes a second, two operations and two bytes per 16-bit weight). At B = 59 and γ = 4 that is 59 · 5 = 295: from there
#   on every drafted token costs time.
# - **A poor draft.** At α = 0.3 and c = 0.4 one drafted token gives 1.3 tokens in 1.4 passes: 0.93. The best γ is 0.
# - **A slow draft.** A draft has to be many times cheaper per *pass*, not per parameter. Each layer has fixed costs
#   (starting kernels, waiting) that do not shrink with its width, so a narrow model with as many layers takes nearly as long.
# - **A chip that is busy anyway**, with other requests or with prefill.
# - **A model that is not causal.** If a later token could change the distribution of an earlier one, checking all drafted tokens
#   in one pass would use the wrong context for each of them.

# %%
# needs 4.5 and 4.6
alpha_grid = torch.linspace(0.05, 0.99, 60)
cost_grid = torch.linspace(0.01, 0.6, 60)
gain = torch.tensor(
    [[speculative_speedup(a, best_gamma(a, k, 16), k) for a in alpha_grid.tolist()] for k in cost_grid.tolist()]
)
fig, ax = figures.figure(height=4)
ax.grid(False)
shades = ax.contourf(alpha_grid, cost_grid, gain, levels=[1, 1.001, 1.25, 1.5, 2, 3, 5, 12], cmap="Blues", extend="max")
lines = ax.contour(alpha_grid, cost_grid, gain, levels=[1.001, 1.25, 1.5, 2, 3, 5], colors="black", linewidths=0.7)
ax.clabel(lines, fmt=lambda level: "γ = 0" if level < 1.01 else f"{level:g}×", fontsize=8.5)
ax.plot(alphas[1.0], min(c, 0.6), "*", color=figures.RED, markersize=15)
ax.annotate("the shipped pair, here", (alphas[1.0], min(c, 0.6)), xytext=(-12, -16), textcoords="offset points", ha="right")
ax.set(xlabel="acceptance rate α", ylabel="draft cost c, in target passes")
figures.show(
    fig,
    "Map of the best speed-up over acceptance rate and draft cost. It is near 1 in the upper left, where the draft is "
    "slow and poor, and grows towards the lower right. A star marks the shipped pair on this machine.",
)

# %% [markdown]
# Read the map from the star: a draft with twice the cost moves it up, a better-trained one moves it right. Above and left
# of the line marked γ = 0 it is best not to speculate.

# %% [markdown]
# ## Depth: heads instead of a second model
#
# A separate draft has to be trained, stored and fed. Newer designs let the target draft for itself, from the hidden
# state it has just computed.
#
# | design | what is added | how it drafts |
# |---|---|---|
# | Medusa (Cai 2024) | a few heads on the last hidden state | head i proposes token i + 1, all at once, not knowing each other |
# | EAGLE (Li 2024) | one decoder layer that predicts the next *hidden state* | token by token, with the target's own head |
# | MTP (DeepSeek-V3, 2024) | one more layer, trained with the model from the start | the token after next, reusing the head |
#
# What do they weigh? Take an 8B model with width D = 4,096, F = 14,336, V = 128,256, 32 query and 8 key/value heads of
# 128, at 2 bytes a weight.

# %%
D, F, V, N, K, H = 4096, 14336, 128_256, 32, 8, 128
layer = D * (N + 2 * K) * H + N * H * D + 3 * D * F
medusa_head = D * D + D * V  # a residual block, then logits over the vocabulary
eagle = 2 * D * D + layer  # joins token embedding and hidden state, then one layer; the head is shared
for name, size in (("4 Medusa heads", 4 * medusa_head), ("an EAGLE or MTP layer", eagle)):
    print(f"{name}: {size / 1e9:.2f}·10⁹ parameters, {2 * size / 1e9:.2f} GB, {size / 8.03e9:.1%} of the model")

# %% [markdown]
# A Medusa head is mostly vocabulary: D · V. EAGLE and MTP draft one token after another and reuse the target's head, which
# saves that. (In a mixture of experts the added layer is a mixture too, and much larger.)
#
# Your rule stays exact whatever proposed the token, as long as q is the distribution it was drawn from. Not every system
# wants that: Medusa's paper also offers a looser acceptance that is not exact. EAGLE checks a tree of drafted tokens instead of a
# line, with the same rule at each branch.

# %% [markdown]
# ## The same with libraries
#
# In transformers, speculation is called *assisted generation*: give `generate` an `assistant_model`. The checkpoints
# shipped with this course are ordinary Llama folders, so it opens them. (Their weights lie on disk in 16 bits; `dtype`
# says to compute in 32, as we do.)

# %%
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    start = tokenizer.encode("BRUTUS\n")
    big, small = (
        transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / name, dtype=torch.float32)
        for name in ("target", "draft")
    )
    ids = torch.tensor([start])
    options = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    theirs = big.generate(ids, attention_mask=torch.ones_like(ids), assistant_model=small, **options)
    ours = target.generate(start, 40, greedy)
    print("transformers, assisted, temperature 0, writes our greedy text:", theirs[0, len(start) :].tolist() == ours)
else:
    print("transformers is not installed here; with it, this cell compares its text with ours")

# %% [markdown]
# On a GPU server, vLLM takes the draft on its command line (not run here):
#
# ```
# vllm serve BIG_MODEL --speculative-config '{"model": "SMALL_MODEL", "num_speculative_tokens": 4}'
# vllm serve BIG_MODEL --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}'
# ```
#
# Its metrics report a mean acceptance length, which is our tokens per target pass, and an acceptance rate, which is *not*
# α: it divides by all drafted tokens, also those behind a rejection that nobody looked at. With α = 0.8 and γ = 4 it
# reads (3.36 − 1)/4 = 59 %.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **On rejection drawing from p.** Tokens that were kept already come too often.
#   `test_accept_or_resample_has_output_distribution_p_when_every_outcome_is_followed`
# - **p and q swapped in the ratio.** Nearly right where p ≈ q, wrong elsewhere. The same test.
# - **p and q swapped in the residual.** What the draft overrated comes even more often.
#   `test_residual_zeroes_tokens_the_draft_overrated`
# - **No bonus token.** The right distribution with fewer tokens per pass, and none at all at γ = 0.
#   `test_verify_draft_adds_a_bonus_token_when_all_are_kept`
# - **The bonus token from the draft.** The last token of a fully kept round follows the draft.
#   `test_verify_draft_draws_the_bonus_from_the_target`
# - **Going on after a rejection.** Guesses that continue another text come out.
#   `test_verify_draft_stops_at_the_first_rejection`
# - **A stale cache after a rejection.** Here an error in the next round; in other engines the text drifts silently.
#   `test_speculative_round_truncates_the_target_after_a_rejection`
# - **The ratio taken before temperature.** Right at temperature 1 only. (A test of the engine: the session applies
#   temperature, so your functions cannot get it wrong.)
#   `test_every_text_of_three_tokens_has_the_probability_that_the_target_alone_gives_it`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** α = 0.84, γ = 4. Tokens per target pass?
#
# <details><summary>Answer</summary>(1 − 0.84⁵)/(1 − 0.84) = 0.5818/0.16 = 3.64.</details>
#
# **2.** An 8B target takes 4.78 ms per pass on an H100, its 1B draft 0.60 ms. α = 0.7, γ = 3. Tokens per second with and
# without speculation?
#
# <details><summary>Answer</summary>Tokens a round: 1 + 0.7 + 0.49 + 0.343 = 2.533. A round: 4.78 + 3 · 0.60 = 6.58 ms.
# 2.533 / 6.58 ms = 385 tokens/s, against 1 / 4.78 ms = 209: 1.84 times.</details>
#
# **3.** The same pair, 64 requests at once. Does γ = 4 still pay?
#
# <details><summary>Answer</summary>Yes, but γ = 3 is better. With c = 0.60/4.78 = 0.126 and v = 64 (γ + 1)/295 where that
# is above 1: γ = 4 runs 320 positions, v = 1.08, and gives 2.773/(1.08 + 0.50) = 1.75 times. γ = 3 runs 256, which is
# free, and gives 2.533/(1 + 0.38) = 1.84. γ = 5: v = 1.30, 1.53 times. (Caches, which are read once per pass whatever γ is,
# move the balance towards speculation for long texts.)</details>
#
# **4.** A vendor says "our draft accepts 80 % of the tokens". You measure 2.3 tokens per pass at γ = 4. Both can be true?
#
# <details><summary>Answer</summary>Not on the same texts with all four tokens drafted. A constant α = 0.8 gives 3.36. If
# 80 % is the share of <em>drafted</em> tokens, it gives exactly 1 + 0.8 · 4 = 4.2. If it is the share of <em>examined</em>
# tokens, then however unevenly α is spread at least 3.0 come out (half of the rounds kept whole, half cut at the first
# drafted token). 2.3 tokens is what a constant α of about 0.6 gives. Ask: on which texts, at which temperature, 80 % of what?</details>

# %% [markdown]
# ## Check yourself
#
# - Why does the target need only one pass for γ drafted tokens, when it needs γ passes to write them?
# - What do the three numbers α, γ and c say, and which of them can you change after training?
# - When does speculation slow a server down?
# - Why would a bidirectional model (BERT, say) not allow this? What would happen to its cache?
# - A colleague "simplifies" the code: on rejection, take the target's most probable token. What changes, and at which
#   temperature does nobody notice?
#
# <details><summary>Short answers</summary>
# All drafted tokens are known beforehand, so their positions can be run side by side; when writing, each token is the input of
# the next. · α: agreement of the two models on this kind of text; γ: how far ahead you gamble, the only one you can set
# freely; c: time of a draft pass over a target pass. · When the batch fills the arithmetic, when α is low, or when c is
# high. · A later token would change the hidden states of earlier ones, so cached keys and values would be wrong after
# every new token. · The output becomes too peaked. At temperature 0 the residual is certain, and nobody notices.
# </details>

# %% [markdown]
# ## In an interview
#
# *"Our 70B chat model feels slow. Somebody suggests speculative decoding. Walk me through the decision."*
#
# A structure for three minutes:
#
# 1. **Which slowness?** Time to the first token is queue and prefill; speculation does nothing for it. It helps the time
#    per output token only (30 seconds).
# 2. **Is arithmetic idle?** Batch per replica times γ + 1 against the critical batch. At peak load, switch it off or lower
#    γ (30 seconds).
# 3. **What is α on our traffic?** Measure offline: run logged answers through target and draft, average Σ min(p, q) at the
#    temperature we serve. Code and extraction high, free chat lower (45 seconds).
# 4. **What does the draft cost?** c from a timing of both at batch 1 and at our batch; memory for its weights and cache
#    (30 seconds).
# 5. **Prediction, then a trial:** tokens a round over v + γc. Exactness means that quality needs no new evaluation, but
#    test it: same distribution, same greedy text up to near ties (45 seconds).

# %% [markdown] written="proof of exactness" points=8 minutes=20 difficulty=3
# **Prove that the output is exactly the target's.** One token: x is drawn from q, kept with probability min(1, p(x)/q(x)),
# and otherwise replaced by a draw from the residual r. Show that for every token y the probability that y comes out is
# p(y). Then say in two or three sentences why a whole *text* written in rounds has the target's distribution too.
#
# ### BEGIN SOLUTION
# **Model answer.** Let A be the event that the drafted token is kept.
#
# 1. Kept and equal to y: Pr[x = y, A] = q(y) · min(1, p(y)/q(y)) = min(p(y), q(y)). (If q(y) = 0 both sides are 0.)
# 2. So Pr[A] = Σ min(p, q) = α, and a rejection has probability 1 − α.
# 3. max(p − q, 0) = p − min(p, q) for each token. Summed, Σ max(p − q, 0) = 1 − α. So r(y) = (p(y) − min(p(y), q(y)))/(1 − α).
# 4. Rejected and y drawn: (1 − α) · r(y) = p(y) − min(p(y), q(y)).
# 5. Sum of 1 and 4: min(p(y), q(y)) + p(y) − min(p(y), q(y)) = p(y). If α = 1 nothing is ever rejected and 1 alone gives p.
#
# *Text.* The first token of a round is distributed as p given the text before it, by the above. If it was kept, the next
# row of the target's pass is p given the text *with* it, and the argument repeats; if it was replaced, the round ends, and
# the next round starts from the text with the replacement. The bonus token is drawn from p directly. So each token has the
# distribution p(· | everything before it), and by the chain rule the product is the target's distribution of texts.
#
# **Mark scheme (8).** Kept mass min(p, q), 2. Rejection probability is 1 − α, 1. Normaliser of r equals 1 − α, with a reason,
# 2. Sum is p(y), 1. Both special cases (q(y) = 0, α = 1), 1. Chain rule, with "given the text before it" said, 1. An
# argument by example or simulation only: at most 2.
# ### END SOLUTION

# %% [markdown] written="expected gain" points=6 minutes=15 difficulty=3
# **Derive the expected gain with the draft's cost.** Assume that each drafted token is kept with probability α, independently.
# (a) Derive E[tokens per round] as a sum and in closed form. (b) With c the draft's cost per pass and v the cost of a
# target pass over γ + 1 positions, both in single target passes, give the speed-up. (c) At which c does γ = 1 stop
# paying if v = 1? (d) Name one way in which independence fails in practice, and say whether the formula is then too high or
# too low.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) A round gives at least i + 1 tokens when the first i drafted tokens are kept, which has probability αⁱ, for
# i = 0 … γ. The mean of a non-negative whole number is the sum of Pr[at least k] over k ≥ 1, so E = Σᵢ αⁱ for i = 0 … γ
# = (1 − α^(γ+1))/(1 − α), and γ + 1 for α = 1. (b) E / (v + γc). (c) (1 + α)/(1 + c) > 1 exactly if c < α: a draft
# that costs more than α of a target pass never pays at γ = 1. (d) Acceptance comes in clusters: easy stretches and hard
# stretches. If α is constant within a round and varies between rounds, the power of the mean α is at most the mean of αⁱ
# over rounds (Jensen's inequality, equal at γ = 1), so for the same mean α per *round* the formula is too low. If α is
# averaged over *places of the text*, as the notebook does, or over *examined* tokens, as a counter does, easy stretches get
# more weight than they have rounds, and the formula is too high.
#
# **Mark scheme (6).** (a) sum with a reason, 2; closed form with α = 1, 1. (b) 1. (c) 1. (d) one real cause with a
# direction that follows from it, 1 (either direction, if argued).
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can explain the idle arithmetic, write `speculative_generate` so that it passes an exactness test, prove the rule on
# paper, and predict a speed-up from α, γ and c. Run `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Leviathan, Kalman, Matias 2022, *Fast inference from transformers via speculative decoding*: the rule, α, theorem 3.8.
# - Chen et al. 2023, *Accelerating large language model decoding with speculative sampling*: the same rule, found independently.
# - Saxena 2023, *Prompt lookup decoding*: n-grams of the text as draft.
# - Cai et al. 2024, *Medusa*; Li et al. 2024, *EAGLE*; DeepSeek-AI 2024, *DeepSeek-V3* (multi-token prediction).
