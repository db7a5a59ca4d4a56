"""Lists of which the top is clicked more often, made up, for docs/recipes/position-bias.md."""

from __future__ import annotations

import json
import random
from pathlib import Path


def write() -> tuple[list[dict[str, float]], dict[int, float]]:
    """Write shown.json, clicks.json and items.json into the working directory; return the items, and the quality of each."""
    rng = random.Random(3)
    quality = {n: rng.gauss(0, 1) for n in range(300)}
    shown, clicks = [], []
    for request in range(6000):
        at = 1559692800 + request * 14
        ranked = sorted(rng.sample(sorted(quality), 8), key=lambda n: -quality[n] - rng.gauss(0, 1.5))
        for place, article in enumerate(ranked):
            row = {"at": at, "request": request, "user": f"u{request % 700}", "article": article}
            shown.append({**row, "place": place})
            seen = 0.75**place
            if rng.random() < seen / (1 + 2.718 ** (1 - quality[article])):
                clicks.append({**row, "at": at + 20})
    items = [{"article": n, "quality": q + rng.gauss(0, 0.5)} for n, q in quality.items()]
    for name, rows in (("shown", shown), ("clicks", clicks), ("items", items)):
        Path(f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return items, quality
