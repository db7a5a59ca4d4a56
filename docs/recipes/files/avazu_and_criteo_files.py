"""Files of the form of Avazu and Criteo, made up, for docs/recipes/avazu-and-criteo.md."""

from __future__ import annotations

import random
from math import exp
from pathlib import Path


def write() -> tuple[list[str], list[str]]:
    """Write avazu.csv and criteo.tsv into the working directory; return the lines of each."""
    rng = random.Random(7)
    sites = {f"{rng.getrandbits(32):08x}": rng.gauss(-1.6, 0.9) for _ in range(60)}
    devices = {f"{rng.getrandbits(32):08x}": rng.gauss(0, 0.8) for _ in range(500)}

    def is_clicked(logit: float) -> int:
        return int(rng.random() < 1 / (1 + exp(-logit)))

    header = (
        "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
        "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21\n"
    )
    rows = []
    for n in range(12_000):
        site, place = rng.choice(list(sites)), rng.randint(0, 1)
        device = "a99f214a" if rng.random() < 0.87 else rng.choice(list(devices))
        click = is_clicked(sites[site] + devices.get(device, 0) - 0.5 * place)
        hour = f"1410{21 + n // 6000}{n % 6000 // 250:02d}"
        rows.append(
            f"{10**19 + n},{click},{hour},1005,{place},{site},f3845767,28905ebd,ecad{n % 9:04x},7801e8d9,07d7df22,{device},"
            f"{rng.getrandbits(32):08x},44956a24,{n % 3},2,15706,320,50,1722,0,35,-1,79\n"
        )
    Path("avazu.csv").write_text(header + "".join(rows))

    lines = []
    for _ in range(6_000):
        site, device = rng.choice(list(sites)), rng.choice(list(devices)[:50])
        numbers = ["" if rng.random() < 0.3 else str(int(rng.lognormvariate(2, 3))) for _ in range(13)]
        numbers[1] = str(rng.randint(-3, 50))  # never empty
        categories = [site, device, *["" if rng.random() < 0.2 else f"{rng.randrange(40):08x}" for _ in range(24)]]
        lines.append("\t".join([str(is_clicked(sites[site] + devices[device])), *numbers, *categories]) + "\n")
    lines += lines[:100]  # equal rows are impressions of their own
    Path("criteo.tsv").write_text("".join(lines))
    return rows, lines
