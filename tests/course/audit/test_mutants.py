"""Mutants: one small change each, of what is asked and nothing else."""

import ast

import pytest

from course.audit.mutants import equivalent, mutants
from course.audit.run import MUTANT, audit_mutant
from course.paths import ROOT, read
from course.registry import find, registry

RESIDUAL = find("residual_distribution")


def test_every_mutant_differs_from_the_reference_and_parses():
    reference = ast.unparse(ast.parse(read(ROOT / "nanolm" / RESIDUAL.file)))
    found = list(mutants(RESIDUAL))
    assert len(found) >= 5
    for mutant in found:
        assert mutant.text != reference
        ast.parse(mutant.text)


def test_a_mutant_changes_one_line_of_the_function_that_is_asked():
    reference = ast.unparse(ast.parse(read(ROOT / "nanolm" / RESIDUAL.file))).splitlines()
    for mutant in mutants(RESIDUAL):
        lines = mutant.text.splitlines()
        assert len(lines) == len(reference)
        changed = [old for old, new in zip(reference, lines, strict=True) if old != new]
        assert len(changed) == 1
        assert mutant.name.startswith("residual_distribution: ")


def test_a_mutant_that_a_test_notices_is_killed():
    changed = next(mutant for mutant in mutants(RESIDUAL) if "+ draft_probs" in mutant.name)
    found = audit_mutant(RESIDUAL, changed, seed=3)
    assert found.kind == MUTANT and not found.accepted and found.said


def test_every_equivalent_mutant_is_one_and_has_its_reason():
    names = {mutant.name for exercise in registry() for mutant in mutants(exercise)}
    assert {name for name in equivalent() if name not in names} == set()
    assert all(len(reason) > 15 for reason in equivalent().values())


@pytest.mark.slow
@pytest.mark.parametrize("exercise", registry(), ids=lambda exercise: exercise.name)
def test_every_mutant_of_the_reference_is_noticed(exercise, monkeypatch):
    monkeypatch.setattr("course.grading.limits.TEST_SECONDS", 5.0)
    found = [audit_mutant(exercise, mutant, seed=3) for mutant in mutants(exercise)]
    assert [result.name for result in found if result.accepted and result.name not in equivalent()] == []
