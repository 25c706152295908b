"""Tests `watching/camera.py` and `watching/state.py`: frames say what the engine did and how it stands."""

import json
from itertools import chain

import pytest
from serving import random_model

from nanolm.engine import Engine
from nanolm.sampling import SamplingParams
from nanolm.watching import BLOCK_STATES, Camera, neighbours, pool_of, state_of, tree_of

SHARED = [*range(1, 41)]


class Ticks:
    """A clock that goes on by a second a look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def engine_of(**options):
    model = random_model(eos_token_ids=())
    return Engine(model, **{"n_blocks": 64, "block_size": 4, "clock": Ticks(), **options})


def watched(engine, word=None):
    frames = []
    camera = Camera(engine, frames.append, word, every_pass=True)
    camera.turn_on()
    return frames, camera


def run(engine):
    outputs = []
    while engine.has_work:
        outputs += engine.step()
    return outputs


def passes_of(frames):
    return list(chain.from_iterable(frame["passes"] for frame in frames))


def expand(pool):
    return list(chain.from_iterable([state] * n for state, n in pool["runs"]))


def served(engine, n=5, new=12):
    for i in range(n):
        engine.add_request([*SHARED, i + 50], new)


def test_every_pass_is_told_with_what_its_record_says():
    engine = engine_of(max_tokens_per_step=24, draft="prompt-lookup", adaptive=False)
    frames, _ = watched(engine)
    served(engine)
    outputs = run(engine)
    told = passes_of(frames)
    assert len(told) == len(engine.records)
    for each, record in zip(told, engine.records, strict=True):
        by_kind = {
            kind: sum(part["n"] for part in each["parts"] if part["kind"] == kind) for kind in ("prefill", "decode")
        }
        assert by_kind == {"prefill": record.n_prefill_tokens, "decode": record.n_decode_tokens}
        assert sum(part.get("n_drafted", 0) for part in each["parts"]) == record.n_drafted_tokens
        assert (each["at"], each["seconds"]) == (record.at, record.seconds)
        assert len(each["preempted"]) == record.n_preempted
    ended = {each["id"]: each for part in told for each in part["ended"]}
    for output in outputs:
        if output.finish_reason:
            assert ended[output.id]["ttft"] == output.metrics.ttft_seconds
            assert ended[output.id]["tpot"] == output.metrics.tpot_seconds


def test_guesses_are_kept_as_many_as_new_tokens_were_drafted():
    engine = engine_of(draft="prompt-lookup", adaptive=False)
    frames, _ = watched(engine)
    engine.add_request([5, 6, 7, 8] * 6, 30)
    run(engine)
    control = engine.runner.control
    parts = [part for each in passes_of(frames) for part in each["parts"]]
    assert control.n_drafted > 0
    assert sum(part.get("n_drafted", 0) for part in parts) == control.n_drafted
    assert sum(part.get("n_kept", 0) for part in parts) == control.n_accepted


def test_the_pool_has_each_block_in_the_state_that_its_holders_make():
    engine = engine_of()
    served(engine)
    while engine.has_work:
        allocator, prefix = engine.scheduler.allocator, engine.scheduler.prefix
        cached, states = set(prefix.device_blocks), expand(pool_of(engine))
        held = [block for request in engine.scheduler.running for block in request.table.blocks]
        for block in range(allocator.n_blocks):
            n = held.count(block)
            wanted = 4 if n > 1 else (3 if n else 2) if block in cached else int(n == 1)
            assert states[block] == wanted, f"block {block} is {BLOCK_STATES[states[block]]}"
        engine.step()
    assert set(expand(pool_of(engine))) == {0, 2}


def test_forked_answers_share_blocks_without_a_prefix_cache():
    engine = engine_of(prefix_cache=False)
    engine.add_group(prompt=SHARED, max_new_tokens=8, seeds=[1, 2], stops=[None, None], sampling=SamplingParams(1.0))
    frames, _ = watched(engine)
    engine.step()
    assert 4 in expand(frames[-1]["pool"])
    assert {part["kind"] for part in frames[-1]["passes"][0]["parts"]} == {"prefill", "fork"}


def test_the_tree_has_the_shared_beginning_once_and_a_branch_for_each_prompt():
    engine = engine_of()
    served(engine, n=3, new=8)
    run(engine)
    lines = tree_of(engine.scheduler.prefix)
    assert lines[0][:3] == [-1, 10, "device"]  # 40 tokens in blocks of 4
    assert [line[0] for line in lines[1:]] == [0, 0, 0]
    assert sum(line[1] for line in lines) == engine.scheduler.prefix.n_blocks


def test_blocks_in_the_host_store_are_told_in_pool_and_tree():
    engine = engine_of(n_blocks=16, host_blocks=16)
    for start in (1, 60, 120):
        engine.add_request([*range(start, start + 40)], 4)
        run(engine)
    prefix = engine.scheduler.prefix
    assert prefix.n_host_blocks > 0
    assert pool_of(engine)["host"] == [prefix.n_host_blocks, 16]
    assert sum(line[1] for line in tree_of(prefix) if line[2] == "host") == prefix.n_host_blocks


def test_preempted_and_waiting_requests_are_told():
    engine = engine_of(n_blocks=20, prefix_cache=False, reserve=0.0)
    frames, _ = watched(engine)
    for i in range(4):
        engine.add_request([*range(i, i + 20)], 30)
    run(engine)
    assert sum(len(each["preempted"]) for each in passes_of(frames)) == sum(r.n_preempted for r in engine.records) > 0
    for frame in frames:
        assert frame["n_waiting"] == len(frame["waiting"])
    assert any(frame["waiting"] and frame["waiting"][0]["n_preempted"] for frame in frames)


def test_running_requests_are_told_with_their_blocks():
    engine = engine_of()
    served(engine, n=2)
    engine.step()
    for told, request in zip(state_of(engine)["running"], engine.scheduler.running, strict=True):
        blocks = [first + i for first, n in told["blocks"] for i in range(n)]
        assert (told["id"], told["n_computed"], blocks) == (request.id, request.n_computed, request.table.blocks)


def test_a_frame_holds_no_text_and_no_token_unless_words_are_given():
    engine = engine_of()
    frames, _ = watched(engine)
    served(engine)
    run(engine)
    part_names = {name for each in passes_of(frames) for part in each["parts"] for name in part}
    assert part_names == {"id", "kind", "n", "n_new"}
    state_names = {name for frame in frames for each in (*frame["running"], *frame["waiting"]) for name in each}
    assert state_names == {
        *("id", "n_prompt", "n_cached", "n_computed", "n_new", "n_preempted", "ttft", "blocks"),
    }  # fmt: skip
    assert not any(frame["has_words"] for frame in frames)


def test_with_words_the_new_tokens_are_those_of_the_answers():
    engine = engine_of()
    frames, _ = watched(engine, str)
    served(engine, n=3)
    outputs, told = run(engine), {}
    for each in passes_of(frames):
        for part in each["parts"]:
            told.setdefault(part["id"], []).extend(part["new"])
    for i in range(3):
        assert told[i] == [str(token) for output in outputs if output.id == i for token in output.tokens]


def test_who_comes_later_is_told_the_prompts_and_what_was_written_before():
    engine = engine_of()
    frames, camera = watched(engine, str)
    engine.add_request(SHARED, 12)
    for _ in range(4):
        engine.step()
    camera.turn_on()
    engine.step()
    (part,) = frames[-1]["passes"][0]["parts"]
    assert part["prompt"] == [*map(str, SHARED)]
    assert part["before"] == [*map(str, engine.request(0).new_tokens[:-1])]


def test_frames_are_json_without_nan():
    engine = engine_of()
    frames, _ = watched(engine, str)
    served(engine)
    run(engine)
    assert json.loads(json.dumps(frames, allow_nan=False)) == frames


def test_with_the_camera_off_nothing_is_built(monkeypatch):
    engine = engine_of()
    frames, camera = watched(engine)
    camera.turn_off()
    for name in ("ran", "passed", "flush", "_part"):
        monkeypatch.setattr(Camera, name, lambda *_: pytest.fail("somebody looks"))
    served(engine)
    run(engine)
    assert len(frames) == 1  # that of turning it on


def test_passes_are_noted_between_two_frames_and_none_is_told_twice():
    engine, frames = engine_of(), []
    camera = Camera(engine, frames.append)
    camera.turn_on()
    engine.add_request(SHARED, 6)
    for _ in range(3):
        engine.step()
    assert len(frames) == 1
    camera.flush_new()
    camera.flush_new()
    assert [len(frame["passes"]) for frame in frames] == [0, 3]


@pytest.mark.parametrize("part", ["ran", "passed", "flush"])
def test_a_mistake_of_the_camera_turns_it_off_and_harms_no_request(monkeypatch, caplog, part):
    engine = engine_of()
    _, camera = watched(engine)

    def wrong(*_):
        raise KeyError("wrong")

    monkeypatch.setattr(f"nanolm.watching.camera.{dict(ran='_Work', passed='_ended', flush='state_of')[part]}", wrong)
    served(engine, n=2)
    outputs = run(engine)
    assert [output.finish_reason for output in outputs if output.finish_reason] == ["length", "length"]
    assert not camera.is_on and "cannot be watched" in caplog.text


def test_watching_changes_no_token():
    texts = []
    for is_watched in (False, True):
        engine = engine_of(draft="prompt-lookup", n_blocks=24)
        if is_watched:
            watched(engine, str)
        served(engine)
        texts.append({(o.id, tuple(o.tokens)) for o in run(engine)})
    assert texts[0] == texts[1]


def test_neighbours_are_runs():
    assert neighbours([4, 5, 6, 2, 1]) == [[4, 3], [2, 1], [1, 1]]
    assert neighbours([]) == []
