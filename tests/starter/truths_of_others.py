"""What is true of the logs in ``logs_of_others.py``: what a configuration of them must say, and what only a person can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from tests.starter.logs_of_others import ads, japanese, json_list, orc_maps, polish, turkish


@dataclass(frozen=True)
class Label:
    """Rows of a source that are actions, or the impression's own row, which says it."""

    source: str
    rows: str
    """Which rows are these actions; of the impression's own row the condition, or the number with a mask."""
    time: str = ""
    match: tuple[tuple[str, ...], ...] = ()
    """Sets of keys that find the impression. Empty for a label of the row."""
    keys: dict[str, str] = field(default_factory=dict)
    """The keys of an action, where their log is not that of the impressions."""
    number: bool = False


@dataclass(frozen=True)
class Around:
    """A table around the log: what it is joined on, by which column, and what its rows and times mean."""

    source: str
    on: str
    key: str
    kind: Literal["static", "events", "snapshot", "validity"]
    times: dict[str, str] = field(default_factory=dict)
    """Expressions by the keys of a view."""


@dataclass(frozen=True)
class Drafted:
    """What makes a draft right: options that answer its questions, and keys that a person sets where it says TODO."""

    options: dict[str, str]
    edits: tuple[str, ...]
    same: dict[str, str]
    """Columns of the draft's samples, with those of the samples as pandas makes them."""
    asks: tuple[str, ...] = ()
    """Options of the questions that the values leave open."""
    lacks: str = ""
    """The column with times that nobody reads without a person."""


@dataclass(frozen=True)
class Truth:
    """Logs that a function writes below a directory, and what a configuration of them must say."""

    write: Callable[[Path], None]
    inputs: tuple[str, ...]
    """What a user names to ``init``."""
    source: str
    keys: dict[str, str]
    """``user``, ``item``, ``request`` where there is one, and more."""
    time: str
    instant: str
    """What the time of an impression is, in words."""
    zone: str
    """The zone of days and of times without one."""
    labels: dict[str, Label]
    tables: dict[str, Around]
    drafted: Drafted
    days: tuple[date, date]
    """Two days of which all is known: neither the first nor the last."""
    where: str = ""
    exploded: str = ""
    """The list of which each element is an impression."""
    catalog: tuple[str, ...] = ()
    """Statements that make tables of files that the job does not read itself; ``ROOT`` is the directory."""
    never: tuple[str, ...] = ()
    """Columns that no feature may use, because they are known only afterwards."""
    asks: dict[str, str] = field(default_factory=dict)
    """What the values do not tell, and what a person who knows the logs answers."""


def _event(kind: str) -> Label:
    return Label(
        "eventos",
        f"tipo = '{kind}'",
        "timestamp_millis(ts)",
        (("request", "item"),),
        {"request": "id_busca", "item": "id_anuncio"},
    )


_MONTHS = (
    "Ocak",
    "Şubat",
    "Mart",
    "Nisan",
    "Mayıs",
    "Haziran",
    "Temmuz",
    "Ağustos",
    "Eylül",
    "Ekim",
    "Kasım",
    "Aralık",
)
MONTH = f"concat(' ', array_position(array{_MONTHS}, split_part(`gösterildiği_an`, ' ', 2)), ' ')"
"""The month of a text such as `28 Nisan 2024`, as a number between spaces."""
FROM_UTC = "from_utc_timestamp({}, 'America/Sao_Paulo')"

SETS = {
    "ads": Truth(
        ads,
        ("buscas", "eventos", "usuarios", "anuncios.parquet", "categorias.csv"),
        "buscas",
        {"user": "id_usuario", "item": "anuncio.id_anuncio", "request": "id_busca"},
        FROM_UTC.format("data_hora"),
        "UTC without a zone: three hours ahead of hora_local in each row, and a little before the events of the same search",
        "America/Sao_Paulo",
        {kind: _event(kind) for kind in ("clique", "contato", "favorito")},
        {
            "usuario": Around("usuarios", "user", "id_usuario", "snapshot", {"snapshot": "dt", "publish_delay": "4h"}),
            "anuncio": Around(
                "anuncios", "item", "id_anuncio", "validity",
                {"event_time": FROM_UTC.format("valid_from"), "valid_to": FROM_UTC.format("valid_to")},
            ),
            "categoria": Around("categorias", "anuncio.id_categoria", "codigo", "static"),
        },
        Drafted(
            {"zone": "America/Sao_Paulo"},
            ("views.usuarios.publish_delay=4h", "views.anuncios.available_after=0s",
                f"views.anuncios.closed_available={FROM_UTC.format('valid_to')}"),
            {
                "clique": "clique", "contato": "contato", "favorito": "favorito", "place": "posicao - 1",
                "preco_exibido": "preco_exibido", "anuncios_preco": "preco", "categorias_comissao": "comissao",
                "categorias_preco_medio": "preco_medio",
            },
            asks=("zone",),
        ),
        (date(2024, 5, 5), date(2024, 5, 6)),
        exploded="anuncios",
        asks={
            "Whose days are the samples of: the site's, or those of the directories?": "those of America/Sao_Paulo",
            "Which zone is three hours behind UTC?": "America/Sao_Paulo",
            "When is the table of users of a day there?": "at four in the next night",
            "When is a change of an ad known?": "at once",
            "How long after a search do clique, contato and favorito count?": "a day",
            "What are events without id_busca?": "clicks in mails, which belong to no search",
            "Does categorias.csv change?": "hardly ever",
        },
    ),
    "json_list": Truth(
        json_list,
        ("feed.json", "stories.json"),
        "feed",
        {"user": "viewer.id", "item": "card.story", "request": "pageView"},
        "shownAt",
        "ISO 8601 with Z",
        "UTC",
        {"click": Label("feed", "click is not null"), "dwell_ms": Label("feed", "click.dwellMs", number=True)},
        {"story": Around("stories", "item", "story.id", "static")},
        Drafted({}, (), {"click": "click", "place": "slot", "stories_words": "words"}),
        (date(2024, 5, 5), date(2024, 5, 6)),
        catalog=(
            "CREATE TABLE feed (pageView STRING, shownAt TIMESTAMP, viewer STRUCT<id: STRING, country: STRING>, "
            "card STRUCT<story: BIGINT, slot: INT, layout: STRING>, "
            "click STRUCT<at: TIMESTAMP, target: STRING, dwellMs: BIGINT>) "
            "USING json OPTIONS (multiLine true, path 'ROOT/feed.json')",
        ),
        never=("at", "target", "dwellMs"),
        asks={
            "Whose days are the samples of?": "those of UTC",
            "Is it to be read as a table of the catalog, or made into lines?": "as a table",
            "Does stories.json change?": "no",
        },
    ),
    "orc_maps": Truth(
        orc_maps,
        ("views", "goods"),
        "views",
        {"user": "uid", "item": "sku"},
        "timestamp_millis(event_ms)",
        "milliseconds since 1970; `at` is the same instant as the clocks of Asia/Kolkata show it",
        "Asia/Kolkata",
        {"clicked": Label("views", "clicked")},
        {"good": Around("goods", "item", "sku", "events", {"event_time": "changed_at", "available_time": "loaded_at"})},
        Drafted({"zone": "Asia/Kolkata"}, (), {"clicked": "clicked", "place": "slot", "goods_price": "price"}),
        (date(2024, 5, 5), date(2024, 5, 6)),
        asks={"Which zone is five and a half hours ahead of UTC?": "Asia/Kolkata"},
    ),
    "polish": Truth(
        polish,
        ("odslony", "klikniecia", "zakupy", "ksiazki.csv"),
        "odslony",
        {"user": "`użytkownik`", "item": "`książka`", "request": "lista"},
        "to_timestamp(czas, 'dd.MM.yyyy HH:mm:ss')",
        "what the clocks showed: an hour ahead of the clicks' UTC until 31 March, then two",
        "Europe/Warsaw",
        {
            "klik": Label(
                "klikniecia", "", "timestamp_seconds(znacznik)", (("request", "item"),),
                {"request": "lista", "item": "`książka`"},
            ),
            "zakup": Label(
                "zakupy", "", "to_timestamp(`zapłacono`, 'yyyy-MM-dd HH:mm')", (("user", "item"),),
                {"user": "`użytkownik`", "item": "`książka`"},
            ),
        },
        {"book": Around("ksiazki", "item", "`książka`", "static")},
        Drafted(
            {"zone": "Europe/Warsaw"}, ("labels.klikniecia.window=1h", "labels.zakupy.window=2d"),
            {"klikniecia": "klik", "zakupy": "zakup", "place": "miejsce", "ksiazki_cena": "cena"},
        ),
        (date(2024, 3, 30), date(2024, 3, 31)),
        asks={
            "Which zone is an hour ahead of UTC in winter and two in summer?": "Europe/Warsaw",
            "How long after it was shown may a book be bought?": "two days",
        },
    ),
    "japanese": Truth(
        japanese,
        ("行動", "商品.csv"),
        "log",
        {"user": "`会員番号`", "item": "`商品コード`", "session": "`セッション`"},
        "to_timestamp(`日時`, 'yyyy年MM月dd日 HH時mm分ss秒')",
        "what the clocks showed; files are days of the same clocks",
        "Asia/Tokyo",
        {
            "click": Label("log", "`種別` = 'クリック'", match=(("session", "item"),)),
            "purchase": Label("log", "`種別` = '購入'", match=(("user", "item"),)),
        },
        {"good": Around("goods", "item", "code", "static")},
        Drafted(
            {"zone": "Asia/Tokyo", "request": "セッション"},
            ("labels.label.window=30m", "labels.label_2.window=1d", "labels.label_2.match=[[user, item]]"),
            {"label": "click", "label_2": "purchase", "log_2_c3": "price"},
        ),
        (date(2024, 5, 5), date(2024, 5, 6)),
        where="`種別` = '表示'",
        asks={
            "In which zone are the times?": "Asia/Tokyo",
            "How long after it was shown may something be bought?": "a day, also in another session",
        },
    ),
    "turkish": Truth(
        turkish,
        ("puanlar.jsonl", "filmler.csv"),
        "puanlar",
        {"user": "`İzleyici`", "item": "film_kodu"},
        f"to_timestamp(regexp_replace(`gösterildiği_an`, ' [^0-9]+ ', {MONTH}), 'd M yyyy HH:mm:ss')",
        "what the clocks showed, with the month in words",
        "Europe/Istanbul",
        {
            "begendi": Label("puanlar", "double(replace(puan, ',', '.')) >= 4"),
            "puan": Label("puanlar", "double(replace(puan, ',', '.'))", number=True),
        },
        {"film": Around("filmler", "item", "kod", "static")},
        Drafted(
            {"label": "puan", "zone": "Europe/Istanbul"},
            (
                f"impressions.time=to_timestamp(regexp_replace(`gösterildiği_an`, ' [^0-9]+ ', {MONTH}), 'd M yyyy HH:mm:ss')",
                "labels.liked.expr=try_cast(replace(puan, ',', '.') as double) >= 4",
            ),
            {"liked": "begendi", "stars": "puan", "filmler_SURE_DK": "sure"},
            asks=("label",),
            lacks="gösterildiği_an",
        ),
        (date(2024, 4, 30), date(2024, 5, 1)),
        never=("izleme_süresi_dk",),
        asks={
            "In which zone are the times?": "Europe/Istanbul",
            "From which grade on is a film liked?": "from 4",
            "What is a film without a grade?": "one that was shown and not graded",
        },
    ),
}  # fmt: skip
