"""Files of the form of MIND, made up, for docs/recipes/mind.md."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from math import exp
from pathlib import Path

CATEGORIES = ("sports", "news", "finance", "travel", "video")
TITLES = ('"Wheel" Guest Delivers {}', '"I Was Robbed {}', "A 6' 5\" Player {}", "Prince {}'s Charity")
ENTITY = '[{"Label": "Prince Philip", "Type": "P", "OccurrenceOffsets": [48]}]'


def write() -> list[str]:
    """Write news.tsv and behaviors.tsv into the working directory; return the lines of the latter."""
    rng = random.Random(7)
    news = {f"N{n}": (rng.choice(CATEGORIES), f"sub{n % 12}", rng.gauss(0, 0.7)) for n in range(400)}
    tastes = {f"U{n}": {category: rng.gauss(0, 1.2) for category in CATEGORIES} for n in range(300)}
    Path("news.tsv").write_text(
        "".join(
            f"{n}\t{category}\t{sub}\t{rng.choice(TITLES).format(n)}\t{rng.choice(('', 'Abstract'))}\thttps://x/{n}\t{ENTITY}\t[]\n"
            for n, (category, sub, _) in news.items()
        )
    )
    clicked = {user: [] for user in tastes}
    lines = []
    for second in sorted(rng.sample(range(4 * 86400), 2500)):
        user, when = rng.choice(list(tastes)), datetime(2019, 11, 11) + timedelta(seconds=second)
        shown = []
        for place, n in enumerate(rng.sample(list(news), rng.randint(2, 10))):
            category, _, quality = news[n]
            click = rng.random() < 1 / (1 + exp(2.2 - tastes[user][category] - quality + 0.15 * place))
            shown.append(f"{n}-{int(click)}")
        lines.append(
            f"{len(lines) + 1}\t{user}\t{when:%-m/%-d/%Y %-I:%M:%S %p}\t{' '.join(clicked[user][-20:])}\t{' '.join(shown)}\n"
        )
        clicked[user] += [one[:-2] for one in shown if one.endswith("-1")]
    Path("behaviors.tsv").write_text("".join(lines))
    return lines
