"""What each part of a configuration reads of the others.

A part is named like its key: ``features.age``, ``views.item``, ``histories.recent``, ``labels.clicked``, ``impressions``,
``sources.log``, ``vocabularies.words``, ``sampling``. What cannot be read, such as ``${NAME}`` outside quotes, reads
everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ctr_samples.graph.sql_names import SqlName, names_in

Columns = frozenset[str] | None
"""Columns of a part in lower case, or None for all."""

_OF_A_VIEW = (
    "key article_key where event_time available_time valid_to closed_available sequence tombstone snapshot".split()
)
_OF_A_HISTORY = "where time key user item request available_time".split()
_OF_A_LABEL = "where time value user article request expr".split()
_OF_IMPRESSIONS = "where time user article request position".split()
_PAIRS = {"lookup": ("map", "under", "keys"), "overlap": ("of", "with"), "dot": ("of", "with")}
_MASKS = ("__final", "__after", "__mask")
_WORDS = {
    (word,)
    for word in (
        "and as between bigint boolean by case date day decimal distinct double else end false float from in int interval is "
        "like not null or rlike string then timestamp true when"
    ).split()
}


@dataclass(frozen=True, slots=True)
class Graph:
    """For each part the parts that it reads, each with the columns of which it knows that they are read."""

    reads: Mapping[str, Mapping[str, Columns]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the graph of a configuration, given as the document of its file or of a manifest. Never fails."""
        return cls({part: _merged(found) for part, found in _Reader(document).parts()})

    @classmethod
    def from_dict(cls, reads: Mapping[str, Mapping[str, Collection[str] | None]]) -> Self:
        """Return the graph that :meth:`to_dict` wrote."""
        return cls(
            {
                part: {of: None if columns is None else frozenset(columns) for of, columns in read.items()}
                for part, read in reads.items()
            }
        )

    def to_dict(self) -> dict[str, dict[str, list[str] | None]]:
        """Return the graph as plain values, with sorted columns."""
        return {
            part: {of: None if columns is None else sorted(columns) for of, columns in read.items()}
            for part, read in self.reads.items()
        }

    def needed(self, *parts: str, without: Collection[str] = ()) -> list[str]:
        """Return these parts and all that they need, directly or by way of others, but nothing by way of those ``without``."""
        found = [part for part in dict.fromkeys(parts) if part in self.reads]
        for part in found:  # the list grows during the loop
            found += [other for other in self.reads[part] if other in self.reads and other not in (*found, *without)]
        return found

    def columns(self, part: str, of: str) -> Columns:
        """Return the columns of another part that a part reads itself."""
        return self.reads.get(part, {}).get(of, frozenset())

    def joined(self, feature: str) -> tuple[str, ...]:
        """Return the views and histories that a feature, or a part of its cross, reads itself."""
        parts = [part for part in self.needed(f"features.{feature}") if part.startswith("features.")]
        read = [other for part in parts for other in self.reads[part]]
        return tuple(dict.fromkeys(one for one in read if one.startswith(("views.", "histories."))))

    def reads_any(self, part: str, of: str, columns: Collection[str]) -> bool:
        """Whether a part itself reads one of some columns of another part."""
        read = self.columns(part, of)
        return bool(columns) if read is None else not read.isdisjoint(map(str.lower, columns))

    def features(self, part: str, column: str | None = None) -> list[str]:
        """Return the names of the features that read a part themselves, or one of its columns."""
        readers = [one for one, read in self.reads.items() if part in read and one.startswith("features.")]
        columns = () if column is None else (column,)
        return [one.partition(".")[2] for one in readers if not columns or self.reads_any(one, part, columns)]


def _merged(found: Iterable[tuple[str, Columns]]) -> dict[str, Columns]:
    merged: dict[str, Columns] = {}
    for part, columns in found:
        before = merged.get(part, frozenset())
        merged[part] = None if before is None or columns is None else before | columns
    return merged


def log_names(document: Mapping[str, Any], *texts: str) -> set[SqlName]:
    """Return what expressions over samples read, in lower case: names of the log for columns of impressions, and columns of
    views and histories. What reads everything gives an empty name. Words of SQL and types are no columns here, since two
    expressions with `case` need not read the same.
    """
    shown = document.get("impressions") or {}
    columns = {**shown, **(shown.get("keys") or {}), **(shown.get("columns") or {})}
    made = {name.lower(): text for name, text in columns.items() if isinstance(text, str)}
    found: set[SqlName] = set()
    for text in texts:
        for path in _lower(text):
            is_made = path[:1] == ("impression",) and len(path) > 1 and path[1] in made
            found |= _lower(made[path[1]]) if is_made else {path}
    return found - _WORDS


def meet(some: Iterable[SqlName], others: Collection[SqlName]) -> bool:
    """Whether two sets of names share a column, or one has a field of a column of the other."""
    return any(one[: len(other)] == other[: len(one)] for one in some for other in others)


def _lower(text: str) -> set[SqlName]:
    paths = names_in(text)
    return {()} if paths is None else {tuple(part.lower() for part in path) for path in paths}


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Mapping[str, Any]

    def parts(self) -> Iterator[tuple[str, Iterator[tuple[str, Columns]]]]:
        for name in self._section("sources"):
            yield f"sources.{name}", iter(())
        yield "impressions", self._impressions()
        for name in self._section("vocabularies"):
            yield f"vocabularies.{name}", iter(())
        for kind, read in (("labels", self._label), ("views", self._view), ("histories", self._history)):
            for name, entry in self._section(kind).items():
                yield f"{kind}.{name}", read(entry)
        for name, entry in self._section("features").items():
            yield f"features.{name}", self._feature(entry)
        yield "sampling", self._sampling()
        by = self._section("split").get("by")
        yield "split", self._keys([] if by in ("impression", "time") else [by])

    def _section(self, key: str) -> Mapping[str, Any]:
        return self.document.get(key) or {}

    def _impressions(self) -> Iterator[tuple[str, Columns]]:
        shown = self._section("impressions")
        yield from _of_source(shown, _texts(shown, _OF_IMPRESSIONS, "keys", "columns"))
        if shown.get("skip_above"):
            yield f"labels.{shown['skip_above']}", frozenset()

    def _label(self, label: Mapping[str, Any]) -> Iterator[tuple[str, Columns]]:
        shown = self._section("impressions")
        yield from _of_source(
            {"source": label.get("source") or shown.get("source")}, _texts(label, _OF_A_LABEL, "keys")
        )
        yield "impressions", frozenset()
        if label.get("after"):
            yield f"labels.{label['after']}", frozenset()

    def _view(self, view: Mapping[str, Any]) -> Iterator[tuple[str, Columns]]:
        counted = {**(view.get("daily_counts") or {}), **(view.get("aggregates") or {})}
        texts = [*_texts(view, _OF_A_VIEW, "look_up"), *_texts(counted, (), "counts", "sums", "distinct")]
        yield from _of_source(view, texts)
        looked_up = view.get("look_up") or {}
        yield from ((f"views.{other}", frozenset()) for other in looked_up)
        yield from self._structs(texts, {other.lower(): f"views.{other}" for other in looked_up})
        entity = view.get("entity")
        on = view.get("on") or (["user", "article"] if entity == "user_article" else entity)
        yield from self._keys(on if isinstance(on, list | tuple) else [on])

    def _history(self, history: Mapping[str, Any]) -> Iterator[tuple[str, Columns]]:
        yield from _of_source(history, _texts(history, _OF_A_HISTORY, "columns"))
        yield from self._keys([history.get("on") or "user"])

    def _feature(self, feature: Mapping[str, Any]) -> Iterator[tuple[str, Columns]]:
        structs = {"impression": "impressions"}
        for kind in ("views", "histories"):
            structs |= {name.lower(): f"{kind}.{name}" for name in self._section(kind)}
        texts = _texts(feature, ("from", "expr", "at"))
        for kind, keys in _PAIRS.items():
            texts += _texts(feature.get(kind) or {}, keys)
        yield from self._structs(texts, structs)
        yield from ((f"features.{part}", frozenset()) for part in feature.get("cross") or ())
        if feature.get("vocabulary"):
            yield f"vocabularies.{feature['vocabulary']}", frozenset()

    def _sampling(self) -> Iterator[tuple[str, Columns]]:
        sampling = self._section("sampling")
        labels = {
            f"{name}{mask}".lower(): f"labels.{name}" for name in self._section("labels") for mask in ("", *_MASKS)
        }
        yield from self._structs(_texts(sampling, ("rate", "weight")), {"impression": "impressions", **labels})
        cap = sampling.get("cap")
        yield from self._keys([cap.get("key") or "user"] if cap else [])
        if sampling.get("negatives") is not None:
            yield from ((f"labels.{name}", frozenset()) for name in self._section("labels"))

    def _structs(self, texts: Iterable[str], structs: Mapping[str, str]) -> Iterator[tuple[str, Columns]]:
        """Yield what expressions read of structs, given by their names in lower case."""
        for text in texts:
            paths = names_in(text)
            if paths is None:
                yield from ((part, None) for part in structs.values())
            for root, *fields in paths or ():
                if root.lower() in structs:
                    yield structs[root.lower()], frozenset([fields[0].lower()]) if fields else None

    def _keys(self, names: Iterable[Any]) -> Iterator[tuple[str, Columns]]:
        """Yield what is read for keys: those of impressions, or columns of views as in ``item.brand``."""
        for name in filter(None, names):
            view, dot, column = str(name).partition(".")
            part = f"views.{view}" if dot else "impressions"
            yield part, frozenset([column.partition(".")[0].lower() if dot else view.lower()])


def _of_source(entry: Mapping[str, Any], texts: Iterable[str]) -> Iterator[tuple[str, Columns]]:
    """Yield the source of an entry with the columns that expressions over it read."""
    if entry.get("source"):
        for text in ("", *texts):
            paths = names_in(text)
            yield f"sources.{entry['source']}", None if paths is None else frozenset(path[0].lower() for path in paths)


def _texts(entry: Mapping[str, Any], keys: Iterable[str], *sections: str) -> list[str]:
    """Return the expressions of an entry: those of keys, and all of sections such as ``columns``."""
    values = [entry.get(key) for key in keys]
    values += [value for section in sections for value in (entry.get(section) or {}).values()]
    flat = [one for value in values for one in (value if isinstance(value, list | tuple) else [value])]
    return [str(text) for text in flat if text is not None]
