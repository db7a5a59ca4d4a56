"""Assemble examples of a sample set from the rows available when an impression is served."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctr_samples.arguments import check_kind, names_in
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.graph import Graph
from ctr_samples.periods import Period, calendar_day, period_of
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.values import crossed, feature_of
from ctr_samples.serving.wire import MessageWriter, layout_of
from ctr_samples.shards import Manifest, open_storage, periods_of, require_manifest
from ctr_samples.shards.states import require_state
from ctr_samples.vocabulary import FittedState

_NOTHING: Mapping[str, Any] = {}


class Assembler:
    """Builds the examples of a sample set. Create it once, from the manifest of the training samples; thread-safe.

    Follows the configuration and contract in the manifest, so that serving matches training. ``lists`` names the
    multi-hot features whose column is a list: a missing list gives all zeros, whereas a missing value has an id. Raises
    InputError if ``state`` is not the fitted state that the configuration needs, and UsageError for arguments of the
    wrong type.
    """

    def __init__(self, manifest: Manifest, state: FittedState | None = None, lists: Collection[str] = ()) -> None:
        check_kind("manifest", manifest, Manifest, "of the training samples; `load_assembler` reads it from a path")
        if state is not None:
            check_kind("state", state, FittedState, "of the samples; `load_assembler` reads it")
        self.contract = ExampleContract.from_dict(dict(manifest.contract))
        config = manifest.config
        _check_state(self.contract, state)
        declared = [Declared.of(name, entry) for name, entry in config["features"].items()]
        listed, may_be = names_in("lists", lists), sorted(f.name for f in declared if f.multi_hot)
        if unknown := sorted(set(listed) - set(may_be)):
            raise UsageError(f"`lists` has {unknown[0]!r}; the multi-hot features are {', '.join(may_be) or 'none'}.")
        self._biases = {f.name for f in declared if f.bias is not None}
        self._unknown = _only_of_biases(declared, manifest.graph)
        self._required = {f.name for f in declared if f.nulls == "fail"}
        plain = [f for f in declared if not f.cross]
        # The id of a missing hashed value is None in contracts from older releases, which also hashed missing values.
        missing = {one.name: one.missing for one in self.contract.parts or self.contract.features}
        self._features = [
            (f.name, feature_of(f, config, state, missing.get(f.name), of_list=f.name in listed)) for f in plain
        ]
        self._crossed = [f for f in declared if f.cross]
        self._known = {"impression", *(config.get("views") or {}), *(config.get("histories") or {})}
        self._given = {f.name for f in declared} | {f.name for f in self.contract.features if f.role != "feature"}
        self._others = [f.name for f in self.contract.features if f.role != "feature"]
        self._layout = layout_of(self.contract, declared)
        self._writer = MessageWriter(self.contract)

    def assemble(
        self,
        impression: Mapping[str, Any],
        feature_rows: Mapping[str, Mapping[str, Any] | None],
        given: Mapping[str, Any] = _NOTHING,
    ) -> bytes:
        """Return the serialized tf.Example (or SequenceExample) of an impression: the message that the job writes to a
        record.

        ``impression`` has the columns that features refer to as ``impression.<name>``; times are datetimes with a zone.
        ``feature_rows`` has the matched row of each view, or None, and the lists of each history (``items``, ``ages_s``
        and its columns), or None. The caller supplies ``age_s`` if a feature uses it. ``given`` has the values of
        features that are SQL expressions, by feature name. The example includes labels, masks, the weight and the
        impression id if ``given`` has them. A model needs none of them, but a log of served examples may.

        A feature with a `bias` gets its declared constant. A value for it, or for a column of the impression that only such
        features read, is refused.

        Raises InputError for rows that lack a column or hold a value of the wrong kind, and EncodeError for a value
        that the job could not write either.
        """
        if self._biases:
            self._refuse_biases(impression, given)
        rows = {**feature_rows, "impression": impression, "": given}
        made = {name: value(rows) for name, value in self._features}
        for feature in self._crossed:
            made[feature.name] = crossed(feature, made)
        for name in self._required:
            if made[name] is None:
                raise InputError(f"features.{name}: the value is missing, which its `nulls: fail` forbids.")
        values = self._layout(made)
        if given:
            values.update({name: given[name] for name in self._others if name in given})
        return self._writer.write(values)

    def _refuse_biases(self, impression: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        for name in sorted({f"given[{name!r}]" for name in self._biases & given.keys()}) + sorted(
            {f"impression[{name!r}]" for name in impression if name.lower() in self._unknown}
        ):
            raise InputError(
                f"{name} is for a feature with a `bias`, which serving does not know; leave it out, since the model "
                "gets the declared constant."
            )

    def check(self, feature_rows: Mapping[str, Any], given: Mapping[str, Any] = _NOTHING) -> None:
        """Raise UsageError for names missing from the configuration. Intended for tests of a service; not called per
        row.
        """
        for name in [*sorted(set(feature_rows) - self._known), *sorted(set(given) - self._given)]:
            raise UsageError(f"The samples have no view, history or feature {name!r}; they have {sorted(self._known)}.")


def _only_of_biases(declared: Sequence[Declared], graph: Graph) -> set[str]:
    """Return the columns of impressions that only features with a `bias` read, in lower case."""
    read = {f.name: graph.columns(f"features.{f.name}", "impressions") for f in declared}
    others = [read[f.name] for f in declared if f.bias is None]
    if None in others:
        return set()
    of_biases = {column for f in declared if f.bias is not None for column in read[f.name] or ()}
    return of_biases.difference(*filter(None, others))


def load_assembler(path: str | Path, *, date: Period | str, lists: Collection[str] = ()) -> Assembler:
    """Load the assembler of a published day from its manifest and the fitted state named there. Reads the store once.

    A day may have been built hour by hour. Raises InputError if it is missing, if its hours make features otherwise, or if
    the fitted state differs from the samples' state. Raises UsageError for an argument of the wrong type, and for names in
    ``lists`` that are not multi-hot features.
    """
    storage = open_storage(path)
    manifests = [require_manifest(storage, period) for period in periods_of(storage, period_of(date))]
    manifest = manifests[-1]
    for other in manifests:
        if (other.config["features"], other.contract) != (manifest.config["features"], manifest.contract):
            raise InputError(
                f"{other.run_date} and {manifest.run_date} make their features otherwise; give the hour whose samples the "
                "model was trained on."
            )
    fitted = manifest.contract.get("state")
    day = calendar_day(manifest.day)
    state = require_state(open_storage(_filled(manifest.config["fitted"]["path"])), day) if fitted and day else None
    return Assembler(manifest, state, lists)


def _check_state(contract: ExampleContract, state: FittedState | None) -> None:
    expected = contract.state
    if expected is None:
        return
    identity = None if state is None else (state.lineage, state.version, state.fingerprint)
    if identity != (expected["lineage"], expected["version"], expected["fingerprint"]):
        given = "none was given" if state is None else f"version {state.version} of lineage {state.lineage} was given"
        raise InputError(
            f"The samples were made with version {expected['version']} of the fitted state of lineage {expected['lineage']}, "
            f"but {given}; give the state from `fitted.path`."
        )


def _filled(path: str) -> str:
    """Expand ``${NAME}`` from the environment, as in the configuration. Raises InputError if the variable is not set."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(f"`fitted.path` is {path!r}, but the environment variable {match[1]} is not set; set it.")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, path)
