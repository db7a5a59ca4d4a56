"""Eight days of one small shop, written as other people write their logs, and what is true of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

FIRST = date(2024, 5, 3)  # a Friday, so that there is a Monday among eight days
DAYS = 8
USERS, ITEMS = 150, 40


@dataclass(frozen=True)
class Row:
    """An impression: when in UTC, of whom, of what, in which request and place, and when it was clicked and bought."""

    at: datetime
    user: int
    item: int
    request: int
    place: int
    clicked: datetime | None
    bought: datetime | None
    visit: int


@dataclass(frozen=True)
class Truth:
    """Logs that a function writes below a directory, and what a draft of them must find."""

    write: Callable[[Path], None]
    inputs: tuple[str, ...]
    """What is named to ``init``."""
    source: str
    keys: dict[str, str]
    labels: tuple[str, ...]
    time: str
    never: tuple[str, ...] = ()
    """Columns that no expression of a feature may name."""
    views: dict[str, str] = field(default_factory=dict)
    """What tables around the log are joined on."""
    dated: bool = True
    more: dict[str, Any] = field(default_factory=dict)
    """Values in the configuration, by dotted keys."""


@cache
def rows() -> tuple[Row, ...]:
    """The impressions of eight days in order: lists of four, of which popular items are clicked more."""
    dice = random.Random(7)
    made, request = [], 0
    for day in range(DAYS):
        start = datetime(FIRST.year, FIRST.month, FIRST.day) + timedelta(days=day)
        moments = sorted(dice.randrange(86_400_000) for _ in range(75))
        for millis in moments:
            request += 1
            user = dice.randrange(USERS)
            for place, item in enumerate(dice.sample(range(ITEMS), 4)):
                at = start + timedelta(milliseconds=millis)
                clicked = at + timedelta(seconds=dice.randrange(5, 600)) if dice.random() < 0.1 + item / 100 else None
                bought = clicked + timedelta(minutes=dice.randrange(1, 50)) if clicked and dice.random() < 0.4 else None
                made.append(Row(at, user, item, request, place, clicked, bought, 10_000 + request))
    return tuple(made)


def by_day(shift: timedelta = timedelta(0)) -> Iterator[tuple[date, list[Row]]]:
    """The impressions of each day of a zone that is so far ahead of UTC."""
    days: dict[date, list[Row]] = {}
    for row in rows():
        days.setdefault((row.at + shift).date(), []).append(row)
    yield from sorted(days.items())


def lines(path: Path, some: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in some))


def columns(path: Path, table: pa.Table, write: Callable[[pa.Table, Path], None] = parquet.write_table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(table, path)


def seconds(at: datetime) -> int:
    return int(at.replace(tzinfo=UTC).timestamp())


def millis(at: datetime) -> int:
    return int(at.replace(tzinfo=UTC).timestamp() * 1000)


def big(number: int) -> int:
    """An id of twenty digits, which no integer of 64 bits holds."""
    return 10_000_000_000_000_000_000 + number * 7_919_000_003


def each_day(root: Path, file: str, header: str, row: Callable[[Row], str], only: str = "at") -> None:
    """Write a line for each impression into a file of its day, or for each one that has the moment ``only``."""
    for day, shown in by_day():
        lines(root / file.format(day), [header, *(row(r) for r in shown if getattr(r, only))])


def german(root: Path) -> None:
    """Impressions and clicks apart, with semicolons, German names and local times; a table of articles."""

    def row(r: Row) -> str:
        return f"a{r.request};{r.user};x{r.item};{r.at:%d.%m.%Y %H:%M:%S};{r.place}"

    def click(r: Row) -> str:
        return f"a{r.request};x{r.item};{r.clicked:%d.%m.%Y %H:%M:%S}"

    each_day(root, "einblendungen/tag={}/teil.csv", "anfrage;kunde;art;zeit;platz", row)
    each_day(root, "klicks/tag={}/teil.csv", "anfrage;art;wann", click, only="clicked")
    some = [f"x{n};{n},50;{('rot', 'blau', 'grün')[n % 3]}" for n in range(ITEMS)]
    lines(root / "artikel.csv", ["art;preis;farbe", *some])


def glued(root: Path) -> None:
    """One log of views and what followed, with glued names and milliseconds."""
    some = []
    for r in rows():
        for at, event in ((r.at, "view"), (r.clicked, "addtocart"), (r.bought, "transaction")):
            if at:
                number = str(r.request) if event == "transaction" else ""
                some.append((at, f"{millis(at)},{r.user + 5000},{event},{r.item + 90_000},{number}"))
    lines(root / "events.csv", ["timestamp,visitorid,event,itemid,transactionid", *[line for _, line in sorted(some)]])


def nameless(root: Path) -> None:
    """Tabs, no header, epoch seconds, and days in the names of files."""
    for day, shown in by_day():
        some = [f"{seconds(r.at)}\tU{r.user}\tN{r.item}\t{int(bool(r.clicked))}" for r in shown]
        lines(root / f"log-{day}.tsv", some)
    lines(root / "artikel.tsv", [f"N{n}\t{'ab'[n % 2]}\t{n * 3}" for n in range(ITEMS)])


def digits(root: Path) -> None:
    """JSON lines with ids of twenty digits, impressions and clicks apart."""
    for day, shown in by_day():
        some = [
            {"rid": big(r.request), "viewer": big(r.user), "obj": big(r.item), "t": seconds(r.at), "slot": r.place}
            for r in shown
        ]
        lines(root / f"shown/{day}/a.json", [json.dumps(one) for one in some])
        some = [{"rid": big(r.request), "obj": big(r.item), "t": seconds(r.clicked)} for r in shown if r.clicked]
        lines(root / f"taps/{day}/a.json", [json.dumps(one) for one in some])


def russian(root: Path) -> None:
    """Names in Cyrillic letters."""
    some = [f"{r.at:%Y-%m-%d %H:%M:%S},п{r.user},т{r.item},{r.place},{'да' if r.clicked else 'нет'}" for r in rows()]
    lines(root / "показы.csv", ["время,пользователь,товар,место,клик", *some])
    lines(root / "товары.csv", ["товар,цена", *[f"т{n},{n / 2}" for n in range(ITEMS)]])


def typed(root: Path) -> None:
    """Names with their types, as RecBole writes them."""
    some = [f"{r.user}\t{r.item}\t{int(bool(r.clicked))}\t{seconds(r.at)}" for r in rows()]
    lines(root / "shop.inter", ["user_id:token\titem_id:token\tlabel:float\ttimestamp:float", *some])
    some = [f"{n}\tw{n % 5} w{n % 7}\t{n * 1.5}" for n in range(ITEMS)]
    lines(root / "shop.item", ["item_id:token\tclass:token_seq\tprice:float", *some])


def large_table(root: Path) -> None:
    """A table of items that is larger than the log, with flags and times of its own."""

    def row(r: Row) -> str:
        return f"{r.user},{r.item * 50},{r.at:%Y-%m-%dT%H:%M:%SZ},{int(bool(r.clicked))}"

    each_day(root, "impressions/{}.csv", "member,sku,at,clicked", row)
    some = [f"{n},2024-04-{1 + n % 28:02} 10:00:00,{n % 2},brand{n % 9},{'x' * 60}" for n in range(6000)]
    lines(root / "catalogue.csv", ["sku,updated_at,in_stock,brand,description", *some])


def outcomes(root: Path) -> None:
    """What is known only afterwards stands beside what was known."""
    header = "user_id,video_id,time_ms,is_click,is_like,is_profile_enter,stay,not_now,tab,session_id"
    for day, shown in by_day():
        some = []
        for n, r in enumerate(shown):
            click, like, enter = bool(r.clicked), bool(r.bought), bool(r.bought) and r.place % 2 == 0
            stay, not_now = (r.item + 1) * 100 * click, not click and n % 2
            some.append(
                f"{r.user},{r.item + 500},{millis(r.at)},{click:d},{like:d},{enter:d},{stay},{not_now:d},{n % 3},{r.visit}"
            )
        lines(root / f"log/{day}/log.csv", [header, *some])


def invited(root: Path) -> None:
    """Invitations to events: the number of an event is no request, and an invitation no label."""
    some = [
        f"{r.user + 700},{r.item + 9000},{r.place % 2},{r.at:%Y-%m-%d %H:%M:%S}.021000+00:00,"
        f"{bool(r.clicked):d},{not r.clicked and r.place % 3 == 0:d}"
        for r in rows()
    ]
    lines(root / "train.csv", ["user,event,invited,timestamp,interested,not_interested", *some])


def bulk(root: Path) -> None:
    """Documents of a search engine, each below a line of its own that says where it belongs."""
    some = []
    for n, r in enumerate(rows()):
        some.append(json.dumps({"index": {"_index": "shown", "_id": n}}))
        ids = {"user": {"id": f"u{r.user}"}, "product": {"id": f"p{r.item}"}}
        row = {"@timestamp": f"{r.at:%Y-%m-%dT%H:%M:%S.%f}Z", **ids, "clicked": bool(r.clicked), "price": r.item / 4}
        some.append(json.dumps(row))
    lines(root / "bulk.ndjson", some)


def orders(root: Path) -> None:
    """Impressions in milliseconds, and orders in the local time of a zone that is seven hours ahead, by its days."""
    for day, shown in by_day(timedelta(hours=7)):
        some = [f"{r.request},c{r.user},s{r.item},{millis(r.at)}" for r in shown]
        lines(root / f"served/{day}.csv", ["request_id,customer,sku,served_ms", *some])
    late = [(r.bought + timedelta(hours=7), r) for r in rows() if r.bought]
    for day in sorted({at.date() for at, _ in late}):
        some = [f"c{r.user},s{r.item},{at:%Y-%m-%d %H:%M:%S}" for at, r in late if at.date() == day]
        lines(root / f"orders/{day}.csv", ["customer,sku,ordered_at", *some])


def small_numbers(root: Path) -> None:
    """Users, items, places and shops are all small numbers, in Parquet with names that say nothing."""

    def write(name: str, **some: list[Any]) -> None:
        instants = {"t": pa.timestamp("us", tz="UTC")}
        columns(root / name, pa.table({key: pa.array(values, instants.get(key)) for key, values in some.items()}))

    for day, shown in by_day():
        ids = {
            f"k{n}": [getattr(r, name) for r in shown] for n, name in enumerate(("request", "user", "item", "place"), 1)
        }
        write(
            f"a/dt={day}/part-0.parquet",
            **ids,
            k5=[r.item % 6 for r in shown],
            t=[r.at.replace(tzinfo=UTC) for r in shown],
        )
        hits = [(r, r.clicked.replace(tzinfo=UTC)) for r in shown if r.clicked]
        at = [clicked for _, clicked in hits]
        write(f"b/dt={day}/part-0.parquet", k1=[r.request for r, _ in hits], k3=[r.item for r, _ in hits], t=at)
    write("c.parquet", k3=list(range(ITEMS)), v=[n / 3 for n in range(ITEMS)])
    write("unrelated.parquet", n=list(range(9)), m=[n * 2.5 for n in range(9)])


SETS = {
    "german": Truth(
        german, ("einblendungen", "klicks", "artikel.csv"), "einblendungen", {"user": "kunde", "item": "art"}, ("klick",),
        "try_to_timestamp(zeit, 'd.M.yyyy H:mm:ss')", views={"artikel": "item"}, more={"impressions.request": "anfrage"},
    ),
    "glued": Truth(
        glued, ("events.csv",), "events", {"user": "visitorid", "item": "itemid"}, ("addtocart", "transaction"),
        "timestamp_millis(timestamp)", never=("transactionid",), dated=False,
    ),
    "nameless": Truth(
        nameless, (".",), "log", {"user": "c2", "item": "c3"}, ("label",), "timestamp_seconds(c1)", views={"artikel": "item"},
    ),
    "digits": Truth(
        digits, ("shown", "taps"), "shown", {"user": "viewer", "item": "obj"}, ("tap",), "timestamp_seconds(t)",
        more={
            "impressions.request": "rid",
            "sources.shown.schema": "rid STRING, viewer STRING, obj STRING, t BIGINT, slot BIGINT",
        },
    ),
    "russian": Truth(
        russian, (".",), "log", {"user": "c2", "item": "c3"}, ("label",), "c1", dated=False, views={"log_2": "item"},
    ),
    "typed": Truth(
        typed, ("shop.inter", "shop.item"), "shop_inter", {"user": "user_id", "item": "item_id"}, ("label",),
        "timestamp_seconds(timestamp)", dated=False, views={"shop_item": "item"},
    ),
    "large_table": Truth(
        large_table, ("impressions", "catalogue.csv"), "impressions", {"user": "member", "item": "sku"}, ("clicked",), "at",
        views={"catalogue": "item"},
    ),
    "outcomes": Truth(
        outcomes, ("log",), "log", {"user": "user_id", "item": "video_id"}, ("is_click", "is_like"),
        "timestamp_millis(time_ms)", never=("is_profile_enter", "stay", "not_now", "session_id"),
    ),
    "invited": Truth(
        invited, ("train.csv",), "train", {"user": "user", "item": "event"}, ("interested",), "timestamp",
        never=("not_interested",), dated=False,
    ),
    "bulk": Truth(
        bulk, ("bulk.ndjson",), "bulk", {"user": "user.id", "item": "product.id"}, ("clicked",), "`@timestamp`", dated=False,
        more={"impressions.where": "`@timestamp` is not null"},
    ),
    "orders": Truth(
        orders, ("served", "orders"), "served", {"user": "customer", "item": "sku"}, ("order",), "timestamp_millis(served_ms)",
        more={"timezone": "Etc/GMT-7"},
    ),
    "small_numbers": Truth(
        small_numbers, ("a", "b", "c.parquet", "unrelated.parquet"), "a", {"user": "k2", "item": "k3"}, ("b",), "t",
        views={"c": "item"}, more={"impressions.request": "k1"},
    ),
}  # fmt: skip
