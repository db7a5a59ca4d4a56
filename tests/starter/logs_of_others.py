"""Logs as people of other trades and languages write them.

Each function writes eight days below a directory. ``truths_of_others.py`` says what a draft of them asks and must say, a
configuration written by hand is in ``by_hand/``, and ``samples_of_others.py`` makes their samples without the product.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import orc

from tests.starter.logs_of_anybody import DAYS, FIRST, columns, lines, millis, seconds

ADS, STORIES, GOODS, BOOKS, FILMS = 60, 40, 45, 40, 30


@dataclass
class Shown:
    """An impression: when in UTC, in which request and place, of what to whom."""

    at: datetime
    request: int
    user: int
    item: int
    place: int


def shown(
    dice: random.Random, first: date, requests: int, length: int, users: int, items: int, days: int = DAYS
) -> Iterator[Shown]:
    """Yield so many requests of each day of UTC, each with so many items, in the order of their times."""
    request = 0
    for day in range(days):
        start = datetime(first.year, first.month, first.day) + timedelta(days=day)
        for moment in sorted(dice.sample(range(86_400_000), requests)):
            request += 1
            user = dice.randrange(users)
            for place, item in enumerate(dice.sample(range(items), length)):
                yield Shown(start + timedelta(milliseconds=moment), request, user, item, place)


def days_from(first: date) -> list[date]:
    return [first + timedelta(days=n) for n in range(DAYS)]


def local(at: datetime, zone: str) -> datetime:
    return at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))


def text(path: Path, some: list[str], encoding: str, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in some).encode(encoding))


def packed(path: Path, some: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    every = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in some)
    path.write_bytes(gzip.compress(every.encode(), mtime=0))


# A site of classified ads in São Paulo: searches by the hour of UTC, three kinds of events, users of each day, changing prices.

PRICE = pa.decimal128(10, 2)
AD = pa.struct({"id_anuncio": pa.int64(), "posicao": pa.int32(), "preco_exibido": PRICE, "destaque": pa.bool_()})
SEARCHES = pa.schema(
    {
        "id_busca": pa.string(),
        "id_usuario": pa.int64(),
        "data_hora": pa.timestamp("us"),  # as pandas writes a column without a zone
        "hora_local": pa.string(),
        "user_agent": pa.string(),
        "termo": pa.string(),
        "pagina": pa.int32(),
        "anuncios": pa.list_(AD),
    }
)
AGENTS = ("Mozilla/5.0 (Linux; Android 14)", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4)", "Mozilla/5.0 (X11; Linux)")
TERMS = ("bicicleta", "geladeira", "violão", "sofá", "fogão")


def ads(root: Path) -> None:
    dice = random.Random(11)
    prices = _ad_prices(root, dice)
    searches: dict[tuple[int, int], dict[str, Any]] = {}
    events: list[dict[str, Any]] = []
    for one in shown(dice, FIRST, 90, 6, 90, ADS):
        page, place = divmod(one.place, 4)  # the last two of some searches are on a second page
        if page and one.request % 3:
            continue
        at, ad, search = one.at + timedelta(seconds=47 * page), 70_000 + one.item, f"b{one.request:06x}"
        row: dict[str, Any] = {
            "id_busca": search,
            "id_usuario": None if one.request % 5 == 0 else 1000 + one.user,  # not logged in
            "data_hora": at,
            "hora_local": f"{local(at, 'America/Sao_Paulo'):%d/%m/%Y %H:%M:%S}",
            "user_agent": AGENTS[one.user % 3],
            "termo": TERMS[one.item % 5],
            "pagina": page + 1,
            "anuncios": [],
        }
        row = searches.setdefault((one.request, page), row)
        if one.request % 17 == 0:  # nothing was found
            continue
        price = next(price for since, price in reversed(prices[one.item]) if since <= at)
        ad_shown = {"id_anuncio": ad, "posicao": place + 1, "preco_exibido": price, "destaque": one.item % 7 == 0}
        row["anuncios"].append(ad_shown)
        events += _ad_events(dice, search, ad, at, 0.1 + one.item / 150)
    hours: dict[datetime, list[dict[str, Any]]] = {}
    for row in sorted(searches.values(), key=lambda row: row["data_hora"]):
        hours.setdefault(row["data_hora"].replace(minute=0, second=0, microsecond=0), []).append(row)
    for hour, some in hours.items():
        path = root / f"buscas/ano={hour:%Y}/mes={hour:%m}/dia={hour:%d}/hora={hour:%H}/part-0.parquet"
        columns(path, pa.Table.from_pylist(some, SEARCHES))
    events.sort(key=lambda event: event["ts"])
    for day in days_from(FIRST):
        of_day = [event for event in events if datetime.fromtimestamp(event["ts"] / 1000, UTC).date() == day]
        for part in range(2):
            packed(root / f"eventos/dia={day}/part-{part}.json.gz", of_day[part::2])
    _ad_users(root, dice)
    _ad_categories(root)


def _ad_events(dice: random.Random, search: str, ad: int, at: datetime, chance: float) -> list[dict[str, Any]]:
    """What followed after an ad was shown, and a click in a mail, by somebody who searched nothing."""
    some: list[tuple[str, str | None, datetime]] = []
    if dice.random() < chance:
        clicked = at + timedelta(milliseconds=dice.randrange(5_000, 600_000))
        some.append(("clique", search, clicked))
        if dice.random() < 0.2:
            some.append(("clique", search, clicked + timedelta(milliseconds=310)))  # a double click
        if dice.random() < 0.4:
            some.append(("contato", search, clicked + timedelta(minutes=dice.randrange(1, 50))))
    if dice.random() < 0.08:
        some.append(("favorito", search, at + timedelta(minutes=dice.randrange(1, 1200))))
    if dice.random() < 0.02:
        some.append(("clique", None, at + timedelta(minutes=3)))
    origin = dice.choice(("web", "app"))
    return [
        {"tipo": kind, "id_busca": of, "id_anuncio": ad, "ts": millis(when), "origem": origin}
        for kind, of, when in some
    ]


def _ad_prices(root: Path, dice: random.Random) -> list[list[tuple[datetime, Decimal]]]:
    """Write the history of each ad, and return the prices that searches show, each with the time from which on."""
    begin = datetime(2024, 4, 1)
    names = ("id_anuncio", "titulo", "preco", "estado", "id_categoria", "valid_from", "valid_to")
    table: dict[str, list[Any]] = {name: [] for name in names}
    prices = []
    for ad in range(ADS):
        span = int(timedelta(days=40).total_seconds() * 1000)
        changes = sorted(dice.sample(range(span), ad % 4))
        since = [begin, *(begin + timedelta(milliseconds=change) for change in changes)]
        states = ["ativo"] * len(since)
        if len(since) > 2 and ad % 2:
            states[-1] = "vendido"
        of_ad = [Decimal(100 + 37 * ad - 5 * n) + Decimal("0.90") for n in range(len(since))]
        prices.append(list(zip(since, of_ad, strict=True)))
        for n, (start, price) in enumerate(prices[-1]):
            end = since[n + 1] if n + 1 < len(since) else None
            if end and ad % 5 < 3:  # it ran out and was renewed, while searches still showed it
                end = start + (end - start) / 2
            row = (70_000 + ad, f"Anúncio nº {ad}", price, states[n], 10 + ad % 6, start, end)
            for name, value in zip(table, row, strict=True):
                table[name].append(value)
    at = pa.timestamp("us")
    kinds = {"preco": PRICE, "id_categoria": pa.int32(), "valid_from": at, "valid_to": at}
    arrays = {name: pa.array(some, kinds.get(name)) for name, some in table.items()}
    columns(root / "anuncios.parquet", pa.table(arrays))
    return prices


def _ad_users(root: Path, dice: random.Random) -> None:
    """Write all users of each day as they were when it ended; some joined during the week, and some left."""
    cities = ("São Paulo", "Campinas", "Santos", "Ribeirão Preto")
    for n, day in enumerate(days_from(FIRST)):
        there = [
            user
            for user in range(90)
            if not (user % 10 == 3 and n < user % 8) and not (user % 10 == 7 and n > user % 8)
        ]
        evening = datetime(day.year, day.month, day.day)
        table = {
            "id_usuario": [1000 + user for user in there],
            "cidade": [cities[(user + (n > user % 11)) % 4] for user in there],
            "plano": ["pro" if n >= user % 9 and user % 3 == 0 else "grátis" for user in there],
            "anuncios_ativos": [(user * 7 + n * n) % 12 for user in there],
            "ultimo_acesso": pa.array(
                [evening + timedelta(seconds=dice.randrange(86_400)) for _ in there], pa.timestamp("us")
            ),
        }
        columns(root / f"usuarios/dt={day}/part-0.parquet", pa.table(table))


def _ad_categories(root: Path) -> None:
    names = ("Imóveis", "Veículos", "Eletrônicos", "Móveis", "Instrumentos", "Serviços")
    some = [
        f"{10 + n};{name};{n + 1},{5 * n:02};{n + 1}.{123 + n},5{n};{1 + 3 * n:02}.{1 + n % 4:02}.2024"
        for n, name in enumerate(names)
    ]
    text(root / "categorias.csv", ["código;nome;comissão (%);preço médio;atualizada em", *some], "ISO-8859-1", "\r\n")


# A feed of stories whose log is one JSON array over many lines, with the click inside the impression.


def json_list(root: Path) -> None:
    dice, feed = random.Random(12), []

    def instant(at: datetime) -> str:
        return f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"

    for one in shown(dice, FIRST, 60, 4, 120, STORIES):
        click = None
        if dice.random() < 0.08 + one.item / 120:
            at = instant(one.at + timedelta(milliseconds=dice.randrange(2_000, 90_000)))
            click = {"at": at, "target": dice.choice(("title", "image")), "dwellMs": dice.randrange(1_000, 240_000)}
        viewer = {"id": f"u{one.user}", "country": ("GB", "IE", "US")[one.user % 3]}
        card = {"story": 500 + one.item, "slot": one.place, "layout": ("wide", "small")[one.place % 2]}
        request = {"pageView": f"pv-{one.request}", "shownAt": instant(one.at)}
        feed.append({**request, "viewer": viewer, "card": card, "click": click})
    lines(root / "feed.json", [json.dumps(feed, indent=2)])
    topics = ("sport", "politics", "culture")
    stories = [
        {"id": 500 + n, "topic": topics[n % 3], "words": 200 + 31 * n, "authors": [f"a{n % 5}", f"a{n % 7}"]}
        for n in range(STORIES)
    ]
    lines(root / "stories.json", [json.dumps(stories)])  # all in one line


# A Hive table in ORC with maps in maps, local times of a zone with half an hour, and a table of goods whose rows arrive late.


def orc_maps(root: Path) -> None:
    dice, zone = random.Random(13), "Asia/Kolkata"
    topics = {"sport": ("cricket", "hockey"), "film": ("drama", "comedy"), "home": ("garden", "kitchen")}
    tastes = {
        user: {
            topic: {kind: round(dice.random(), 3) for kind in some if dice.random() < 0.8}
            for topic, some in topics.items()
            if dice.random() < 0.8
        }
        for user in range(80)
    }
    kinds: dict[str, pa.DataType] = {
        "uid": pa.string(),
        "attrs": pa.map_(pa.string(), pa.string()),
        "tastes": pa.map_(pa.string(), pa.map_(pa.string(), pa.float64())),
        "sku": pa.int64(),
        "at": pa.timestamp("us"),  # Hive's timestamp: what the clocks showed
        "event_ms": pa.int64(),
        "slot": pa.int32(),
        "clicked": pa.int8(),
    }
    days: dict[date, list[tuple[Any, ...]]] = {}
    for one in shown(dice, FIRST - timedelta(days=1), 90, 4, 80, GOODS, DAYS + 1):
        wall = local(one.at, zone).replace(tzinfo=None)
        attrs = {"city": ("Pune", "Delhi", "Kochi")[one.user % 3], **({"plan": "gold"} if one.user % 4 == 0 else {})}
        clicked = dice.random() < 0.1 + tastes[one.user].get("sport", {}).get("cricket", 0) / 5
        row = (f"U{one.user}", attrs, tastes[one.user], 3000 + one.item, wall, millis(one.at), one.place, int(clicked))
        days.setdefault(wall.date(), []).append(row)
    for day in days_from(FIRST):
        names = dict(zip(kinds, zip(*days[day], strict=True), strict=True))
        maps = {
            "attrs": [list(one.items()) for one in names["attrs"]],
            "tastes": [[(k, list(v.items())) for k, v in one.items()] for one in names["tastes"]],
        }
        table = pa.table({name: pa.array(maps.get(name, list(some)), kinds[name]) for name, some in names.items()})
        columns(root / f"views/ds={day:%Y%m%d}/000000_0", table, orc.write_table)
    _goods(root, dice, topics)


def _goods(root: Path, dice: random.Random, topics: dict[str, tuple[str, ...]]) -> None:
    instant = pa.timestamp("us", tz="UTC")
    rows = []
    for good in range(GOODS):
        topic = list(topics)[good % 3]
        changed = datetime(2024, 4, 1)
        for version in range(1 + good % 4):
            tags = [("new", 1.0 - version / 4), (topic, 0.5), (f"t{good % 6}", round(dice.random(), 2))]
            loaded = changed + timedelta(
                minutes=dice.randrange(20, 2000)
            )  # a change may be loaded after the one that followed it
            rows.append(
                (3000 + good, topic, topics[topic][good % 2], 99.0 + 10 * good + version, tags, changed, loaded)
            )
            changed = datetime(2024, 5, 3) + timedelta(milliseconds=dice.randrange(7 * 86_400_000))
    names = ("sku", "topic", "kind", "price", "tags", "changed_at", "loaded_at")
    kinds = {"tags": pa.map_(pa.string(), pa.float64()), "changed_at": instant, "loaded_at": instant}
    some = {
        name: pa.array(list(values), kinds.get(name))
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    columns(root / "goods/000000_0", pa.table(some), orc.write_table)


# A Polish bookshop over the night in which the clocks go forward: windows-1250, semicolons, prices such as `1 039,90 zł`.

SPRING = date(2024, 3, 28)


def polish(root: Path) -> None:
    dice, zone = random.Random(14), "Europe/Warsaw"
    seen: dict[date, list[str]] = {day: [] for day in days_from(SPRING)}
    clicks: dict[date, list[tuple[int, str]]] = {day: [] for day in days_from(SPRING)}
    bought: dict[date, list[tuple[datetime, str]]] = {day: [] for day in days_from(SPRING)}
    for one in shown(dice, SPRING, 80, 4, 50, BOOKS):
        at = one.at.replace(microsecond=0)
        wall, book, list_id = local(at, zone), f"K/{one.item:03}", f"{one.request:05}"
        if wall.date() not in seen:
            continue
        source = ("e-mail", "wyszukiwarka", "półka „Nowości”")[one.request % 3]
        seen[wall.date()].append(f"{list_id};u{one.user};{book};{wall:%d.%m.%Y %H:%M:%S};{one.place + 1};{source}")
        if dice.random() > 0.12 + one.item / 120:
            continue
        clicked = at + timedelta(seconds=dice.randrange(5, 900))
        if (day := local(clicked, zone).date()) in clicks:
            clicks[day].append((seconds(clicked), f"{list_id};{book};{seconds(clicked)}"))
        paid = local(clicked + timedelta(minutes=dice.randrange(2, 2000)), zone)
        if dice.random() < 0.35 and paid.date() in bought:
            bought[paid.date()].append((paid, f"u{one.user};{book};{paid:%Y-%m-%d %H:%M};{30 + one.item},90"))
    write = partial(text, encoding="windows-1250", end="\r\n")
    for day in days_from(SPRING):
        write(root / f"odslony/odslony_{day:%Y%m%d}.csv", ["lista;użytkownik;książka;czas;miejsce;źródło", *seen[day]])
        write(
            root / f"klikniecia/klikniecia_{day:%Y%m%d}.csv",
            ["lista;książka;znacznik", *[row for _, row in sorted(clicks[day])]],
        )
        write(
            root / f"zakupy/zakupy_{day:%Y%m%d}.csv",
            ["użytkownik;książka;zapłacono;kwota", *[row for _, row in sorted(bought[day])]],
        )
    kinds = ("powieść", "kryminał", "poezja", "dla dzieci")
    prices = [f"{30 + n},90 zł" if n % 8 else f"1\u00a0{30 + n:03},90 zł" for n in range(BOOKS)]
    some = [
        f'K/{n:03};"Książka {n}; wyd. {1 + n % 3}";{kinds[n % 4]};{prices[n]};{1990 + n % 30}' for n in range(BOOKS)
    ]
    write(root / "ksiazki.csv", ["książka;tytuł;gatunek;cena;rok", *some])


# A Japanese shop: one log of what was shown, clicked and bought, in the code page of Windows, named after days with 年月日.


def japanese(root: Path) -> None:
    dice, zone = random.Random(15), "Asia/Tokyo"
    days: dict[date, list[tuple[datetime, str]]] = {day: [] for day in days_from(FIRST)}

    def row(at: datetime, user: str, visit: str, item: str, kind: str, slot: str = "") -> None:
        wall = local(at, zone)
        if wall.date() in days:
            written = f"{wall.year}年{wall:%m}月{wall:%d}日 {wall:%H}時{wall:%M}分{wall:%S}秒"
            days[wall.date()].append((at, f"{written},{user},{visit},{item},{kind},{slot}"))

    for one in shown(dice, FIRST - timedelta(days=1), 70, 5, 60, GOODS, DAYS + 1):
        at = one.at.replace(microsecond=0)
        user = "" if one.user % 6 == 0 else f"{100_000 + one.user}"  # no member
        visit, item = (
            f"s{one.user}-{at:%d}{at.hour // 6}",
            f"髙{one.item:02}" if one.item % 9 == 0 else f"A{one.item:02}",
        )
        row(at, user, visit, item, "表示", f"枠{'①②③④⑤'[one.place]}")
        if dice.random() < 0.1 + one.item / 130:
            clicked = at + timedelta(seconds=dice.randrange(5, 600))
            row(clicked, user, visit, item, "クリック")
            if user and dice.random() < 0.4:
                later = clicked + timedelta(minutes=dice.randrange(1, 1300))
                row(later, user, f"s{one.user}-{later:%d}{later.hour // 6}", item, "購入")
    for day, some in days.items():
        path = root / f"行動/{day.year}年{day:%m}月{day:%d}日.csv"
        header = "日時,会員番号,セッション,商品コード,種別,表示枠"
        text(path, [header, *[one for _, one in sorted(some, key=lambda pair: pair[0])]], "cp932", "\r\n")
    codes = [f"髙{n:02}" if n % 9 == 0 else f"A{n:02}" for n in range(GOODS)]
    some_goods = [
        f'{code},"能登の器 ～{n}号～","{1 + n % 3},{n * 17 % 1000:03}",{2020 + n % 4}年{1 + n % 12}月{1 + n % 28}日'
        for n, code in enumerate(codes)
    ]
    text(root / "商品.csv", ["商品コード,商品名,価格(円),発売日", *some_goods], "cp932", "\r\n")


# Ratings of a Turkish film club: one file of JSON lines, months in words, decimal commas, and names with İ and ı.


def turkish(root: Path) -> None:
    dice, zone = random.Random(16), "Europe/Istanbul"
    first = date(2024, 4, 27)  # so that there are two months
    rows = []
    for one in shown(dice, first, 100, 3, 70, FILMS):
        wall = local(one.at, zone)
        watched = dice.random() < 0.6
        grade = min(10, max(1, round(dice.gauss(4 + one.item / 6, 2)))) / 2 if watched and dice.random() < 0.8 else None
        rows.append(
            {
                "İzleyici": f"ü{one.user}",
                "film_kodu": f"tt{900 + one.item}",
                "sıra": one.place + 1,
                "gösterildiği_an": f"{wall.day} {('Nisan', 'Mayıs')[wall.month - 4]} {wall:%Y %H:%M:%S}",
                "puan": None if grade is None else f"{grade:.1f}".replace(".", ","),
                "izleme_süresi_dk": dice.randrange(5, 140) if watched else 0,
            }
        )
    lines(root / "puanlar.jsonl", [json.dumps(row, ensure_ascii=False) for row in rows])
    kinds = ("dram", "komedi", "kısa film", "ışık oyunu")
    films = [f"tt{900 + n};Film {n};{kinds[n % 4]};{1960 + n};{80 + n * 3 % 70},5" for n in range(FILMS)]
    text(root / "filmler.csv", ["KOD;ADI;TÜR;YILI;SÜRE (DK)", *films], "utf-8-sig", "\r\n")
