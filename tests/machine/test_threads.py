"""The choice of threads, by a clock that the tests turn themselves."""

import pytest
import torch
from tiny_models import tiny_model

from nanolm.machine import ThreadChoice, Threads, choose_threads, decode_pass


class Machine:
    """A machine on which a pass takes so many seconds with so many threads."""

    def __init__(self, **seconds):
        self.seconds = {int(name[1:]): value for name, value in seconds.items()}
        self.now, self.threads, self.passes = 0.0, 2, 0

    def run(self):
        self.now += self.seconds[self.threads]
        self.passes += 1

    def set(self, threads):
        self.threads = threads

    def choose(self, **others):
        return choose_threads(self.run, 2, clock=lambda: self.now, set_threads=self.set, **others)

    def watch(self):
        threads = Threads(self.run, 2, clock=lambda: self.now, set_threads=self.set)
        assert threads.choice is None
        threads.between_requests()
        return threads


def test_all_threads_are_kept_where_they_clearly_win():
    machine = Machine(_1=0.010, _2=0.006)
    choice = machine.choose()
    assert (choice.threads, machine.threads) == (2, 2)
    assert choice.seconds == pytest.approx({1: 0.010, 2: 0.006})


def test_one_thread_is_kept_where_all_wait_for_each_other():
    machine = Machine(_1=0.003, _2=0.009)
    assert (machine.choose().threads, machine.threads) == (1, 1)


def test_one_thread_is_kept_where_all_win_by_little():
    assert Machine(_1=0.0110, _2=0.0100).choose().threads == 1  # 10 %, and 15 are asked


def test_the_fastest_pass_of_each_counts():
    machine = Machine(_1=0.010, _2=0.006)
    slow = iter([0.0] * 3 + [1.0] + [0.0] * 100)  # somebody else's work, once

    def run():
        machine.run()
        machine.now += next(slow)

    assert choose_threads(run, 2, clock=lambda: machine.now, set_threads=machine.set).seconds[2] == pytest.approx(0.006)


def test_a_long_pass_is_measured_in_two_rounds():
    machine = Machine(_1=1.0, _2=0.5)
    machine.choose()
    assert machine.passes == 12  # a warm-up round and two, two passes for each of two numbers


def test_where_there_is_one_thread_nothing_is_compared():
    machine = Machine(_1=0.010)
    assert choose_threads(machine.run, 1, clock=lambda: machine.now, set_threads=machine.set).threads == 1


def test_the_choice_is_made_anew_when_passes_have_become_slow():
    machine = Machine(_1=0.003, _2=0.002)
    threads = machine.watch()
    assert threads.choice.threads == 2
    machine.seconds[2] = 0.030  # another program has begun
    threads.between_requests()
    assert threads.choice.threads == 2, "looked at again before ten seconds were over"
    machine.now += 10
    threads.between_requests()
    assert (threads.choice.threads, machine.threads) == (1, 1)


def test_a_look_at_a_machine_that_is_as_fast_as_before_costs_two_passes():
    machine = Machine(_1=0.003, _2=0.002)
    threads = machine.watch()
    machine.now += 10
    before = machine.passes
    threads.between_requests()
    threads.between_requests()
    assert machine.passes == before + 2


def test_a_choice_reads_as_a_sentence():
    assert str(ThreadChoice(1, {1: 0.00262, 2: 0.009})) == "1 thread (a pass takes 2.62 ms with 1, 9.00 ms with 2)"


def test_a_decode_pass_runs_the_model_over_one_new_token_each_row_as_often_as_asked():
    model = tiny_model()
    run = decode_pass(model, rows=3)
    first, second = run(), run()
    assert first.shape[:2] == (3, 1)
    assert torch.equal(first, second)
