"""What is true of the logs in ``logs_of_others.py``, and what makes a draft of them right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from tests.starter.logs_of_others import ads, japanese, json_list, orc_maps, polish, turkish


@dataclass(frozen=True)
class Truth:
    """Logs that a function writes below a directory, and what a draft of them asks and must say."""

    write: Callable[[Path], None]
    inputs: tuple[str, ...]
    """What a user names to ``init``."""
    flags: tuple[str, ...]
    """Labels that are true or false."""
    options: dict[str, str] = field(default_factory=dict)
    """What answers the questions of a draft."""
    edits: tuple[str, ...] = ()
    """Keys that a person sets where a draft says TODO."""
    same: dict[str, str] = field(default_factory=dict)
    """Columns of the draft's samples, with those of the samples as pandas makes them."""
    days: tuple[date, date] = (date(2024, 5, 5), date(2024, 5, 6))
    """Two days of which all is known: neither the first nor the last."""
    asks: tuple[str, ...] = ()
    """Options of the questions that the values leave open."""
    lacks: str = ""
    """The column with times that nobody reads without a person."""
    catalog: tuple[str, ...] = ()
    """Statements that make tables of files that the job does not read itself; ``ROOT`` is the directory."""
    never: tuple[str, ...] = ()
    """Columns that no feature may use, because they are known only afterwards."""


_MONTHS = tuple("Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık".split())
MONTH = f"concat(' ', array_position(array{_MONTHS}, split_part(`gösterildiği_an`, ' ', 2)), ' ')"
"""The month of a text such as `28 Nisan 2024`, as a number between spaces."""

SETS = {
    "ads": Truth(
        ads,
        ("buscas", "eventos", "usuarios", "anuncios.parquet", "categorias.csv"),
        ("clique", "contato", "favorito"),
        {"zone": "America/Sao_Paulo"},
        (
            "views.usuarios.publish_delay=4h",
            "views.anuncios.available_after=0s",
            "views.anuncios.closed_available=from_utc_timestamp(valid_to, 'America/Sao_Paulo')",
        ),
        {
            "clique": "clique",
            "contato": "contato",
            "favorito": "favorito",
            "place": "posicao - 1",
            "preco_exibido": "preco_exibido",
            "anuncios_preco": "preco",
            "categorias_comissao": "comissao",
            "categorias_preco_medio": "preco_medio",
        },
        asks=("zone",),
    ),
    "json_list": Truth(
        json_list,
        ("feed.json", "stories.json"),
        ("click",),
        same={"click": "click", "place": "slot", "stories_words": "words"},
        catalog=(
            "CREATE TABLE feed (pageView STRING, shownAt TIMESTAMP, viewer STRUCT<id: STRING, country: STRING>, "
            "card STRUCT<story: BIGINT, slot: INT, layout: STRING>, "
            "click STRUCT<at: TIMESTAMP, target: STRING, dwellMs: BIGINT>) "
            "USING json OPTIONS (multiLine true, path 'ROOT/feed.json')",
        ),
        never=("at", "target", "dwellMs"),
    ),
    "orc_maps": Truth(
        orc_maps,
        ("views", "goods"),
        ("clicked",),
        {"zone": "Asia/Kolkata"},
        same={"clicked": "clicked", "place": "slot", "goods_price": "price"},
    ),
    "polish": Truth(
        polish,
        ("odslony", "klikniecia", "zakupy", "ksiazki.csv"),
        ("klik", "zakup"),
        {"zone": "Europe/Warsaw"},
        ("labels.klikniecia.window=1h", "labels.zakupy.window=2d"),
        {"klikniecia": "klik", "zakupy": "zakup", "place": "miejsce", "ksiazki_cena": "cena"},
        (date(2024, 3, 30), date(2024, 3, 31)),
    ),
    "japanese": Truth(
        japanese,
        ("行動", "商品.csv"),
        ("click", "purchase"),
        {"zone": "Asia/Tokyo", "request": "セッション"},
        ("labels.label.window=30m", "labels.label_2.window=1d", "labels.label_2.match=[[user, item]]"),
        {"label": "click", "label_2": "purchase", "log_2_c3": "price"},
    ),
    "turkish": Truth(
        turkish,
        ("puanlar.jsonl", "filmler.csv"),
        ("begendi",),
        {"label": "puan", "zone": "Europe/Istanbul"},
        (
            f"impressions.time=to_timestamp(regexp_replace(`gösterildiği_an`, ' [^0-9]+ ', {MONTH}), 'd M yyyy HH:mm:ss')",
            "labels.liked.expr=try_cast(replace(puan, ',', '.') as double) >= 4",
        ),
        {"liked": "begendi", "stars": "puan", "filmler_SURE_DK": "sure"},
        (date(2024, 4, 30), date(2024, 5, 1)),
        asks=("label",),
        lacks="gösterildiği_an",
        never=("izleme_süresi_dk",),
    ),
}
