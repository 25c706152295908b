"""Attention over keys that real processes share out."""

import pytest
import torch
from by_hand import attention, close, random

from course.lab.processes import attend_in_processes
from nanolm.attention.across import merge_across


def heads(S=7):
    return random(1, 4, 1, 6), random(1, 2, S, 6, seed=1), random(1, 2, S, 6, seed=2)


def test_two_processes_give_the_same_attention_to_the_last_bit():
    q, k, v = heads()
    shares = attend_in_processes(q, k, v, 2, merge_across)
    assert all(torch.equal(share.result, shares[0].result) for share in shares)
    assert close(shares[0].result, attention(q, k, v))
    # Two key/value heads of two rows each: 4 · (6 + 2) numbers of 8 bytes a state.
    assert [(share.n_sent, share.bytes_sent) for share in shares] == [(1, 256)] * 2


def test_what_goes_wrong_in_a_process_is_said_here():
    def merge_across(state, peers):
        raise ValueError("not today")

    with pytest.raises(RuntimeError, match=r"process [01]: ValueError: not today"):
        attend_in_processes(*heads(), 2, merge_across)
