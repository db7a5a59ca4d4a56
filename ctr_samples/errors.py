"""Exceptions of ctr-samples, with their exit codes.

::

    CtrSamplesError            1  anything else
    ├── UsageError             2  a wrong argument on the command line
    ├── ConfigError            2  the YAML file: unknown key, wrong type, impossible value
    │   └── ExpressionError    2  an SQL expression that is malformed or not allowed
    ├── InputError             3  the data: missing path, empty day, missing column, too many malformed lines
    ├── ContractError          3  features that cannot be written as declared
    │   └── EncodeError        3  a single value that cannot be written
    ├── GateRefused            3  samples that are written, but differ too much from previous days
    ├── AccountingError        3  impressions that do not add up
    ├── DamagedFile            3  a shard or manifest with unexpected content
    │   ├── DamagedPartial     3  a partial result that is incomplete or was changed; the run rebuilds it
    │   └── UnusableFeatures   3  an earlier generation that lacks features of a run; the run joins them again
    ├── StorageError           1  a store that failed or cannot keep our guarantees
    │   └── AccessDenied       2  files and directories that this user may not read or write
    ├── PublishConflict        4  another run published this generation first
    └── PublishUnknown         5  the store did not report whether the manifest was written

Messages are one or two sentences: what was found, what was expected, what to do. All errors can be pickled, since some
cross from a Python worker to the driver.
"""

from __future__ import annotations

NO_TENSORFLOW = "TensorFlow is not installed here; install it with `pip install 'ctr-samples[tensorflow]'`"


class CtrSamplesError(Exception):
    """Base class of all expected errors. ``exit_code`` is the exit status of the command line."""

    exit_code = 1


class UsageError(CtrSamplesError):
    """A command-line argument is invalid."""

    exit_code = 2


class ConfigError(CtrSamplesError):
    """The configuration file asks for something impossible."""

    exit_code = 2


class ExpressionError(ConfigError):
    """An SQL expression in the configuration does not parse or uses a forbidden construct."""


class InputError(CtrSamplesError):
    """The input data are missing, unreadable or do not match the configuration."""

    exit_code = 3


class ContractError(CtrSamplesError):
    """A feature cannot be written as declared in its contract."""

    exit_code = 3


class EncodeError(ContractError):
    """A value in a batch breaks the contract. Raised on executors; the message gives column and row."""


class GateRefused(CtrSamplesError):
    """A check of the quality gate failed. The samples stay unpublished, next to a report."""

    exit_code = 3


class AccountingError(CtrSamplesError):
    """Impressions, samples and drop reasons do not add up exactly."""

    exit_code = 3


class DamagedFile(CtrSamplesError):
    """A shard or manifest is truncated, altered or malformed."""

    exit_code = 3


class DamagedPartial(DamagedFile):
    """A partial result is incomplete or was changed; a restarted run rebuilds it."""


class UnusableFeatures(DamagedFile):
    """Shards of an earlier generation lack features of this run; a restarted run joins them again."""


class StorageError(CtrSamplesError):
    """A store failed, or lacks a property that publishing needs."""


class AccessDenied(StorageError):
    """The user of this process may not read or write a file or directory; retrying does not help."""

    exit_code = 2


class PublishConflict(CtrSamplesError):
    """Another run published the same generation first."""

    exit_code = 4


class PublishUnknown(CtrSamplesError):
    """The store did not report whether the manifest was written."""

    exit_code = 5
