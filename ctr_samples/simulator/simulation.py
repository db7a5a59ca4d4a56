"""Simulate by day, hour and piece. Each piece is drawn, written and discarded.

Only the world (arrays of users and articles), the profiles, the feed's memory and pending actions stay in memory.
Memory use therefore grows with users, articles and ``chunk_impressions``, not with the number of impressions.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ctr_samples.simulator.click_probability import ClickProbabilities
from ctr_samples.simulator.feature_tables import (
    ARTICLE_VECTOR_SCHEMA,
    USER_PROFILE_SCHEMA,
    article_vector_tables,
    user_profile_table,
    write_article_profiles,
    write_channels,
)
from ctr_samples.simulator.feed import Feed, Impressions, Memory, Piece, pieces_of_day
from ctr_samples.simulator.log_files import PartitionedLines, PartitionedTable, claim_directory, write_marker
from ctr_samples.simulator.log_lines import Lines, action_lines, by_time, exposure_lines, torn_copies
from ctr_samples.simulator.nights import spoil
from ctr_samples.simulator.profiles import ProfileStore, gains_of, history_before
from ctr_samples.simulator.reactions import (
    COLLECT,
    EMPTY,
    READ,
    SHARE,
    Actions,
    Clicks,
    Pending,
    draw_clicks,
    follow_up,
    orphan_clicks,
)
from ctr_samples.simulator.spec import RandomStream, SimulationSpec
from ctr_samples.simulator.truth import TRUTH_SCHEMA, StreamingAuc, truth_table
from ctr_samples.simulator.wall_clock import DAY, HOUR, Floats, Ints, day_name, wall_midnight
from ctr_samples.simulator.world import World, build_world

USER_BLOCK = 20_000  # profiles updated and written at a time


def simulate(
    spec: SimulationSpec, out: Path | str, *, force: bool = False, progress: Callable[[int], None] | None = None
) -> SimulationSummary:
    """Write the logs, tables and truth of a simulation into the directory ``out``.

    Replaces an earlier simulation in ``out``. Raises UsageError if the directory has other contents, unless ``force``.
    Calls ``progress`` after each piece with its number of impressions. Runs in this process, on one thread.
    """
    out = Path(out)
    description: dict[str, Any] = {"spec": dataclasses.asdict(spec) | {"start": spec.start.isoformat()}}
    claim_directory(out, description, force=force)
    world = build_world(spec)
    write_channels(out / "channels")
    write_article_profiles(spec, world, out / "article_profile")
    with ExitStack() as files:
        run = _Run(spec, world, out, files)
        run.day_before()
        for day in range(spec.days):
            run.day(wall_midnight(spec.start) + day * DAY, progress)
        run.day_after()
    if spec.broken:
        spoil(out, spec.start + timedelta(days=spec.days - 1), spec.broken)
    summary = run.summary()
    write_marker(out, description | {"summary": dataclasses.asdict(summary)})
    return summary


class _Run:
    """A simulation in progress. Its files are open until the exit stack closes."""

    def __init__(self, spec: SimulationSpec, world: World, out: Path, files: ExitStack) -> None:
        self._spec, self._world = spec, world
        self._lines = files.enter_context(closing(PartitionedLines(out / "user_action")))
        self._truth, self._user_profiles, self._vectors = (
            files.enter_context(closing(PartitionedTable(out / name, schema)))
            for name, schema in (
                ("truth", TRUTH_SCHEMA),
                ("user_profile", USER_PROFILE_SCHEMA),
                ("article_vector", ARTICLE_VECTOR_SCHEMA),
            )
        )
        self._model = ClickProbabilities(spec, world)
        self._memory = Memory(spec)
        self._profiles = ProfileStore(spec.users)
        self._pending = Pending()
        self._auc = StreamingAuc()
        self._tally = Counter[str]()

    def day_before(self) -> None:
        """Write initial profiles of known users at random full hours, and article vectors for the first three hours."""
        eve = wall_midnight(self._spec.start) - DAY
        known = np.flatnonzero(self._world.users.known)
        for block in range(0, len(known), USER_BLOCK):
            users = known[block : block + USER_BLOCK]
            self._profiles.fold(history_before(self._spec, self._world, users, block))
            hours = self._spec.generator(RandomStream.HISTORY, block, 1).integers(0, 24, len(users))
            self._write_profiles(users, eve + hours * HOUR)
        self._train_vectors(eve)

    def day(self, midnight: int, progress: Callable[[int], None] | None) -> None:
        """Simulate a day: for each hour, its pieces and then its profile batch."""
        self._train_vectors(midnight)
        pieces = pieces_of_day(midnight, self._spec.impressions, self._spec.chunk_impressions)
        for hour in range(24):
            begin = midnight + hour * HOUR
            feed = Feed(self._world.users, self._world.articles, begin, self._spec.list_size)
            actions: list[Actions] = []
            for piece in (piece for piece in pieces if piece.hour == hour):
                actions.append(self._piece(piece, feed))
                if progress is not None:
                    progress(piece.impressions)
            self._update_profiles(Actions.together(actions), begin + HOUR)

    def day_after(self) -> None:
        """Write late actions of the last day until no action is pending."""
        end = wall_midnight(self._spec.start) + self._spec.days * DAY
        while len(self._pending):
            end += HOUR
            due = self._pending.release(end)
            self._write_lines(end - HOUR, [action_lines(due, self._world.articles)], (end // HOUR,))
            self._count_actions(due)
            self._update_profiles(due, end)

    def summary(self) -> SimulationSummary:
        """Return the current counts."""
        users, tally = self._world.users, self._tally
        own = {
            "days": self._spec.days,
            "users": self._spec.users,
            "cold_users": int((~users.known).sum()),
            "hot_user_id": users.hot + 1,
            "articles": len(self._world.articles),
        }
        counted = [f.name for f in dataclasses.fields(SimulationSummary) if f.name not in own and f.name != "best_auc"]
        return SimulationSummary(**own, **{name: tally[name] for name in counted}, best_auc=self._auc.value())

    def _piece(self, piece: Piece, feed: Feed) -> Actions:
        """Draw and write a piece. Return the actions that occur within it."""
        at = (piece.begin // DAY, piece.hour, piece.number)
        shown = feed.draw(self._spec.generator(RandomStream.FEED, *at), piece, self._memory)
        rng = self._spec.generator(RandomStream.ACTIONS, *at)
        p_click = self._model.probability(shown)
        clicks = draw_clicks(rng, self._spec, p_click)
        actions = Actions.together(
            [follow_up(rng, self._spec, shown, clicks), self._orphans(rng, piece, feed, shown, clicks)]
        )
        self._pending.add(actions)
        due = self._pending.release(piece.end)

        exposures, repeated = self._exposures(rng, shown)
        self._write_lines(piece.begin, [*exposures, action_lines(due, self._world.articles)], at)
        self._truth.write(day_name(piece.begin), truth_table(shown, p_click, clicks, repeated))
        self._count_impressions(shown, p_click, clicks)
        self._count_actions(due)
        return due

    def _exposures(self, rng: np.random.Generator, shown: Impressions) -> tuple[list[Lines], Impressions]:
        """Return the lines of all lists, including repeats, and the repeated impressions."""
        list_times = shown.time[shown.position == 0]
        repeats = draw_repeats(rng, self._spec.repeat_rate, list_times)
        repeated = repeated_impressions(shown, repeats)
        lines = [
            exposure_lines(shown, np.arange(len(list_times)), list_times),
            exposure_lines(shown, repeats.list_id, list_times[repeats.list_id] + repeats.delay_s),
        ]
        self._tally.update(repeated_impressions=len(repeated), exposure_lines=len(list_times) + len(repeats.list_id))
        return lines, repeated

    def _orphans(
        self, rng: np.random.Generator, piece: Piece, feed: Feed, shown: Impressions, clicks: Clicks
    ) -> Actions:
        """Draw the orphan clicks of a piece. First records the clicks on its impressions in the feed's memory."""
        rows = np.flatnonzero(clicks.clicked)
        slots = self._memory.slots(shown.user[rows], shown.article[rows])
        self._memory.occupy(slots, (shown.time + clicks.delay_s)[rows])
        orphans = orphan_clicks(rng, feed, piece, self._memory, rng.binomial(len(rows), self._spec.orphan_click_rate))
        self._tally.update(orphan_clicks=len(orphans))
        return orphans

    def _write_lines(self, begin: int, parts: list[Lines], at: tuple[int, ...]) -> None:
        """Write lines to the day of ``begin``, with malformed copies added."""
        rng = self._spec.generator(RandomStream.LINES, *at)
        torn = [torn_copies(rng, part, self._spec.malformed_rate) for part in parts]
        self._tally.update(malformed_lines=sum(len(part.time) for part in torn))
        self._lines.write(day_name(begin), by_time([*parts, *torn]).text)

    def _update_profiles(self, actions: Actions, now: int) -> None:
        """Run the hourly batch: add the actions to the profiles, and write changed profiles."""
        gains = gains_of(actions, self._world.articles, self._world.users.known)
        for block in gains.by_users(USER_BLOCK):
            users = self._profiles.fold(block)
            self._write_profiles(users, np.full(len(users), now))

    def _write_profiles(self, users: Ints, updated_at: Ints) -> None:
        day = day_name(int(updated_at[0]))
        self._user_profiles.write(day, user_profile_table(self._world, self._profiles, users, updated_at))
        self._tally.update(user_profile_rows=len(users))

    def _train_vectors(self, midnight: int) -> None:
        for table in article_vector_tables(self._spec, self._world, midnight):
            self._vectors.write(day_name(midnight), table)
            self._tally.update(article_vector_rows=len(table))

    def _count_impressions(self, shown: Impressions, p_click: Floats, clicks: Clicks) -> None:
        in_window = clicks.clicked & (clicks.delay_s <= self._spec.label_window_s)
        self._auc.add(p_click, in_window)
        self._tally.update(
            impressions=len(shown),
            cold_user_impressions=int((~self._world.users.known[shown.user]).sum()),
            clicks_in_window=int(in_window.sum()),
            late_clicks=int((clicks.clicked & ~in_window).sum()),
        )

    def _count_actions(self, written: Actions) -> None:
        kind = np.bincount(written.kind, minlength=SHARE + 1)
        empty = int(((written.kind == READ) & (written.read_ms == EMPTY)).sum())
        self._tally.update(action_lines=len(written), reads=int(kind[READ]), empty_reads=empty)
        self._tally.update(collects=int(kind[COLLECT]), shares=int(kind[SHARE]))


REPEAT_WITHIN_S = 30


class Repeats(NamedTuple):
    """Repeated lists and their delays of 1..29 s, as columns of equal length."""

    list_id: Ints
    delay_s: Ints


def draw_repeats(rng: np.random.Generator, rate: float, list_times: Ints) -> Repeats:
    """Draw repeats of a random share ``rate`` of lists. No repeat crosses midnight, so pieces stay within one day."""
    again = rng.random(len(list_times)) < rate
    delay = rng.integers(1, REPEAT_WITHIN_S, len(list_times))
    list_id = np.flatnonzero(again & (list_times % DAY + delay < DAY))
    return Repeats(list_id, delay[list_id])


def repeated_impressions(shown: Impressions, repeats: Repeats) -> Impressions:
    """Return the impressions of repeated lists, at the time of the repeat."""
    delay_of_list = np.zeros(int(shown.list_id.max(initial=-1)) + 1, np.int64)
    delay_of_list[repeats.list_id] = repeats.delay_s
    delay = delay_of_list[shown.list_id]
    again = shown.take(delay > 0)
    return dataclasses.replace(again, time=again.time + delay[delay > 0])


@dataclass(frozen=True, kw_only=True)
class SimulationSummary:
    """Exact counts of the written files over all days."""

    days: int
    users: int
    cold_users: int  # without a profile
    hot_user_id: int
    articles: int
    impressions: int  # without repeats
    repeated_impressions: int  # sent again within 30 s
    cold_user_impressions: int  # without repeats, to cold users
    clicks_in_window: int
    late_clicks: int  # after the label window
    orphan_clicks: int  # without an impression
    reads: int
    empty_reads: int  # reads whose readTime is empty
    collects: int
    shares: int
    exposure_lines: int  # lists, including repeats
    action_lines: int  # click, read, collect, share
    malformed_lines: int  # not included in the two counts above
    user_profile_rows: int
    article_vector_rows: int
    best_auc: float | None  # of p_click for clicks within the label window, to 1e-4; None without clicks
