"""Vocabulary for the names of columns, values and inputs."""

from __future__ import annotations

import re

from ctr_samples.starter.tables import Column
from ctr_samples.starter.times import words_of

USER = frozenset(
    "user users usr reviewer profile uid userid member customer visitor client account cookie viewer buyer reader device "
    "person subscriber idfa gaid".split()
)
ITEM = frozenset(
    "item items iid itemid article articles video videos movie movies news product products goods ad ads doc document creative "
    "sku song track book post story photo asin listing offer campaign banner hotel job recipe episode playlist app game coupon "
    "restaurant property page content asset candidate".split()
)
REQUEST = frozenset(
    "request req impression imp search trace row session rid log event record uuid guid auction display".split()
)
ID = frozenset("id ids key code hash uuid no num nr pk".split())
SHOWN = frozenset(
    "exposure exposures expose exposed impression impressions imp impress show shown display displayed serve served view "
    "pv".split()
)
LABEL = frozenset(
    "click clicks clicked clk like liked likes label target y conversion convert converted purchase purchased buy bought order "
    "ordered follow followed share shared forward forwarded comment commented collect collected favorite favourite install "
    "installed signup subscribe subscribed checkout cart longview watched played finished hate reward response "
    "interested".split()
)
NOT = frozenset("not no un dis".split())
RATING = frozenset("rating ratings stars score grade".split())
POSITION = frozenset("position pos rank slot place".split())
OUTCOME = frozenset("play played watch watched dwell stay read revenue profit".split())
CATEGORY = frozenset(
    "id type category code class tag channel tab kind level gender brand region city country genre".split()
)
BEGINS = frozenset("since start begin from".split())
ENDS = frozenset("until end to expires expired".split())
CHANGED = frozenset("update updated modified changed trained since snapshot effective".split())
MADE = frozenset("publish published upload created create register registered added".split())
INDEX = frozenset("row index level".split())
BIRTH = frozenset("birth birthday born dob".split())
_MORE = frozenset("author brand category city order payment seller shop store transaction".split())
_GLUED = re.compile(rf"^({'|'.join(sorted(USER | ITEM | REQUEST | _MORE))})(ids?|keys?|codes?|hash|no|nr|num)$")


def words(column: Column) -> frozenset[str]:
    """Split a column name into words, including compounds such as ``visitorid``. Empty for a generated name."""
    names = words_of(column.name) if column.named else ()
    return frozenset(part for word in names for part in _GLUED.sub(r"\1 \2", word).split())


def names_key(column: Column, entity: frozenset[str]) -> bool:
    """Whether the name denotes the key of an entity: ``item_id``, ``uid`` or ``Item``, but not ``item_price``."""
    said = words(column)
    return column.may_be_key and bool(said & entity) and said <= entity | ID


def is_identifier(column: Column) -> bool:
    """Whether a column may be a key: integers or text with an id-like name."""
    return column.may_be_key and bool(words(column) & (ID | USER | ITEM))


def ends_as_key(column: Column) -> bool:
    """Whether a name in any language ends like a key, such as ``produkt_nr`` or ``vid``."""
    ends = re.search(r"(id|ids|key|code|_no|_nr|_num)$(?<!bid)(?<!paid|grid|void|said)(?<!valid)", column.name.lower())
    return column.named and ends is not None


def key_expr(column: Column) -> str:
    """Return the SQL expression of a key column. Integers written as 1.0 become bigint, or text if too large."""
    made = {"DOUBLE": "bigint", "DECIMAL(20,0)": "string"}.get(column.kind)
    return column.expr if made is None else f"{made}({column.expr})"
