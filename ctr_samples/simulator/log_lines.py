"""Action log lines, formatted by Arrow kernels column by column, without a Python object per line.

A malformed line is a truncated extra copy of a valid line, as left by a writer that crashes mid-line and then rewrites
the line. The valid lines are therefore complete at any rate of malformed lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.simulator.feed import Impressions
from ctr_samples.simulator.reactions import ACTION_NAMES, EMPTY, Actions
from ctr_samples.simulator.wall_clock import Ints, day_name, wall_texts
from ctr_samples.simulator.world import FIRST_ARTICLE_ID, Articles


class Lines(NamedTuple):
    """Lines that end with a newline, and their times in seconds of local time."""

    text: pa.Array
    time: Ints


def exposure_lines(shown: Impressions, lists: Ints, times: Ints) -> Lines:
    """Format one line per list, given as ids within ``shown``, logged at ``times``."""
    starts = np.searchsorted(shown.list_id, np.append(np.unique(shown.list_id), shown.list_id[-1:] + 1))
    ids = (shown.article + FIRST_ARTICLE_ID).astype(str)
    offsets = pa.array(starts if len(starts) else [0], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pa.array(ids, pa.string())), ", ").take(pa.array(lists))
    first = starts[lists]
    return _format(
        time=times,
        read_time=pa.scalar(""),
        channel=pa.scalar("0"),
        action=pa.scalar("exposure"),
        user=shown.user[first],
        article=pc.binary_join_element_wise(pa.scalar("["), joined, pa.scalar("]"), ""),
        algorithm=shown.algorithm[first],
    )


def action_lines(actions: Actions, articles: Articles) -> Lines:
    """Format one line per action."""
    read_time = pc.if_else(pa.array(actions.read_ms == EMPTY), "", pa.array(actions.read_ms).cast(pa.string()))
    return _format(
        time=actions.time,
        read_time=read_time,
        channel=pa.array(articles.channel[actions.article]).cast(pa.string()),
        action=pa.array(ACTION_NAMES).take(pa.array(actions.kind)),
        user=actions.user,
        article=pa.array(actions.article + FIRST_ARTICLE_ID).cast(pa.string()),
        algorithm=actions.algorithm,
    )


def _format(
    *,
    time: Ints,
    read_time: pa.Array,
    channel: pa.Array,
    action: pa.Array,
    user: Ints,
    article: pa.Array,
    algorithm: Ints,
) -> Lines:
    """Format lines as in the tutorial. All texts are digits, names and lists, so nothing needs escaping."""
    pieces = [
        '{"actionTime":"',
        wall_texts(time, day_name(int(time[0]))) if len(time) else pa.array([], pa.string()),
        '","readTime":"',
        read_time,
        '","channelId":',
        channel,
        ',"param":{"action":"',
        action,
        '","userId":"',
        pa.array(user + 1).cast(pa.string()),
        '","articleId":"',
        article,
        '","algorithmCombine":"C',
        pa.array(algorithm).cast(pa.string()),
        '"}}\n',
    ]
    columns = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    return Lines(pc.binary_join_element_wise(*columns, ""), time)


def torn_copies(rng: np.random.Generator, lines: Lines, rate: float) -> Lines:
    """Return malformed copies of a random share ``rate`` of lines: truncated, or without the quote after the user."""
    rows = np.flatnonzero(rng.random(len(lines.time)) < rate)
    whole = lines.text.take(pa.array(rows)).to_pylist()
    cut = rng.random(len(rows))
    unquoted = rng.random(len(rows)) < 0.5
    torn = [
        text.replace('","articleId"', ',"articleId"') if quote else text[: 1 + int(share * (len(text) - 3))] + "\n"
        for text, share, quote in zip(whole, cut, unquoted, strict=True)
    ]
    return Lines(pa.array(torn, pa.string()), lines.time[rows])


def by_time(parts: list[Lines]) -> Lines:
    """Merge lines of all parts by time. Lines with equal times keep the order of the parts."""
    text = pa.concat_arrays([part.text for part in parts])
    time = np.concatenate([part.time for part in parts])
    order = np.argsort(time, kind="stable")
    return Lines(text.take(pa.array(order)), time[order])
