"""Small logs in the shapes of public data sets, and what is true of their samples."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from tests.starter.logs_of_anybody import columns, lines

START = datetime(2022, 4, 22, 0, 30)
ROWS = 48
"""Of most logs: one each half hour of a day; every fourth is clicked."""


@dataclass(frozen=True)
class Shape:
    """Logs that a function writes, and their samples: of a day, or of the whole log."""

    write: Callable[[Path], None]
    records: int
    sums: dict[str, float]
    day: str = "all"
    matched: dict[str, float] = field(default_factory=dict)
    """The share of the samples for which a view has a row."""


def moment(n: int) -> datetime:
    return START + timedelta(minutes=30 * n)


def millis(n: int) -> int:
    return int(moment(n).replace(tzinfo=UTC).timestamp() * 1000)


def open_bandit(root: Path) -> None:
    names = [f"user-item_affinity_{n}" for n in range(8)]
    with (root / "all.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["", "timestamp", "item_id", "position", "click", "propensity_score", "user_feature_0", *names])
        for n in range(ROWS):
            when = f"{moment(n):%Y-%m-%d %H:%M:%S}.762830+00:00"
            writer.writerow([n, when, n % 6, 1 + n % 3, int(n % 4 == 0), 0.0125, "abcdef"[n % 5], *[n / 8] * 8])
    items = [f"{n},{n},{n / 10},{'xyz'[n % 3]}" for n in range(6)]
    lines(root / "item_context.csv", [",item_id,item_feature_0,item_feature_1", *items])


def movielens(root: Path) -> None:
    rows = [f"{n % 12},{100 + n % 7},{(1 + n % 9) / 2},{1_420_070_400 + 86_400 * 7 * n}" for n in range(90)]
    lines(root / "ratings.csv", ["userId,movieId,rating,timestamp", *rows])
    genres = ["Action|Comedy", "Drama", "Comedy|Drama", "Action", "Drama|Horror", "Comedy", "Action|Horror"]
    movies = [f'{100 + n},"Movie, The {n}",{genre}' for n, genre in enumerate(genres)]
    lines(root / "movies.csv", ["movieId,title,genres", *movies])


def mind(root: Path) -> None:
    behaviors = []
    for n in range(ROWS):
        shown = " ".join(f"N{(n + place) % 9}-{int((n + place) % 4 == 0)}" for place in range(3))
        history = " ".join(f"N{(n + place) % 9}" for place in range(n % 4))
        when = moment(n).strftime("%m/%d/%Y %I:%M:%S %p").lstrip("0")
        behaviors.append(f"{n + 1}\tU{n % 10}\t{when}\t{history}\t{shown}")
    lines(root / "behaviors.tsv", behaviors)
    kinds = ["sports", "news", "finance"]
    news = [f"N{n}\t{kinds[n % 3]}\tsub{n % 2}\tTitle of {n}\tAbstract\thttps://x/{n}\t[]\t[]" for n in range(9)]
    lines(root / "news.tsv", news)


def criteo(root: Path) -> None:
    rows = []
    for n in range(120):
        numbers = ["" if (n + place) % 5 == 0 else str((n * 7 + place) % 40) for place in range(13)]
        texts = ["" if (n + place) % 11 == 0 else f"{(n * 3 + place) % 9:08x}" for place in range(26)]
        rows.append("\t".join([str(int(n % 4 == 0)), *numbers, *texts]))
    lines(root / "train.txt", [*rows, *rows[:10]])  # equal rows are impressions of their own


def kuairand(root: Path) -> None:
    header = "user_id,video_id,date,hourmin,time_ms,is_click,is_like,long_view,play_time_ms,duration_ms,tab"
    rows = []
    for n in range(96):
        click, like, long = int(n % 3 == 0), int(n % 12 == 0), int(n % 6 == 0)
        ids, played = f"{n % 16},{200 + n % 10}", str(1000 + n * 10) if click else "0"
        rows.append(f"{ids},20220422,1000,{millis(n // 2)},{click},{like},{long},{played},{n % 7 + 40},{n % 3}")
    lines(root / "log_standard.csv", [header, *rows])
    users = [f"{n},{('low', 'middle', 'full')[n % 3]},{n % 2}" for n in range(16)]
    lines(root / "user_features.csv", ["user_id,user_active_degree,is_video_author", *users])
    videos = [f"{200 + n},{n % 4},NORMAL,2022-04-1{n % 9},{n % 3}" for n in range(10)]
    lines(root / "video_features_basic.csv", ["video_id,author_id,video_type,upload_dt,tag", *videos])
    authors = [f"{n},{1000 + 100 * n},2022-01-01,9999-12-31" for n in range(4)]
    lines(root / "authors.csv", ["author_id,fans,since,until", *authors])


def pandas_export(root: Path) -> None:
    """As ``frame.to_csv()`` writes: an index without a name, True and False, whole numbers with .0 where some are missing."""
    rows = []
    for n in range(ROWS):
        user = "" if n == 5 else f"{n % 12}.0"
        device = "web" if n % 2 else "app"
        rows.append(f"{n},{moment(n):%Y-%m-%d %H:%M:%S},{user},{300 + n % 5},{n / 4},{n % 4 == 0},{device}")
    lines(root / "impressions.csv", [",shown_at,user_id,product_id,price,clicked,device", *rows])


def action_log(root: Path) -> None:
    """As in the tutorial and the simulator: exposures hold lists, other actions one article; days are directories."""
    for day in range(3):
        rows: list[dict[str, Any]] = []
        for hour in range(24):
            when = datetime(2019, 3, 12 + day, hour)
            user = str(hour % 8)
            articles = [hour % 9, (hour + 1) % 9, (hour + 2) % 9]
            rows.append(_action(when, "exposure", user, str(articles), ""))
            if hour % 3 == 0:
                rows.append(_action(when + timedelta(minutes=5), "click", user, str(articles[0]), ""))
                rows.append(_action(when + timedelta(minutes=6), "read", user, str(articles[0]), str(100 * (hour + 1))))
        lines(root / f"user_action/2019-03-{12 + day}/part.json", [json.dumps(row) for row in rows])
    profiles = [f"{n},{'true' if n % 2 else 'false'},19{70 + n}-01-01,2019-01-1{n} 17:44:32.0" for n in range(8)]
    lines(root / "user_profile.txt", profiles)
    kinds = [f"{n},{n % 3},Title of the article number {n} of this little feed,2019/1/1{n} 17:44" for n in range(9)]
    lines(root / "news_article_basic.txt", kinds)


def _action(when: datetime, action: str, user: str, article: str, read: str) -> dict[str, Any]:
    what = {"action": action, "userId": user, "articleId": article, "algorithmCombine": "C2"}
    return {"actionTime": f"{when:%Y-%m-%d %H:%M:%S}", "readTime": read, "channelId": 0, "param": what}


def two_logs(root: Path) -> None:
    """Impressions and clicks in files of their own, Parquet and ORC, and profiles written whole for each day."""
    zone = pa.timestamp("us", tz="UTC")
    for day in range(2):
        times = [moment(48 * day + n).replace(tzinfo=UTC) for n in range(ROWS)]

        def ids(some: range, day: int = day) -> dict[str, list[Any]]:
            return {
                "request_id": [f"r{day}-{n}" for n in some],
                "uid": [f"u{n % 12}" for n in some],
                "item_id": [n % 7 for n in some],
            }

        shown = {**ids(range(ROWS)), "shown_at": pa.array(times, zone), "bid": [n / 10 for n in range(ROWS)]}
        columns(root / f"impressions/dt=2022-04-{22 + day}/part-0.parquet", pa.table(shown))
        clicked = pa.array([time + timedelta(minutes=2) for time in times[::4]], zone)
        clicks = {**ids(range(0, ROWS, 4)), "clicked_at": clicked}
        columns(root / f"clicks/dt=2022-04-{22 + day}/part-0.orc", pa.table(clicks), orc.write_table)
    for day in range(18, 24):
        users = {"uid": [f"u{n}" for n in range(12)], "age": [20 + n for n in range(12)]}
        columns(root / f"users/dt=2022-04-{day}/part-0.parquet", pa.table(users))


SHAPES = {
    "open_bandit": Shape(open_bandit, 48, {"click": 12}, matched={"item_context": 1}),
    "movielens": Shape(movielens, 90, {"liked": 50, "stars": 225}, matched={"movies": 1}),
    "mind": Shape(mind, 144, {"click": 36}, matched={"news": 1}),
    "criteo": Shape(criteo, 130, {"label": 33}),
    "kuairand": Shape(
        kuairand,
        96,
        {"is_click": 32, "is_like": 8, "long_view": 16},
        matched={"user_features": 1, "video_features_basic": 1, "authors": 1},
    ),
    "pandas_export": Shape(pandas_export, 48, {"clicked": 12}),
    "action_log": Shape(
        action_log,
        72,
        {"click": 8, "read": 8, "read_readTime": 9200},
        "2019-03-13",
        {"user_profile": 1, "news_article_basic": 1},
    ),
    "two_logs": Shape(two_logs, 47, {"click": 12}, "2022-04-22", {"users": 1}),
}
