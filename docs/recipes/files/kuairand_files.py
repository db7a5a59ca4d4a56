"""Files of the form of KuaiRand, made up, for docs/recipes/kuairand.md."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from math import exp
from pathlib import Path

START = int(datetime(2022, 4, 22, tzinfo=UTC).timestamp() * 1000) - 8 * 3_600_000  # midnight in Shanghai


def write() -> list[str]:
    """Write the logs, users, videos and authors into the working directory; return the lines of both logs."""
    rng = random.Random(7)
    authors = {n: rng.gauss(0, 1) for n in range(40)}
    videos = {
        n: (rng.choice(list(authors)), rng.choice((7_000, 15_000, 60_000)), rng.randrange(20)) for n in range(500)
    }
    users = {n: rng.choice(("UNKNOWN", "middle_active", "full_active")) for n in range(300)}
    Path("user_features.csv").write_text(
        "user_id,user_active_degree,is_video_author,follow_user_num_range\n"
        + "".join(f'{n},{degree},{n % 2},"(10,50]"\n' for n, degree in users.items())
    )
    Path("video_features_basic.csv").write_text(
        "video_id,author_id,video_type,upload_dt,video_duration,music_id,tag\n"
        + "".join(
            f"{n},{author},NORMAL,2022-04-1{n % 9},{f'{length}.0' if n % 10 else ''},989206467,"
            + (f'"{tag},65"\n' if n % 3 else f"{tag}\n")
            for n, (author, length, tag) in videos.items()
        )
    )
    fans = {n: 3000 + int(500 * liking) for n, liking in authors.items()}
    Path("authors.csv").write_text(
        "author_id,fans,since,until\n"
        + "".join(
            f"{n},{count},2022-01-01,{'2022-04-23' if n % 8 == 0 else '9999-12-31'}\n" for n, count in fans.items()
        )
        + "".join(f"{n},{count + 100},2022-04-23,9999-12-31\n" for n, count in fans.items() if n % 8 == 0)
    )
    logs = {"standard": [], "random": []}
    for row in range(9_000):
        user, video, when = rng.choice(list(users)), rng.choice(list(videos)), START + rng.randrange(2 * 86_400_000)
        author, length, _ = videos[video]
        logit = -1 + authors[author] + {"UNKNOWN": -0.8, "middle_active": 0, "full_active": 0.8}[users[user]]
        click = int(rng.random() < 1 / (1 + exp(-logit)))
        like = int(click and rng.random() < 0.2)
        played = int(length * rng.random()) if click else 0
        is_random = row % 10 == 0
        local = datetime.fromtimestamp(when / 1000 + 8 * 3600, UTC)
        logs["random" if is_random else "standard"].append(
            f"{user},{video},{local:%Y%m%d},{local.hour * 100},{when},{click},{like},0,0,0,0,{int(played > 0.6 * length)},"
            f"{played},{length},0,0,0,{int(is_random)},1\n"
        )
    header = (
        "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,play_time_ms,"
        "duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab\n"
    )
    Path("logs").mkdir()
    for name, lines in logs.items():
        Path(f"logs/log_{name}_4_22_to_5_08.csv").write_text(header + "".join(lines))
    return logs["standard"] + logs["random"]
