"""The samples of the logs in ``logs_of_others.py``, made from the files by pandas alone: no module of the product is used.

Each function returns the samples of one day, a row for each, in the columns of the configuration in ``by_hand/``. Times are
milliseconds since 1970.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pandas as pd
from pyarrow import orc

HOUR = 3_600_000
DAY = 24 * HOUR


def to_millis(times: pd.Series) -> pd.Series:
    """Times with a zone as milliseconds."""
    return times.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ms]").astype("int64")


def of_day(rows: pd.DataFrame, zone: str, day: date) -> pd.DataFrame:
    """The rows whose ``at`` is on a day of a zone."""
    return rows[pd.to_datetime(rows["at"], unit="ms", utc=True).dt.tz_convert(zone).dt.date == day].reset_index(
        drop=True
    )


def followed(impressions: pd.DataFrame, actions: pd.DataFrame, keys: Sequence[str], window: int) -> set[int]:
    """The indices of impressions that are the last one before an action with the same keys, and not long before it."""
    by = list(keys)
    left = actions.dropna(subset=by)[[*by, "when"]].sort_values("when")
    right = impressions.dropna(subset=by)[[*by, "at"]].reset_index().sort_values("at")
    found = pd.merge_asof(left, right, left_on="when", right_on="at", by=by, tolerance=window).dropna(subset=["index"])
    return set(found["index"].astype(int))


def labelled(impressions: pd.DataFrame, **found: set[int]) -> pd.DataFrame:
    return impressions.assign(**{name: impressions.index.isin(list(some)).astype(int) for name, some in found.items()})


def as_of(
    impressions: pd.DataFrame,
    rows: pd.DataFrame,
    key: str,
    true: str,
    known: str | None = None,
    until: str | None = None,
) -> pd.DataFrame:
    """Join the row of the key that became true last, of those that were true and known before the impression and had not
    ended.
    """
    pairs = impressions.reset_index().merge(rows, on=key)
    there = pairs[true] < pairs["at"]
    if known is not None:
        there &= pairs[known] <= pairs["at"]
    if until is not None:
        there &= ~(pairs[until] < pairs["at"])  # a row without an end stays
    last = pairs[there].sort_values(true).groupby("index").tail(1).set_index("index")
    return impressions.join(last[[name for name in rows.columns if name != key]])


def csv(path: Path, encoding: str, delimiter: str = ",", **options: object) -> pd.DataFrame:
    return pd.read_csv(path, sep=delimiter, encoding=encoding, dtype=str, keep_default_na=False, **options)  # type: ignore[call-overload, no-any-return]


def ads(root: Path, day: date) -> pd.DataFrame:
    zone = "America/Sao_Paulo"
    parts = [pd.read_parquet(file) for file in sorted((root / "buscas").rglob("*.parquet"))]
    searches = pd.concat(parts).explode("anuncios").dropna(subset=["anuncios"]).reset_index(drop=True)
    ads = pd.DataFrame(list(searches["anuncios"]))
    rows = pd.DataFrame(
        {
            "request": searches["id_busca"],
            "user": searches["id_usuario"],
            "item": ads["id_anuncio"],
            "at": searches["data_hora"].astype("datetime64[ms]").astype("int64"),
            "pagina": searches["pagina"],
            "posicao": ads["posicao"],
            "preco_exibido": ads["preco_exibido"].astype(float),
            "destaque": ads["destaque"].astype(int),
        }
    )
    # The text says the same as the instant.
    assert (
        pd.to_datetime(searches["hora_local"], format="%d/%m/%Y %H:%M:%S").dt.tz_localize(zone).pipe(to_millis)
        == rows["at"] // 1000 * 1000
    ).all()
    lines = [
        json.loads(line)
        for file in sorted((root / "eventos").rglob("*.gz"))
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    events = pd.DataFrame(lines).rename(columns={"id_busca": "request", "id_anuncio": "item", "ts": "when"})
    kinds = {kind: followed(rows, some, ("request", "item"), DAY) for kind, some in events.groupby("tipo")}
    rows = of_day(labelled(rows, **kinds), zone, day)

    snapshots = []
    for file in sorted((root / "usuarios").rglob("*.parquet")):
        over = pd.Timestamp(file.parent.name.removeprefix("dt=")).tz_localize(zone) + pd.Timedelta(days=1)
        snapshots.append((int(over.timestamp() * 1000), pd.read_parquet(file)))

    def user_of(row: pd.Series) -> pd.Series:
        """The user in the latest table that was there four hours after its day, if it is not older than three days."""
        over, table = max(
            (one for one in snapshots if one[0] + 4 * HOUR <= row["at"]), key=lambda one: one[0], default=(0, None)
        )
        found = table[table["id_usuario"] == row["user"]] if table is not None and row["at"] - over <= 3 * DAY else ()
        return (
            found.iloc[0][["cidade", "plano", "anuncios_ativos"]]
            if len(found)
            else pd.Series(["", "", -1], ["cidade", "plano", "anuncios_ativos"])
        )

    rows = rows.join(rows.apply(user_of, axis=1))
    prices = pd.read_parquet(root / "anuncios.parquet").rename(columns={"id_anuncio": "item"})
    ends = prices["valid_to"].isna()
    for name in ("valid_from", "valid_to"):
        prices[name] = prices[name].astype("datetime64[ms]").astype("int64")
    prices["valid_to"] = prices["valid_to"].where(~ends)
    rows = as_of(rows, prices, "item", "valid_from", until="valid_to")
    categories = csv(root / "categorias.csv", "iso-8859-1", ";").set_index("código")
    its = categories.reindex(rows["id_categoria"].map("{:.0f}".format)).reset_index()  # nothing where the ad has ended
    local = pd.to_datetime(rows["at"], unit="ms", utc=True).dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
    rows["user"] = rows["user"].fillna(0).astype(int)
    return rows.assign(
        preco=rows["preco"].astype(float).fillna(0),
        estado=rows["estado"].fillna(""),
        categoria=its["nome"].fillna(""),
        comissao=its["comissão (%)"].str.replace(",", ".").astype(float).fillna(0),
        preco_medio=its["preço médio"].str.replace(".", "").str.replace(",", ".").astype(float).fillna(0),
        dias_da_categoria=(local - pd.to_datetime(its["atualizada em"], format="%d.%m.%Y"))
        .dt.days.fillna(0)
        .astype(int),
    ).drop(columns=["titulo", "id_categoria", "valid_from", "valid_to"])


def json_list(root: Path, day: date) -> pd.DataFrame:
    feed = pd.json_normalize(json.loads((root / "feed.json").read_text()), max_level=0)
    viewer, card = pd.DataFrame(list(feed["viewer"])), pd.DataFrame(list(feed["card"]))
    clicks = [click or {} for click in feed["click"]]
    stories = (
        pd.DataFrame(json.loads((root / "stories.json").read_text())).set_index("id").loc[card["story"]].reset_index()
    )
    rows = pd.DataFrame(
        {
            "request": feed["pageView"],
            "user": viewer["id"],
            "item": card["story"],
            "at": to_millis(pd.to_datetime(feed["shownAt"])),
            "slot": card["slot"],
            "country": viewer["country"],
            "layout": card["layout"],
            "topic": stories["topic"],
            "words": stories["words"],
            "first_author": stories["authors"].str[0],
            "click": [int(bool(click)) for click in clicks],
            "dwell_ms": [click.get("dwellMs", 0) for click in clicks],
            "dwell_ms__mask": [int("dwellMs" in click) for click in clicks],
        }
    )
    return of_day(rows, "UTC", day)


def orc_maps(root: Path, day: date) -> pd.DataFrame:
    views = pd.concat([orc.read_table(file).to_pandas() for file in sorted((root / "views").rglob("0*"))]).reset_index(
        drop=True
    )
    local = views["at"].dt.tz_localize("Asia/Kolkata")
    assert (to_millis(local) == views["event_ms"]).all()
    attrs, tastes = views["attrs"].map(dict), [{topic: dict(kinds) for topic, kinds in one} for one in views["tastes"]]
    rows = pd.DataFrame(
        {
            "user": views["uid"],
            "item": views["sku"],
            "at": views["event_ms"],
            "slot": views["slot"],
            "city": attrs.map(lambda one: one["city"]),
            "plan": attrs.map(lambda one: one.get("plan", "")),
            "tastes": tastes,
            "clicked": views["clicked"],
        }
    )
    goods = orc.read_table(root / "goods/000000_0").to_pandas().rename(columns={"sku": "item"})
    goods["true"], goods["known"] = to_millis(goods["changed_at"]), to_millis(goods["loaded_at"])
    goods["new"] = [dict(tags)["new"] for tags in goods["tags"]]
    rows = as_of(of_day(rows, "Asia/Kolkata", day), goods, "item", "true", known="known")
    taste = [
        tastes.get(topic, {}).get(kind, -1.0)
        for tastes, topic, kind in zip(rows["tastes"], rows["topic"], rows["kind"], strict=True)
    ]
    rows = rows.assign(taste=taste, topics=rows["tastes"].map(sorted))
    return rows.drop(columns=["tastes", "kind", "tags", "changed_at", "loaded_at", "true", "known"])


def polish(root: Path, day: date) -> pd.DataFrame:
    zone = "Europe/Warsaw"

    def log(name: str) -> pd.DataFrame:
        return pd.concat(
            [csv(file, "windows-1250", ";") for file in sorted((root / name).iterdir())], ignore_index=True
        )

    shown, clicks, bought = log("odslony"), log("klikniecia"), log("zakupy")
    rows = pd.DataFrame(
        {
            "request": shown["lista"],
            "user": shown["użytkownik"],
            "item": shown["książka"],
            "at": to_millis(pd.to_datetime(shown["czas"], format="%d.%m.%Y %H:%M:%S").dt.tz_localize(zone)),
            "miejsce": shown["miejsce"].astype(int),
            "zrodlo": shown["źródło"],
        }
    )
    clicks = clicks.rename(columns={"lista": "request", "książka": "item"}).assign(
        when=clicks["znacznik"].astype("int64") * 1000
    )
    paid = to_millis(pd.to_datetime(bought["zapłacono"], format="%Y-%m-%d %H:%M").dt.tz_localize(zone))
    bought = bought.rename(columns={"użytkownik": "user", "książka": "item"}).assign(when=paid)
    klik = followed(rows, clicks, ("request", "item"), HOUR)
    zakup = followed(rows, bought, ("user", "item"), 2 * DAY)
    rows = of_day(labelled(rows, klik=klik, zakup=zakup), zone, day)
    books = csv(root / "ksiazki.csv", "windows-1250", ";").set_index("książka").loc[rows["item"]].reset_index()
    price = books["cena"].str.removesuffix(" zł").str.replace("\u00a0", "").str.replace(",", ".").astype(float)
    return rows.assign(tytul=books["tytuł"], gatunek=books["gatunek"], cena=price, rok=books["rok"].astype(int))


def japanese(root: Path, day: date) -> pd.DataFrame:
    zone = "Asia/Tokyo"
    log = pd.concat([csv(file, "cp932") for file in sorted((root / "行動").iterdir())], ignore_index=True)
    names = {"会員番号": "user", "セッション": "session", "商品コード": "item", "表示枠": "slot"}
    log = log.rename(columns=names).replace({"user": {"": None}})
    log["when"] = to_millis(pd.to_datetime(log["日時"], format="%Y年%m月%d日 %H時%M分%S秒").dt.tz_localize(zone))
    rows = (
        log[log["種別"] == "表示"].rename(columns={"when": "at"}).drop(columns=["日時", "種別"]).reset_index(drop=True)
    )
    click = followed(rows, log[log["種別"] == "クリック"], ("session", "item"), HOUR // 2)
    purchase = followed(rows, log[log["種別"] == "購入"], ("user", "item"), DAY)
    rows = of_day(labelled(rows, click=click, purchase=purchase), zone, day).fillna({"user": ""})
    goods = csv(root / "商品.csv", "cp932").set_index("商品コード").loc[rows["item"]].reset_index()
    local = pd.to_datetime(rows["at"], unit="ms", utc=True).dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
    return rows.assign(
        name=goods["商品名"],
        price=goods["価格(円)"].str.replace(",", "").astype(float),
        days_on_sale=(local - pd.to_datetime(goods["発売日"], format="%Y年%m月%d日")).dt.days,
    )


def turkish(root: Path, day: date) -> pd.DataFrame:
    zone = "Europe/Istanbul"
    log = pd.DataFrame([json.loads(line) for line in (root / "puanlar.jsonl").read_text(encoding="utf-8").splitlines()])
    written = log["gösterildiği_an"].str.replace("Nisan", "04").str.replace("Mayıs", "05")
    grade = log["puan"].str.replace(",", ".").astype(float)
    rows = pd.DataFrame(
        {
            "user": log["İzleyici"],
            "item": log["film_kodu"],
            "at": to_millis(pd.to_datetime(written, format="%d %m %Y %H:%M:%S").dt.tz_localize(zone)),
            "sira": log["sıra"],
            "begendi": (grade >= 4).astype(int),
            "puan": grade.fillna(0),
            "puan__mask": grade.notna().astype(int),
        }
    )
    rows = of_day(rows, zone, day)
    films = csv(root / "filmler.csv", "utf-8-sig", ";").set_index("KOD").loc[rows["item"]].reset_index()
    length = films["SÜRE (DK)"].str.replace(",", ".").astype(float)
    return rows.assign(adi=films["ADI"], tur=films["TÜR"], yili=films["YILI"].astype(int), sure=length)


SAMPLES: dict[str, Callable[[Path, date], pd.DataFrame]] = {
    "ads": ads, "json_list": json_list, "orc_maps": orc_maps, "polish": polish, "japanese": japanese, "turkish": turkish,
}  # fmt: skip
