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
# - predict the speed-up from three numbers, and measure it on your own machine;
# - say how a server chooses γ while it runs, and what a tree of drafted tokens adds to a line.
#
# **Time:** about two and a half hours for the first ten exercises, 45 minutes for the eleventh, which is the hard one
# of the depth part, 40 minutes for the two written questions, and an hour and a half of reading and measuring: two
# evenings. **Needs:** the idea of a KV cache ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)). No exercise of
# another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell
# below it. A check runs the course's own tests on your function alone: everything around it is the reference, so one
# mistake never hides another. Where a test failed, the call of your answer stands in `failing`, and `failing.again()`
# makes it once more. Cells that measure use *your* functions. Where one is not written yet, a line called `needs` at
# the top of the cell puts the reference in its place and says so. If you prefer an editor, the same functions wait in
# `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, the message has to name the argument, so that whoever reads it knows where to look:
# `raise ValueError(f"draft_cost is {draft_cost}; it must be 0 or more")`.
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.

# %%
# Set-up for the labs
import torch
from nanolm import load
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import ModelDraft, PromptLookupDraft, Round, Session, baseline_generate
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import take_turns
from course.lab.verdicts import fastest_of, largest, ratio, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
draft, _ = load("draft")
sampling = SamplingParams(temperature=1.0)
# These let no text end early: equal work for all that are compared.
greedy = SamplingParams(0.0, end_tokens=())
unending = {t: SamplingParams(t, end_tokens=()) for t in (0.0, 0.7, 1.0)}
plays = ["KING HENRY V\n", "ROMEO\nBut soft, what light", "First Witch\nWhen shall we three meet again\n"]
problems = ["12 + 31:", "Who has more, Anna with 31 pens or Ben with 54?"]


def sessions(prompt, new_tokens, sampling=sampling):
    """Target and draft, fresh, with room for a prompt and so many tokens more."""
    capacity = len(prompt) + new_tokens
    return Session(target, sampling, capacity), ModelDraft(draft, sampling, capacity)


def pass_of(model, n):
    """A pass over n new positions behind 100 that are cached already."""
    read = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 8)[:100]
    session = Session(model, sampling, capacity=len(read) + 32)
    session.feed(read)

    def run():
        session.feed(read[:n], last=n)
        session.truncate(len(read))

    return run


def visible(tokens):
    """Tokens as text, with spaces and line ends to be seen."""
    return tokenizer.decode(tokens).replace(" ", "·").replace("\n", "↵")


for name, model in (("target", target), ("draft", draft)):
    size, layers = sum(weight.numel() for weight in model.parameters()), model.config.n_layers
    print(f"{name}: {size:,} parameters, {layers} layer{'s' if layers > 1 else ''}")

# %% [markdown]
# ## The idea in plain words
#
# Think of a careful author and a quick assistant. The assistant writes the next four words in pencil. The author reads
# all four at once and strikes out the first one that does not fit, with everything after it, and puts a word of their
# own in its place. If all four fit, the author adds a fifth. Either way the author looked at the page once, and at
# least one word is final.
#
# For models the author is the **target**, the assistant the **draft**. Reading is cheap for the same reason that
# prefill is cheap: a pass has to load all weights from memory, and once they are loaded, multiplying them by five
# positions instead of one takes hardly longer. The arithmetic units were idle anyway.

# %%
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
# | E | mean over the random choices, E[…] | |
# | B, V | texts in the batch; vocabulary | |
# | D, F, N, K, H | in the depth part: width, feed-forward width, query heads, key/value heads, head dimension | |
# | W | in the depth part: a matrix of weights | |
#
# Papers disagree about the letters: some call the draft p. Here **p is the target, q is the draft**, always.
#
# Both are the distributions that tokens are really drawn from: temperature, top-k and top-p are applied to both
# *before* any ratio is taken. The ratios are taken in float64.
#
# ### One vocabulary for both
#
# p(x)/q(x) asks both models about the same x. So draft and target must share their **vocabulary**: the same pieces of
# text under the same ids. That is why a draft is usually the smallest model of the target's own family. Equal sizes are
# no proof of it, and other sizes no proof against it: some families pad their tables of weights to a round number.
#
# What happens if the ids mean different things? Nothing wrong comes out, since the rule is exact for any q; but p and q
# then share next to nothing, and hardly a token is kept. The engine compares the sizes (`check_draft` in
# [generate.py](../../nanolm/speculative/generate.py)); the rest is yours to check.
#
# A draft may know *fewer* tokens than the target: it gives the others probability 0. If they hold 3 % of p at a place,
# at most 97 % can be kept there, and the draft's table of logits gets smaller. With width 4,096 and 16 bits, 128,256
# tokens take 1.05 GB and the 32,000 most frequent 0.26 GB. Where no small relative exists one trains a draft, or
# translates between two vocabularies ([Timor 2025, arXiv:2502.05202](https://arxiv.org/abs/2502.05202)), or looks the
# text up in itself (further down).

# %% [markdown]
# ### Prediction 1
#
# The target reads γ + 1 positions in one pass to check γ drafted tokens. How many times longer than a pass of one
# position does a pass of 5 take on your machine? Write your guess down, then measure.

# %%
my_guess_for_5_positions = 5.0  # times as long as 1 position; change it

# %% [markdown]
# The measurement takes about five seconds. Of each size the *fastest* pass counts. A pass here takes some milliseconds,
# and whatever else the machine does in that time only ever adds to it.

# %%
positions = [1, 2, 3, 4, 5, 7, 9, 17]
rounds_of_passes = take_turns({n: pass_of(target, n) for n in positions}, repeats=60)
# A pass over fewer positions does no more work: a fast one over more of them counts for it too.
fastest_pass = {n: min(min(rounds_of_passes[m]) for m in positions if m >= n) for n in positions}
for n in positions:
    print(
        f"{n:2} positions: {fastest_pass[n] * 1e3:5.2f} ms, {fastest_pass[n] / fastest_pass[1]:.2f} times one position"
    )
print(f"your guess for 5 positions was {my_guess_for_5_positions:.2f} times")

# %%
shown_times = [fastest_pass[n] / fastest_pass[1] for n in positions]
fig, ax = figures.figure()
ax.plot(positions, shown_times, "o-", color=figures.BLUE, label="measured here")
ax.plot(positions, positions, "--", color=figures.GREY, label="if every position cost a full pass")
ax.set(xlabel="positions in the pass, γ + 1", ylabel="time, in passes of one position")
ax.set_ylim(0, max(8, 1.1 * max(shown_times)))
ax.legend()
figures.show(
    fig,
    f"Time of one pass against the number of positions in it, in passes of one position. Measured: {shown_times[4]:.1f} at "
    f"5 positions and {shown_times[-1]:.1f} at 17. A dashed diagonal shows what it would be if every position cost a full "
    "pass: 5 and 17.",
)

# %% [markdown]
# The gap between the line and the diagonal is what speculation lives on.
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
# How often is a drafted token kept? 0.3 · 1 + 0.3 · 1 + 0.4 · 0.5 = 0.8. That is the **acceptance rate** α, and it is
# the mass that both distributions share: min(0.5, 0.3) + min(0.3, 0.3) + min(0.2, 0.4) = 0.8.
#
# And what comes when a C is rejected? So far A has come out with 0.3, B with 0.3, C with 0.2. The target wants 0.5,
# 0.3, 0.2. What is missing is 0.2 of A, and 0.2 is just the share that was rejected. So every rejected C becomes an A.
# In general the missing part is max(p − q, 0), scaled to sum 1: the **residual**.
#
# Note what the residual is *not*: it is not p. A and B have had their kept share already. Drawing from p after a
# rejection would give B 0.3 + 0.2 · 0.3 = 0.36, too much.
#
# Try one yourself: p = (0.6, 0.4), q = (0.9, 0.1). How often is A kept, how often is a drafted token rejected, what
# comes then?
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
# tested: The values on a worked example, tokens that the draft overrated, distributions that share no token or are
#   nearly equal, p = q, and for 100 random pairs that kept mass plus rejected mass times residual is p.
# why: This one distribution is what makes speculation exact instead of approximate.
# hint: Which way round is the difference? On the A, B, C table above the result must be (1, 0, 0). And p = q leaves
#   nothing to divide by. // Clamp the difference at 0 with `clamp(min=0)`. Sum it; a sum of 0 is refused. Divide by it.

# %% [markdown]
# The randomness. Every random choice in this package goes through one small object, `rng`, with two methods.
# `rng.bernoulli(prob)` says yes with that probability, and `rng.categorical(probs)` draws an index. Use nothing else,
# not even `torch.rand`. Soon you will see what that buys: a test can put a *scripted* one in its place.
#
# One helper is imported with the exercise: `check_distributions(target_probs, draft_probs)` raises the ValueError for
# what are no distributions over one vocabulary. Call it first.

# %%
from nanolm.speculative import accept_or_resample  # exercise: accept_or_resample
# points: 5
# minutes: 20
# difficulty: 2
# tested: The exact output distribution with every outcome followed, 4,000 draws with a stated false-alarm rate, the
#   probability of keeping each token, tokens the draft never proposes, and that wrong input is refused.
# why: It turns a token drawn from the wrong distribution into one drawn from the right distribution.
# hint: Not p: the tokens that were kept have had their share. Only what is still missing may be drawn after a
#   rejection. // `check_distributions` and the refusal of q(x) = 0 come first. `rng.bernoulli` gets the ratio p(x)/q(x)
#   as a Python number (`.item()`) and treats anything above 1 as 1. If it says no, `rng.categorical` draws from the
#   residual.

# %% [markdown]
# ### See it happen
#
# The next picture takes one place in a real text. Blue is what both models agree on and is kept. The hatched part of
# the draft is what gets rejected; the orange part is where it goes. Over the whole vocabulary the two have the same
# area; the nine tokens here show a part of it. `·` is a space and `↵` the end of a line.

# %%
context = tokenizer.encode("JULIET\nO Romeo, Romeo! wherefore art thou")
p = Session(target, sampling, 64).feed(context)[-1]
q = Session(draft, sampling, 64).feed(context)[-1]
shown = torch.maximum(p, q).topk(9).indices
names = [visible([token]) for token in shown.tolist()]
places = range(len(names))
kept = torch.minimum(p, q)[shown]
fig, ax = figures.figure(height=3.8)
ax.bar(places, kept, color=figures.BLUE, label="min(p, q): kept")
ax.bar(
    places,
    (q - p).clamp(min=0)[shown],
    bottom=kept,
    color="white",
    edgecolor=figures.RED,
    hatch="///",
    label="rejected",
)
ax.bar(places, (p - q).clamp(min=0)[shown], bottom=kept, color=figures.ORANGE, label="residual: drawn instead")
ax.set(ylabel="probability", xlabel="token")
ax.set_xticks(places, names, rotation=35)
ax.legend()
figures.show(
    fig,
    "Bars for the nine most probable next tokens. The shared part of target and draft is blue; above it either a "
    "hatched part, where the draft gives too much, or an orange part, where the target gives more. Over the whole "
    f"vocabulary the blue parts sum to {torch.minimum(p, q).sum():.2f}.",
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
# hint: Rows stay rows: sum over the last dimension only. // `torch.minimum` gives the smaller of two tensors, element
#   by element.

# %% [markdown]
# ## From one token to a round
#
# A round drafts γ tokens and checks them in one pass. Number them 1 to γ. Number i is kept only if 1, …, i − 1 were
# kept as well, since it was drafted as their continuation. If we take α as the same everywhere, token i survives with
# αⁱ. One token more always comes: the one drawn in place of the first rejected token, or a **bonus token** when all
# were kept, for the pass has also computed what follows the last drafted token. So
#
# $$E[\text{tokens per round}] = 1 + \alpha + \dots + \alpha^\gamma$$
#
# $$= \frac{1 - \alpha^{\gamma+1}}{1 - \alpha}$$
#
# With α = 0.8 and γ = 4: 1 + 0.8 + 0.64 + 0.512 + 0.4096 = 3.3616 tokens for one pass of the target. The helper
# `check_alpha_gamma(alpha, gamma)`, imported with the exercise, refuses an α outside 0 to 1 and a negative γ.

# %%
from nanolm.speculative import expected_tokens_per_round  # exercise: expected_tokens_per_round
# points: 3
# minutes: 10
# difficulty: 1
# tested: Six values, among them α = 0, α = 1 and γ = 0, and refusal of an α outside 0 to 1 or a negative γ.
# why: It is half of the speed-up formula, and the half that people get wrong by one.
# hint: The closed form divides by 1 − α, which is 0 for a perfect draft. // Check the arguments with
#   `check_alpha_gamma`, then add the powers up: there are γ + 1 of them, from α⁰ on, and γ is small.

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
# tested: Six values, one of them a loss; a negative cost, and a rate or γ out of its range, are refused.
# why: Before you deploy a draft, this line tells whether you should.
# hint: The draft runs γ times a round, the target once. // Tokens over time; the time of a round, in target passes, is
#   one plus what the draft takes. A negative (or NaN) cost is refused before.

# %%
from nanolm.speculative import best_gamma  # exercise: best_gamma
# points: 2
# minutes: 5
# difficulty: 1
# tested: The best γ for α = 0.6, 0.8 and 0.9 at c = 0.05, that the answer is 0 where speculation cannot pay, and that
#   impossible arguments are refused.
# why: Drafting too far wastes draft passes, drafting too little wastes target passes.
# hint: γ = 0 and γ = max_gamma are candidates too, and among equals the smaller one wins. // Check the arguments, then
#   try them all: `max` takes a `key`, and the key may be a pair.

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2)
gammas = range(17)
for alpha, colour in zip((0.5, 0.6, 0.7, 0.8, 0.9), figures.LINES, strict=False):
    axes[0].plot(gammas, [expected_tokens_per_round(alpha, g) for g in gammas], color=colour, label=f"α = {alpha}")
    axes[1].plot(gammas, [speculative_speedup(alpha, g, 0.05) for g in gammas], color=colour)
    best = best_gamma(alpha, 0.05)
    axes[1].plot(best, speculative_speedup(alpha, best, 0.05), "o", color=colour)
axes[0].set(xlabel="γ, tokens drafted", ylabel="tokens per target pass", xticks=range(0, 17, 4))
axes[1].set(xlabel="γ, tokens drafted", ylabel="speed-up at c = 0.05", xticks=range(0, 17, 4))
axes[1].axhline(1, color=figures.GREY, linestyle="--")
axes[0].legend(fontsize=9)
figures.show(
    fig,
    "Left: tokens per target pass rise with γ towards 1/(1 − α). Right: the speed-up has a peak, marked with a dot, at "
    "γ = 3 for α = 0.5 up to γ = 13 for α = 0.9, and falls after it.",
)

# %% [markdown]
# The left curves rise towards 1/(1 − α) and no further: nobody gets past the first rejection. The right ones have a
# peak and then fall, because the draft goes on costing. A better draft moves the peak to the right.

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
# | `check_alpha_gamma(1.0, gamma)` | as above; so it refuses a negative γ |
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
# tested: A rejection ends the round, the bonus token comes and comes from the target, each drafted token is held
#   against its own row, the exact distribution of texts of three tokens, and no drafted tokens at all.
# why: Where the last token of a round comes from is the most common mistake in speculation.
# hint: `target_probs` has one row more than there are drafted tokens: when does anybody look at it? And a rejected
#   token is not in the result, but the one drawn in its place is. // Go through rows of p and q and the drafted tokens
#   together with `zip`. `accept_or_resample` decides about each. The first that is not kept ends the round at once;
#   behind the loop stands the bonus token.

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
# <details><summary>Answer</summary>n + m − 1. The last of the m was drawn <em>after</em> the pass, so nobody has read
# it; all before it have been read. The draft has not read its own last token, so it may hold less than that; then it
# keeps what it has. <code>truncate</code> refuses a length beyond what was read.</details>

# %%
from nanolm.speculative import speculative_round  # exercise: speculative_round
# points: 6
# minutes: 25
# difficulty: 3
# tested: One target pass per round, what target and draft have read after a rejection and after a round in which all
#   was kept, three rounds in a row, the whole text for the draft, a draft that proposes less than γ, γ = 0, and the
#   refusal of a negative γ.
# why: This is the algorithm. Everything else in the file serves these ten lines.
# hint: A draft may propose fewer than γ tokens, and the target has not read all of the text, perhaps not even the
#   prompt. Count what there is, not what was asked for. // Four steps, as in the docstring. Step 2 is one `feed` of
#   text[target.length:] and the drafted tokens together, and it gives back a row for each of these and one more. After
#   step 3 compute how much stays read; the draft never truncates to more than its own length.

# %%
from nanolm.speculative import speculative_generate  # exercise: speculative_generate
# points: 5
# minutes: 20
# difficulty: 3
# tested: The joint distribution of all texts of two and three tokens, exact to 1e-9; the number of target passes when
#   draft and target are equal; the exact length and how much each round drafts; an end token inside a draft or in the
#   prompt; a prompt that has been read in part; the counts; `on_round`.
# why: The joint distribution is the proof by machine that nothing leaks from one round into the next.
# hint: The last round must not overshoot, and an end token may stand in the middle of a round. // A loop around
#   `speculative_round`. With r tokens left, draft r − 1 at most. Cut what comes behind an end token (`up_to_end`)
#   before you add to the text, tell `stats.count` how many went in, call `on_round` if there is one, and stop at an end
#   token.

# %% [markdown]
# ## Look at real rounds
#
# Each line is one round at temperature 1, with γ = 4.

# %%
prompt = tokenizer.encode("HAMLET\n")
rounds = []
tokens, stats = speculative_generate(
    *sessions(prompt, 40), prompt, 40, gamma=4, rng=Rng(seed=11), on_round=rounds.append
)
fig = figures.draw_rounds(rounds[:8], tokenizer.decode)
figures.show(
    fig,
    f"{len(rounds[:8])} rounds of speculation, one a line: kept drafted tokens in blue, a struck-out rejected one in red "
    "followed by the token drawn instead in orange, or a green bonus token where all four drafted tokens were kept. "
    f"Kept in these rounds: {', '.join(str(len(done.tokens) - 1) for done in rounds[:8])}.",
)
print(tokenizer.decode(prompt + tokens))

# %% [markdown]
# ### Several texts at once
#
# A server writes many texts at a time. It drafts for all of them in one pass of the draft and checks them all in one
# pass of the target; each text keeps its own number of drafted tokens. `Engine(model, draft=draft)` does that;
# [week 6](../week06_batching_paging/week06_2_paging.ipynb) takes the engine apart.
#
# There is one more thing to see here. Give a request a *seed*, and draft and target draw each token with the same
# random numbers. The target's own token is then known as soon as its logits are, and a drafted token is simply right or
# wrong. So the text is, token for token, the one that the target writes alone. **Predict:** does a draft that guesses
# this way keep more tokens than your rule, or fewer? (The cell takes about five seconds.)

# %%
from nanolm.engine import Engine

starts = [tokenizer.encode(start) for start in ("HAMLET\n", "12 + 31:", "Enter the GHOST\n\n")] * 4
passes_of = {}
for name, seeds in (("with seeds", list(range(12))), ("your rule", None)):
    engine = Engine(target, draft=draft, gamma=4, adaptive=False)
    texts = engine.generate(starts, 40, unending[1.0], seeds)
    passes_of[name] = sum(map(len, texts)) / engine.metrics.n_steps
    print(f"{name:<10} {engine.metrics.n_steps} passes for {sum(map(len, texts))} tokens")
    if seeds:
        alone = [target.generate(start, 40, unending[1.0], Rng(s)) for start, s in zip(starts, seeds, strict=True)]
        print(f"           {'the' if texts == alone else 'NOT the'} texts that the target writes alone")
print(f"more tokens a pass: {largest(passes_of)}")

# %% [markdown]
# What is to be expected? Let d be the distance between p and q, half the sum of |p − q|. Your rule keeps with
# probability 1 − d, and no rule keeps more. Two draws that use the same numbers agree with probability at least (1 −
# d)/(1 + d) ([Daliri 2024, arXiv:2408.07978](https://arxiv.org/abs/2408.07978)): at d = 0.4 that is 0.43 where your
# rule keeps 0.60. (A batch waits for its slowest text, and one run is a small sample, so the line above may say
# otherwise.) What the seed buys is a text that no draft and no neighbour can change.
#
# Here are six of these texts, to be gone through pass by pass: guesses that were kept are underlined, those that were
# not are struck out, and the token that took their place stands behind them in bold.

# %%
from course.lab.watching import watched

with watched(Engine(target, draft=draft, gamma=4, adaptive=False, n_blocks=64), tokenizer, "Guesses") as run:
    run.engine.generate(starts[:6], 24, unending[1.0])

# %% [markdown]
# ## Proof by machine: follow every outcome
#
# A sample of texts can only make it *likely* that the distribution is right. But all randomness goes through the rng,
# so we can do better. Put a scripted one in its place that first takes one branch and then, run after run, all others,
# each with its probability. Add the probabilities up per text. That is the exact output distribution, no sampling.
#
# Below: four tokens, γ = 1, all texts of two tokens. What difference from the target's own distribution do you expect?

# %%
P = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)


class Branching:
    """Follows a given path of choices, then takes the first branch and remembers the others."""

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
# That is rounding of float64 and nothing else. The course's tests do the same with distributions that depend on the
# last token, and with two real (tiny) models at several temperatures, with top-k, and with look-up:
# [test_generate.py](../../tests/speculative/test_generate.py) and
# [test_exactness.py](../../tests/speculative/test_exactness.py).

# %% [markdown]
# ## Predict, then measure: the shipped pair
#
# Three numbers decide. You can measure each of them before a single round is run.
#
# - **α**: let the target write a text, and take the sum of min(p, q) at every place of it.
# - **c**: a draft pass over a target pass, one position each.
# - **v**: a target pass over γ + 1 positions, over one of one position. The formula takes it as 1; you measured it
#   above.
#
# The first cell takes about ten seconds.


# %%
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


alphas = {t: mean_alpha(plays, unending[t]) for t in tqdm(unending, desc="plays", leave=False)}
alpha_problems = {t: mean_alpha(problems, unending[t]) for t in tqdm(unending, desc="problems", leave=False)}
for t in unending:
    print(f"temperature {t}: α = {alphas[t]:.2f} in plays, {alpha_problems[t]:.2f} in worked problems")

# %% [markdown]
# Now c. A draft pass is short, and what else the machine does is added to some of the passes and never taken away. So
# the fastest of many counts, for both. (On a busy two-core machine the median of these calls said c = 0.05 where the
# fastest said 0.16.)

# %%
rounds_of_both = take_turns({"target": pass_of(target, 1), "draft": pass_of(draft, 1)}, repeats=200)
fastest = {name: min(rounds) for name, rounds in rounds_of_both.items()}
c = fastest["draft"] / fastest["target"]
print(f"target pass {fastest['target'] * 1e3:.2f} ms, draft pass {fastest['draft'] * 1e3:.2f} ms: c = {c:.2f}")

# %% [markdown]
# ### Prediction 2
#
# With these numbers: which γ is best at temperature 1 on plays, and how many times as fast as plain decoding will it
# be? With v in it,
#
# $$\text{speed-up} = \frac{E[\text{tokens per round}]}{v + \gamma c}$$
#
# Take v from the first measurement, and write both down before you go on. The measuring cell takes less than a minute.

# %%
my_best_gamma, my_speedup = 0, 1.0  # change both

# %%
length, tried = 60, [1, 2, 3, 4, 6]
counts = {}


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


measured, tokens_per_pass, seconds_of = {}, {}, {}
for t in tqdm(unending, desc="temperatures", leave=False):
    runs = {"γ 0": lambda t=t: write_plain(t)} | {f"γ {g}": lambda t=t, g=g: write_speculatively(t, g) for g in tried}
    seconds_of[t] = take_turns(runs, repeats=3)
    measured[t] = {g: ratio(seconds_of[t], "γ 0", f"γ {g}").middle for g in tried}
    tokens_per_pass[t] = {
        g: sum(s.new_tokens for s in counts[t, g]) / sum(s.target_forwards for s in counts[t, g]) for g in tried
    }
for t in unending:
    print(f"temperature {t}: speed-up " + ", ".join(f"γ {g}: {measured[t][g]:.2f}" for g in tried))
    print(f"  {which_is_faster(seconds_of[t], 'γ 3', 'γ 0')}")

# %%
v = {g: fastest_pass[g + 1] / fastest_pass[1] for g in tried}


def predicted(t, g):
    return expected_tokens_per_round(alphas[t], g) / (v[g] + g * c)


guess = max(tried, key=lambda g: predicted(1.0, g))
print(f"temperature 1: you said γ = {my_best_gamma}, {my_speedup:.2f} times")
print(f"the formula says γ = {guess}, {predicted(1.0, guess):.2f} times; measured at that γ {measured[1.0][guess]:.2f}")
print(f"the fastest of all that were run: {fastest_of(seconds_of[1.0])}")
for t in unending:
    line = [tokens_per_pass[t][g] / expected_tokens_per_round(alphas[t], g) for g in tried]
    print(f"temperature {t}: tokens a pass are {min(line):.2f} to {max(line):.2f} of what the formula says, ", end="")
    speeds = [measured[t][g] / predicted(t, g) for g in tried]
    print(f"speed-ups {min(speeds):.2f} to {max(speeds):.2f}")

# %%
fig, axes = figures.figure(6.4, 3.6, columns=2, sharex=True)
for t, colour in zip(unending, figures.LINES, strict=False):
    axes[0].plot(tried, [expected_tokens_per_round(alphas[t], g) for g in tried], color=colour, label=f"T = {t}")
    axes[0].plot(tried, tokens_per_pass[t].values(), "o", color=colour)
    axes[1].plot(tried, [predicted(t, g) for g in tried], color=colour)
    axes[1].plot(tried, measured[t].values(), "o", color=colour)
axes[1].axhline(1, color=figures.GREY, linestyle="--")
axes[0].set(xlabel="γ, tokens drafted", ylabel="tokens per target pass", ylim=(1, None))
axes[1].set(xlabel="γ, tokens drafted", ylabel="speed-up over plain decoding", ylim=(0, None))
axes[0].legend(fontsize=9)
at_3 = "; ".join(
    f"T = {t}: {tokens_per_pass[t][3]:.2f} and {expected_tokens_per_round(alphas[t], 3):.2f} tokens a pass, "
    f"{measured[t][3]:.2f} and {predicted(t, 3):.2f} times as fast"
    for t in unending
)
figures.show(
    fig,
    "Lines are predictions, dots measurements, at temperatures 0, 0.7 and 1. Left, tokens per target pass; right, the "
    f"speed-up with v included. Measured and predicted at γ = 3: {at_3}.",
)

# %% [markdown]
# Lines are the formula, dots are measured. On the left only tokens are counted, and they do not depend on your machine.
# How far may a dot lie from its line by chance? With α = 0.6 and γ = 4 a round gives 2.31 tokens, with a standard
# deviation of 1.40. A dot comes from 180 tokens, 78 rounds, so it is off by 1.40/√78 = 0.16 tokens, 7 %, now and then
# by twice that.
#
# Where all dots of a temperature lie below their line, α varies in stretches: easy passages and hard ones. α is
# averaged here over *places of the text*, and an easy round writes more places than a hard one, so it counts more. Then
# the formula is too high. Exercise 4.13 asks for the size of that.
#
# On the right each dot carries the scatter of its neighbour on the left. Drawing and comparing in Python takes time that
# the formula does not know, which pulls dots down. And other work on the machine pulls them either way: c and v are of
# fastest passes, the dots of whole texts. How far they are from their lines, the last printed lines say.
#
# Note where α differs: a worked problem is nearly certain once it has begun, so even a small draft proposes well; free
# text is not. Code, boilerplate and quotations accept well in large models for the same reason.

# %% [markdown]
# ### Temperature 0
#
# At temperature 0 both distributions are certain: p and q are 1 at one token. A drafted token is kept if the two are
# equal, and otherwise the residual is certain too. Every draw is certain, and the text must be the target's own greedy
# text.

# %%
start = tokenizer.encode("BRUTUS\n")
alone = target.generate(start, 80, greedy)
together, stats = speculative_generate(*sessions(start, 80, greedy), start, 80, 4, Rng(0))
print(f"same text: {alone == together}; {stats.tokens_per_target_forward:.2f} tokens per target pass")

# %% [markdown]
# On a GPU, on some CPUs, or with 16-bit numbers, you may see the two texts part at some place. Look at the two best
# logits there: they will be nearly equal. A pass over five positions adds its products up in another order than a pass
# over one, and the last bits differ ([week 3](../week03_sampling/week03_sampling.ipynb) has the experiment). The
# algorithm is exact; floating point is not associative.

# %% [markdown]
# ## A draft without a model
#
# Summaries quote their source, code repeats its names, a chat answer repeats the question. Then the cheapest draft is
# the text itself: find the last few tokens earlier in the text and guess that what followed then follows now. This is
# **prompt look-up**. Each token is drafted with certainty, so q is 1 at that token and the rule keeps it with
# probability p(x). The draft takes next to no time, c = 0. Checking what it found takes v.

# %%
from nanolm.speculative import prompt_lookup  # exercise: prompt_lookup
# points: 4
# minutes: 15
# difficulty: 2
# tested: The longest match wins, among equals the latest, the tail does not match itself, fewer tokens at the end of
#   the text, no match, and refusal of a negative γ or an n below 1.
# why: It needs no second model and no memory, and on texts that repeat themselves it beats one.
# hint: The last n tokens always match themselves. A match counts only if something stands behind it. // For n from
#   max_ngram down, compare text[start : start + n] with the last n tokens, for start from the right to the left. The
#   first start to be compared is the one whose match ends just before the last token of the text. A text of one token
#   has no n.

# %%
start = tokenizer.encode("HAMLET\nTo be, or not to be, that is the question:\n")
for name, rule in (("temperature 0", greedy), ("temperature 1", unending[1.0])):
    lookups = []

    def write_alone(rule=rule):
        baseline_generate(Session(target, rule, len(start) + 80), start, 80, Rng(0))

    def write_with_lookup(rule=rule, lookups=lookups):
        session = Session(target, rule, len(start) + 80)
        lookups.append(speculative_generate(session, PromptLookupDraft(tokenizer.vocab_size), start, 80, 4, Rng(0))[1])

    times = take_turns({"plain decoding": write_alone, "look-up": write_with_lookup}, repeats=4)
    stats = lookups[-1]
    print(f"{name}: {stats.tokens_per_target_forward:.2f} tokens per pass, kept {stats.accepted} of {stats.drafted}")
    print(f"  {which_is_faster(times, 'look-up', 'plain decoding')}")

# %% [markdown]
# The greedy text of a small model soon repeats itself, and then its past is a good draft. At temperature 1 it says new
# things, and looking back finds little, or finds what does not go on the same way. With a large model the same contrast
# lies between editing a file and writing a poem.
#
# Look-up is cheap, not free. With a share s of passes in which it finds something, its gain is tokens a pass over (1 −
# s) + s · v. Say s = 0.5, v = 1.7 and 1.1 tokens a pass: 1.1/1.35 = 0.81, a loss. On one two-core machine SmolLM2, a
# model that answers in free text, wrote 0.78 times as fast with it as without.

# %% [markdown]
# ## When it does not pay
#
# Speculation buys fewer passes in sequence with more arithmetic. It pays while the arithmetic is idle, and it does not
# pay with:
#
# - **A large batch.** A batch of B texts already has B positions per pass. With speculation it has B · (γ + 1). On an
#   H100 a pass waits for memory only up to about 295 positions (its peak of 989 · 10¹² operations a second over 3.35 ·
#   10¹² bytes a second, two operations and two bytes per 16-bit weight). At B = 59 and γ = 4 that is 59 · 5 = 295: from
#   there on every drafted token costs time.
# - **A poor draft.** At α = 0.3 and c = 0.4 one drafted token gives 1.3 tokens in 1.4 passes: 0.93. The best γ is 0.
# - **A slow draft.** A draft has to be many times cheaper per *pass*, not per parameter. Each layer has fixed costs
#   (starting kernels, waiting) that do not shrink with its width, so a narrow model with as many layers takes nearly as
#   long.
# - **A chip that is busy anyway**, with other requests or with prefill.
# - **A model that is not causal.** If a later token could change the distribution of an earlier one, checking all
#   drafted tokens in one pass would use the wrong context for each of them.

# %%
alpha_grid = torch.linspace(0.05, 0.99, 60)
cost_grid = torch.linspace(0.01, 0.6, 60)
gain = torch.tensor(
    [[speculative_speedup(a, best_gamma(a, k, 16), k) for a in alpha_grid.tolist()] for k in cost_grid.tolist()]
)
at_star = speculative_speedup(alphas[1.0], best_gamma(alphas[1.0], c, 16), c)
fig, ax = figures.figure(height=4)
ax.grid(False)
shades = ax.contourf(alpha_grid, cost_grid, gain, levels=[1, 1.001, 1.25, 1.5, 2, 3, 5, 12], cmap="Blues", extend="max")
lines = ax.contour(alpha_grid, cost_grid, gain, levels=[1.001, 1.25, 1.5, 2, 3, 5], colors="black", linewidths=0.7)
ax.clabel(lines, fmt=lambda level: "γ = 0" if level < 1.01 else f"{level:g}×", fontsize=9)
ax.plot(alphas[1.0], min(c, 0.6), "*", color=figures.RED, markersize=15)
ax.annotate(
    "the shipped pair, here", (alphas[1.0], min(c, 0.6)), xytext=(-12, -16), textcoords="offset points", ha="right"
)
ax.set(xlabel="acceptance rate α", ylabel="draft cost c, in target passes")
figures.show(
    fig,
    "Map of the best speed-up over acceptance rate and draft cost, with v = 1. It is 1 in the upper left, where the draft "
    f"is slow and poor, and grows towards the lower right. A star marks the shipped pair on this machine, at α = "
    f"{alphas[1.0]:.2f} and c = {c:.2f}, where the map says {at_star:.2f} times.",
)
with_v = {g: predicted(1.0, g) for g in tried}
print(f"at the star the map, which takes v as 1, says {at_star:.2f} times")
print(f"with the v measured here the best of γ = {', '.join(map(str, tried))} gives {max(with_v.values()):.2f} times")

# %% [markdown]
# The map is the formula with v = 1: a chip whose arithmetic is idle. The two lines above say what v takes away here.
# Read the map from the star: a draft with twice the cost moves it up, a better-trained one moves it right. Above and
# left of the line marked γ = 0 it is best not to speculate.

# %% [markdown]
# ## γ that follows the load
#
# α changes with the text and v with the batch, so no fixed γ is right all day. The engine measures both while it runs
# ([adaptive.py](../../nanolm/speculative/adaptive.py)). Let t(n) be the seconds of a target pass over n tokens and u(B)
# those of one draft pass over B rows. With B requests, the gain of drafting γ for each is
#
# $$
# \text{gain}(\gamma) = E[\text{tokens per round}] \cdot \frac{t(B)}{t(B (\gamma + 1)) + \gamma\, u(B)}
# $$
#
# It takes the γ with the largest gain. Three details make it a controller and not a formula:
#
# - **What is measured.** t and u are the lower third of the last 9 passes of about that size, with straight lines
#   between the sizes that have been run. α is a count of kept over examined tokens that fades, by 1 % at each update.
# - **Hysteresis.** Drafting stops where the gain falls below 1.05 and starts again above 1.15, so that noise does not
#   switch it every pass.
# - **Probes.** What is not run cannot be measured. So 2 passes go the other way after every 32, then after 64, and so
#   on up to 1,024 while nothing changes.
#
# ### Prediction 3
#
# An H100 takes 4.78 ms for a pass of up to 295 tokens and proportionally longer beyond; a draft pass takes 0.60 ms;
# α = 0.7, and γ is 4 at most. At B = 1 γ = 4 is best. What does the engine choose for 64, 128 and 256 requests?

# %%
my_gammas = {64: 4, 128: 4, 256: 4}  # change them

# %%
from nanolm.speculative import AdaptiveGamma


def pass_seconds(n_tokens):
    return 4.78e-3 * max(1.0, n_tokens / 295)


alpha = 0.7
kept_of = [sum(alpha**i for i in range(1, g + 1)) for g in range(5)]  # drafted tokens that become text, a request
examined_of = [0.0, *(1 + kept for kept in kept_of[:4])]
for B in (1, 64, 96, 128, 192, 256):
    chooser, chosen = AdaptiveGamma(most=4), []
    for _ in range(90):
        g = chooser.gamma(B)
        chosen.append(g)
        chooser.time_target(B * (1 + g), pass_seconds(B * (1 + g)))
        if g:
            chooser.time_draft(B, 0.60e-3)
            chooser.count(B * g, B * g, B * examined_of[g], B * kept_of[g])
    said = f"; you said {my_gammas[B]}" if B in my_gammas else ""
    print(f"B = {B:3}: {''.join(map(str, chosen))}  γ = {chosen[-1]}, gain {chooser.gain:.2f}{said}")

# %% [markdown]
# Each digit is the γ of one pass. It starts with three passes without a draft, to have something to compare with, then
# tries. By hand: at 64 requests γ = 3 runs 256 tokens, still free, and gains 2.533/(1 + 3 · 0.126) = 1.84. At 128 only
# γ = 1 runs no more than 295: 1.7/1.126 = 1.51. At 256 even γ = 1 runs 512, v = 1.74, and 1.7/(1.74 + 0.126) = 0.91:
# off. At 192 the first try, γ = 4, loses; the probe with γ = 1 finds the 1.19 that pays.

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
# | EAGLE-3 (Li 2025) | one decoder layer that predicts the next *token*, with a small head of its own | token by token |
# | MTP (DeepSeek-V3, 2024) | one more layer, trained with the model from the start | the token after next, reusing the head |
#
# (A *head* here is the matrix that turns a hidden state into logits, not a head of attention.)
#
# EAGLE trained its layer to reproduce hidden states; that aim turned out to bound what more training data could give.
# EAGLE-3 drops it. It reads three layers of the target at once, an early, a middle and a late one, mixes them into one
# vector, and is trained on what it will meet when it drafts: its own outputs, several steps deep.
#
# $$
# g = W\, [h_{\text{early}}; h_{\text{middle}}; h_{\text{late}}], \qquad W \text{ of } D \times 3D
# $$
#
# What do they weigh? Take an 8B model with width D = 4,096, F = 14,336, V = 128,256, 32 query and 8 key/value heads of
# 128, at 2 bytes a weight. W alone has 3 · 4,096² = 50 million parameters. EAGLE-3's head knows the 32,000 most
# frequent tokens only. **Predict:** which of the four is the heaviest?

# %%
D, F, V, N, K, H = 4096, 14336, 128_256, 32, 8, 128
layer = D * (N + 2 * K) * H + N * H * D + 3 * D * F
medusa_head = D * D + D * V  # a residual block, then logits over the vocabulary
eagle = 2 * D * D + layer  # joins token embedding and hidden state, then one layer; the target's head is shared
eagle_3 = 3 * D * D + layer + D * (N + 2 * K) * H + 32_000 * D  # q, k and v read embedding and g, twice the width
for name, size in (("4 Medusa heads", 4 * medusa_head), ("EAGLE or MTP", eagle), ("EAGLE-3", eagle_3)):
    print(f"{name:14}: {size / 1e9:.2f}·10⁹ parameters, {2 * size / 1e9:.2f} GB, {size / 8.03e9:.1%} of the model")

# %% [markdown]
# A Medusa head is mostly vocabulary: D · V. EAGLE and MTP draft one token after another and reuse the target's head,
# which saves memory; but reading that head is a part of each draft step. EAGLE-3's own small head makes a step cheaper:
# 0.85 GB of 16.06 GB, so c is about 0.05. (In a mixture of experts the added layer is a mixture too, and much larger.)
#
# Your rule stays exact whatever proposed the token, as long as q is the distribution it was drawn from. Not every
# system wants that: Medusa's paper also offers a looser acceptance that is not exact.
#
# ## Depth: a tree in place of a line
#
# A line of drafted tokens ends at its first rejection, and all behind it was for nothing. A **draft tree** has other
# guesses ready there. Tokens drafted for the same place are **siblings**; each may have children of its own. The target
# scores the whole tree in one pass: a mask lets every token attend to the text and to its own ancestors only, and its
# position is its depth. A tree of n tokens costs a pass over n + 1 positions, as a line does.

# %%
places = {  # token: (depth, height, what becomes of it)
    "…the": (0, 0, "text"),
    "old": (1, 1, "rejected"),
    "king": (1, -1, "kept"),
    "man": (2, 1.5, "forgotten"),
    "and": (2, 0.5, "forgotten"),
    "is": (2, -0.5, "rejected"),
    "of": (2, -1.5, "kept"),
    "France": (3, -1.5, "bonus"),
}
edges = ["…the old", "…the king", "old man", "old and", "king is", "king of", "of France"]
colours = {"text": figures.GREY, "kept": figures.BLUE, "rejected": figures.RED, "forgotten": figures.GREY}
fig, ax = figures.figure(6.4, 3.2)
for parent, child in (edge.split() for edge in edges):
    (x0, y0, _), (x1, y1, fate) = places[parent], places[child]
    ax.plot([x0, x1], [y0, y1], color=colours.get(fate, figures.GREEN), linewidth=2 if fate in ("kept", "bonus") else 1)
for word, (x, y, fate) in places.items():
    colour = colours.get(fate, figures.GREEN)
    box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour}
    label = word if fate == "text" else f"{word}\n{fate}"
    ax.text(x, y, label, ha="center", va="center", fontsize=9.5, bbox=box)
ax.set(xlim=(-0.4, 3.4), ylim=(-2.1, 2.1))
ax.axis("off")
figures.show(
    fig,
    "A tree. Behind the text stand two siblings, “old” and “king”. “old” is rejected, and its children “man” and “and” are "
    "forgotten. “king” is kept. Of its children “is” is rejected and “of” is kept. Behind “of”, a leaf, stands the bonus "
    "token “France”.",
)

# %% [markdown]
# **What it gains.** Let aᵢ be the probability that the i-th sibling is the one that is kept. A token of the tree is
# kept if every token on the path to it is, so
#
# $$
# E[\text{tokens per round}] = 1 + \sum_{\text{tokens}} \; \prod_{\text{path}} a_i
# $$
#
# A line is the case in which all aᵢ are a₁ = α. With a₁ = 0.6 and a₂ = 0.15 a line of eight gives 2.47 tokens. The best
# tree of eight takes the eight largest products: 0.6, 0.36, 0.216, 0.15, 0.1296, 0.09 twice and 0.0778. They add up to
# 2.71 with the one that always comes, and the draft runs 5 passes in a row instead of 8. (EAGLE-2 grows its tree so,
# with the draft's own probabilities in place of the aᵢ.)
#
# **The rule at a branch, by hand.** Take p and q of the worked example, and draw two siblings from q.
#
# - The first is kept with 0.3 (A), 0.3 (B), 0.2 (C), as before. With 0.2 it is rejected, and it was a C.
# - Now the second. Suppose it is tried like the first, with p against q. Then A, B and C come out of these 20 % with
#   0.2 · 0.3 = 0.06, 0.06 and 0.2 · 0.2 = 0.04, and the last 4 % go to A by the residual.
# - In all: A 0.3 + 0.06 + 0.04 = 0.40, B 0.36, C 0.24. The target wanted 0.5, 0.3, 0.2.
#
# What went wrong? After the first rejection the target no longer owes p: B and C have had their share. It owes A, with
# certainty. That, the residual, is what the second sibling must be held against.
#
# Four facts for the exercise. The tree is given as two lists, tokens and `parents`; a parent of −1 is the text.
# `target_probs[0]` stands behind the text and `target_probs[i + 1]` behind token i. `draft_probs[i]` is what token i
# was drawn from. `check_tree`, imported with the exercise, makes all the refusals.

# %%
from nanolm.speculative import verify_tree  # exercise: verify_tree
# points: 6
# minutes: 45
# difficulty: 5
# tested: The exact output distribution with one, two and three siblings, drawn from one distribution or each without
#   those before it; the joint distribution of all texts of three tokens for three shapes of tree; a line against
#   `verify_draft`; whose children are tried, the bonus token behind a leaf, and the refusals.
# why: Fast drafts propose trees, and the natural way to write the second sibling is wrong in a way that no text shows.
# hint: There is one quantity that changes at a place each time a sibling is refused, and starts anew at the next place.
#   If every sibling of a place is refused, which distribution is the last token drawn from? // Call `check_tree`. Keep
#   a place, −1 at first, and what the target owes there: row place + 1. Go through the tokens whose parent is the
#   place. Ask `rng.bernoulli` for owed/q; on yes the token is new, its index is the next place, and no sibling is asked
#   any more; on no `residual_distribution` of what is owed and q is what is owed now. Where the children are through
#   without a yes, one `rng.categorical` ends the round. A leaf has no children, so its bonus token needs no case of its
#   own.

# %% [markdown]
# ### Why it is exact
#
# Try to prove it before you open this. It is your proof for one drafted token, used over and over.
#
# <details><summary>The proof in words</summary>
#
# <em>Claim.</em> At a place that owes a distribution o, with k siblings to be tried, the token that comes out is
# distributed as o. By induction over k.
#
# <em>k = 0.</em> It is drawn from o.
#
# <em>From k − 1 to k.</em> The first sibling was drawn from its q. It is kept and equal to y with min(o(y), q(y)). It
# is refused with 1 − Σ min(o, q), and then the place owes the residual, with k − 1 siblings to be tried. By the claim
# for k − 1 the token is distributed as the residual then, whatever the refused token was. The two parts add up to o(y),
# by the lines of the proof for one token.
#
# <em>What was used of q?</em> That the sibling was drawn from it <em>given all that was known before</em>, the earlier
# siblings among it. So siblings may be drawn without those before them, if each row of q says so.
#
# <em>Down the tree.</em> If a sibling is kept, the text is one token longer, and row place + 1 is the target's
# distribution given just that text: the next place owes it in full. What was drafted below the refused siblings has
# influenced nothing. So each new token has the distribution p(· | all before it), and by the chain rule so has the
# text. </details>
#
# The cell draws the worked example 5,000 times with your function, for two siblings from one q and for two different
# ones, the second drawn without the first. It takes about three seconds.

# %%
from nanolm.speculative import sample_siblings

p, q = (torch.tensor(probs, dtype=torch.float64) for probs in ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)))
owed_behind = torch.stack([p, p, p])  # the rows behind the siblings do not matter for the first token
rng, n_draws = Rng(0), 5_000
for kind in ("both from q", "two different ones"):
    shares = [0, 0, 0]
    for _ in tqdm(range(n_draws), desc=kind, leave=False):
        tokens, rows = sample_siblings(q, 2, rng)
        if kind == "both from q":
            tokens, rows = [rng.categorical(q), rng.categorical(q)], q.repeat(2, 1)
        shares[verify_tree(owed_behind, rows, tokens, [-1, -1], rng)[0]] += 1
    print(f"{kind}: {', '.join(f'{count / n_draws:.3f}' for count in shares)}; wanted 0.500, 0.300, 0.200")

# %% [markdown]
# How good are second siblings on a real text? a₁ and a₂ need no draws: with two different siblings from q,
#
# $$
# a_1 = \sum_x \min(p, q)(x), \qquad
# a_2 = \sum_{x} \max(q - p, 0)(x) \sum_{y \ne x} \min\!\left(r(y), \frac{q(y)}{1 - q(x)}\right)
# $$
#
# The first factor says which x was refused, the second how much of the residual its sibling covers. A line is one of
# the trees, so the best tree is never worse; whether it is much better depends on a₂. The cell takes 60 places of a
# text that the target wrote, and about two seconds.

# %%
start = tokenizer.encode(plays[1])
whole = start + target.generate(start, 60, unending[1.0], Rng(7))
rows_p, rows_q = (Session(model, unending[1.0], len(whole)).feed(whole[:-1], last=60) for model in (target, draft))
first = torch.minimum(rows_p, rows_q).sum(-1)
second = []
for p, q in zip(rows_p, rows_q, strict=True):
    r = (p - q).clamp(min=0) / (p - q).clamp(min=0).sum()
    refused = (q - p).clamp(min=0)
    covered = torch.minimum(r, q / (1 - q)[:, None]).sum(-1)  # r is 0 at every refused x, so y = x adds nothing
    second.append(refused @ covered)
a = [first.mean().item(), torch.stack(second).mean().item()]
print(f"a₁ = {a[0]:.2f}, a₂ = {a[1]:.2f}")


def best_tree(a, n):
    """The n largest products along paths, with as many siblings as a has entries."""
    found, open_ones = [], sorted(a)
    while len(found) < n:
        found.append(open_ones.pop())
        open_ones = sorted(open_ones + [found[-1] * share for share in a])
    return found


for n in (4, 8, 16):
    line = sum(a[0] ** i for i in range(n + 1))
    print(f"{n:2} drafted tokens: a line gives {line:.2f} tokens a pass, the best tree {1 + sum(best_tree(a, n)):.2f}")

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
# On a GPU server, vLLM takes the draft on its command line (not run here; the spelling has changed from release to
# release, and `vllm serve --help` of yours decides):
#
# ```
# vllm serve BIG_MODEL --speculative-config '{"model": "SMALL_MODEL", "num_speculative_tokens": 4}'
# vllm serve BIG_MODEL --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}'
# ```
#
# Its metrics report a mean acceptance length, which is our tokens per target pass, and an acceptance rate, which is
# *not* α: it divides by all drafted tokens, also those behind a rejection that nobody looked at. With α = 0.8 and γ = 4
# it reads (3.36 − 1)/4 = 59 %.

# %% [markdown]
# ## The same on a real model
#
# SmolLM2-135M answers two requests greedily, plainly and with prompt look-up: one for free text, one to repeat what it
# has read. **Predict:** tokens per pass for each. The cell takes about a minute, and is left out where the
# model is not installed.

# %%
from nanolm.text import ChatML

from course.lab.real_model import real_model

real = real_model()
if real:
    smol, its_tokenizer = real
    sentence = (
        "The old mill stood at the end of the valley, and every evening its wheel turned slowly in the cold water."
    )
    requests = {
        "free text": "Write a short story about a lighthouse keeper.",
        "a repetition": f"Repeat this sentence word for word, three times: {sentence}",
    }
    for name, request in tqdm(requests.items(), leave=False):
        start, seen = ChatML().prompt([("user", request)], its_tokenizer), []

        def write_alone(start=start):
            baseline_generate(Session(smol, greedy, len(start) + 24), start, 24, Rng(0))

        def write_with_lookup(start=start, seen=seen):
            session = Session(smol, greedy, len(start) + 24)
            lookup = PromptLookupDraft(its_tokenizer.vocab_size)
            seen.append(speculative_generate(session, lookup, start, 24, 4, Rng(0))[1])

        times = take_turns({"plain decoding": write_alone, "look-up": write_with_lookup}, repeats=3)
        print(f"{name}: {seen[-1].tokens_per_target_forward:.2f} tokens a pass, ", end="")
        print(f"kept {seen[-1].accepted} of {seen[-1].drafted}; {which_is_faster(times, 'look-up', 'plain decoding')}")

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
# - **Two siblings held against the same p.** The target's favourites come too rarely.
#   `test_verify_tree_with_two_siblings_has_output_distribution_p`
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
# **2.** An 8B target takes 4.78 ms per pass on an H100, its 1B draft 0.60 ms. α = 0.7, γ = 3. Tokens per second with
# and without speculation?
#
# <details><summary>Answer</summary>Tokens a round: 1 + 0.7 + 0.49 + 0.343 = 2.533. A round: 4.78 + 3 · 0.60 = 6.58 ms.
# 2.533 / 6.58 ms = 385 tokens/s, against 1 / 4.78 ms = 209: 1.84 times.</details>
#
# **3.** The same pair, 64 requests at once. Does γ = 4 still pay?
#
# <details><summary>Answer</summary>Yes, but γ = 3 is better. With c = 0.60/4.78 = 0.126 and v = 64 (γ + 1)/295 where
# that is above 1: γ = 4 runs 320 positions, v = 1.08, and gives 2.773/(1.08 + 0.50) = 1.75 times. γ = 3 runs 256, which
# is free, and gives 2.533/(1 + 0.38) = 1.84. γ = 5: v = 1.30, 1.52 times. (Caches, which are read once per pass
# whatever γ is, move the balance towards speculation for long texts.)</details>
#
# **4.** A vendor says "our draft accepts 80 % of the tokens". You measure 2.3 tokens per pass at γ = 4. Both can be
# true?
#
# <details><summary>Answer</summary>Not on the same texts with all four tokens drafted. A constant α = 0.8 gives 3.36.
# If 80 % is the share of <em>drafted</em> tokens, it gives exactly 1 + 0.8 · 4 = 4.2. If it is the share of
# <em>examined</em> tokens, then however unevenly α is spread at least 3.0 come out (half of the rounds kept whole, half
# cut at the first drafted token). 2.3 tokens is what a constant α of about 0.6 gives. Ask: on which texts, at which
# temperature, 80 % of what?</details>

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
# <details><summary>Short answers</summary> All drafted tokens are known beforehand, so their positions can be run side
# by side; when writing, each token is the input of the next. · α: agreement of the two models on this kind of text; γ:
# how far ahead you gamble, the only one you can set freely; c: time of a draft pass over a target pass. · When the
# batch fills the arithmetic, when α is low, or when c is high. · A later token would change the hidden states of
# earlier ones, so cached keys and values would be wrong after every new token. · The output becomes too peaked. At
# temperature 0 the residual is certain, and nobody notices. </details>

# %% [markdown]
# ## In an interview
#
# *"Our 70B chat model feels slow. Somebody suggests speculative decoding. Walk me through the decision."*
#
# A structure for three minutes:
#
# 1. **Which slowness?** Time to the first token is queue and prefill; speculation does nothing for it. It helps the
#    time per output token only (30 seconds).
# 2. **Is arithmetic idle?** Batch per replica times γ + 1 against the positions that fill the arithmetic (295 on an
#    H100). At peak load, switch it off or lower γ (30 seconds).
# 3. **What is α on our traffic?** Measure offline: run logged answers through target and draft, average Σ min(p, q) at
#    the temperature we serve. Code and extraction high, free chat lower (45 seconds).
# 4. **What does the draft cost?** c from a timing of both at batch 1 and at our batch; memory for its weights and cache
#    (30 seconds).
# 5. **Prediction, then a trial:** tokens a round over v + γc. Exactness means that quality needs no new evaluation, but
#    test it: same distribution, same greedy text up to near ties (45 seconds).

# %% [markdown] written="proof of exactness" points=8 minutes=20 difficulty=3
# **Prove that the output is exactly the target's.** One token: x is drawn from q, kept with probability min(1,
# p(x)/q(x)), and otherwise replaced by a draw from the residual r. Show that for every token y the probability that y
# comes out is p(y). Then say in two or three sentences why a whole *text* written in rounds has the target's
# distribution too.
#
# ### BEGIN SOLUTION
# **Model answer.** Let A be the event that the drafted token is kept.
#
# 1. Kept and equal to y: Pr[x = y, A] = q(y) · min(1, p(y)/q(y)) = min(p(y), q(y)). (If q(y) = 0 both sides are 0.)
# 2. So Pr[A] = Σ min(p, q) = α, and a rejection has probability 1 − α.
# 3. max(p − q, 0) = p − min(p, q) for each token. Summed, Σ max(p − q, 0) = 1 − α. So r(y) = (p(y) − min(p(y),
#    q(y)))/(1 − α).
# 4. Rejected and y drawn: (1 − α) · r(y) = p(y) − min(p(y), q(y)).
# 5. Sum of 1 and 4: min(p(y), q(y)) + p(y) − min(p(y), q(y)) = p(y). If α = 1 nothing is ever rejected and 1 alone
#    gives p.
#
# *Text.* The first token of a round is distributed as p given the text before it, by the above. If it was kept, the
# next row of the target's pass is p given the text *with* it, and the argument repeats; if it was replaced, the round
# ends, and the next round starts from the text with the replacement. The bonus token is drawn from p directly. So each
# token has the distribution p(· | everything before it), and by the chain rule the product is the target's distribution
# of texts.
#
# **Mark scheme (8).** Kept mass min(p, q), 2. Rejection probability is 1 − α, 1. Normaliser of r equals 1 − α, with a
# reason,
# 2. Sum is p(y), 1. Both special cases (q(y) = 0, α = 1), 1. Chain rule, with "given the text before it" said, 1. An
# argument by example or simulation only: at most 2.
# ### END SOLUTION

# %% [markdown] written="expected gain" points=6 minutes=15 difficulty=3
# **Derive the expected gain with the draft's cost.** Assume that each drafted token is kept with probability α,
# independently. (a) Derive E[tokens per round] as a sum and in closed form. (b) With c the draft's cost per pass and v
# the cost of a target pass over γ + 1 positions, both in single target passes, give the speed-up. (c) At which c does γ
# = 1 stop paying if v = 1? (d) Name one way in which independence fails in practice. Say over what your α is averaged
# (rounds, places of the text, or examined tokens) and whether the formula is then too high or too low.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) A round gives at least i + 1 tokens when the first i drafted tokens are kept, which has
# probability αⁱ, for i = 0 … γ. The mean of a non-negative whole number is the sum of Pr[at least k] over k ≥ 1, so E =
# Σᵢ αⁱ for i = 0 … γ = (1 − α^(γ+1))/(1 − α), and γ + 1 for α = 1. (b) E / (v + γc). (c) (1 + α)/(1 + c) > 1 exactly if
# c < α: a draft that costs more than α of a target pass never pays at γ = 1. (d) Acceptance comes in clusters: easy
# stretches and hard stretches. If α is constant within a round and varies between rounds, the power of the mean α is at
# most the mean of αⁱ over rounds (Jensen's inequality, equal at γ = 1), so for the same mean α per *round* the formula
# is too low. If α is averaged over *places of the text*, as the notebook does, or over *examined* tokens, as a counter
# does, easy stretches get more weight than they have rounds, and the formula is too high.
#
# In figures, at γ = 4: half of the rounds have α = 0.9 and give 4.10 tokens, half have 0.3 and give 1.43. The truth is
# the mean, 2.76. The mean of α over rounds is 0.6, and the formula says 2.31. Over places of the text it is 0.75: 3.02.
# Over examined tokens it is 0.72: 2.91.
#
# **Mark scheme (6).** (a) sum with a reason, 2; closed form with α = 1, 1. (b) 1. (c) 1. (d) one real cause with a
# direction that follows from it, 1 (either direction, if argued).
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can explain the idle arithmetic, write `speculative_generate` so that it passes an exactness test, prove the rule
# on paper, predict a speed-up from α, γ, c and v, and say what changes when drafts become trees. Run `course status` in
# a terminal to see what is left.
#
# ## Sources
#
# - Leviathan, Kalman, Matias 2022, *Fast inference from transformers via speculative decoding*,
#   [arXiv:2211.17192](https://arxiv.org/abs/2211.17192): the rule, α, theorem 3.8.
# - Chen et al. 2023, *Accelerating large language model decoding with speculative sampling*,
#   [arXiv:2302.01318](https://arxiv.org/abs/2302.01318): the same rule, found independently.
# - Saxena 2023, [*Prompt lookup decoding*](https://github.com/apoorvumang/prompt-lookup-decoding): n-grams of the text
#   as draft.
# - Cai et al. 2024, *Medusa*, [arXiv:2401.10774](https://arxiv.org/abs/2401.10774).
# - Li et al., *EAGLE*, [arXiv:2401.15077](https://arxiv.org/abs/2401.15077), *EAGLE-2*,
#   [arXiv:2406.16858](https://arxiv.org/abs/2406.16858), and *EAGLE-3*,
#   [arXiv:2503.01840](https://arxiv.org/abs/2503.01840).
# - DeepSeek-AI 2024, *DeepSeek-V3*, [arXiv:2412.19437](https://arxiv.org/abs/2412.19437): multi-token prediction (MTP).
# - Miao et al. 2023, *SpecInfer*, [arXiv:2305.09781](https://arxiv.org/abs/2305.09781), and Jeon et al. 2024,
#   *Recursive speculative decoding*, [arXiv:2402.14160](https://arxiv.org/abs/2402.14160): trees, and siblings that
#   differ.
