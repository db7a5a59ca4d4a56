"""Every expected error has an exit code and crosses a process boundary."""

from __future__ import annotations

import pickle

import pytest

from ctr_samples import errors


def every_error() -> list[type[errors.CtrSamplesError]]:
    return [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.CtrSamplesError)]


@pytest.mark.parametrize("kind", every_error())
def test_an_error_pickles_with_its_message(kind: type[errors.CtrSamplesError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("found 3, expected 4")))
    assert type(copy) is kind
    assert str(copy) == "found 3, expected 4"


@pytest.mark.parametrize("kind", every_error())
def test_an_error_is_drawn_in_the_tree(kind: type[errors.CtrSamplesError]) -> None:
    line = next(line for line in (errors.__doc__ or "").splitlines() if f" {kind.__name__} " in line)
    assert f" {kind.exit_code}  " in line


def test_exit_codes_are_those_of_the_command_line() -> None:
    assert errors.ConfigError.exit_code == errors.UsageError.exit_code == 2
    assert errors.InputError.exit_code == 3
    assert errors.PublishConflict.exit_code == 4
    assert errors.PublishUnknown.exit_code == 5
