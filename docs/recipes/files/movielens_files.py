"""Files of the form of MovieLens, made up, for docs/recipes/movielens.md."""

from __future__ import annotations

import random
from pathlib import Path

GENRES = ("Action", "Comedy", "Drama", "Horror", "Sci-Fi")
TITLES = (
    '"Movie, The {} (1995)"',
    '"Misérables {}, Les (1995)"',
    '"""Great Performances"" {} (1998)"',
    "Heat {} (1995)",
)


def write() -> list[str]:
    """Write movies.csv and ratings.csv into the working directory; return the lines of the latter."""
    rng = random.Random(7)
    movies = {n: rng.sample(GENRES, rng.randint(1, 3)) for n in range(1, 300)}
    tastes = {n: {genre: rng.gauss(0, 1) for genre in GENRES} for n in range(1, 200)}
    Path("movies.csv").write_text(
        "movieId,title,genres\n"
        + "".join(
            f"{n},{rng.choice(TITLES).format(n)},{'|'.join(genres) if n % 20 else '(no genres listed)'}\n"
            for n, genres in movies.items()
        )
    )
    ratings = []
    for visit in sorted(rng.sample(range(1_420_070_400, 1_514_764_800), 2000)):
        user = rng.choice(list(tastes))
        for movie in rng.sample(list(movies), 4):
            liking = sum(tastes[user][genre] for genre in movies[movie]) / len(movies[movie]) ** 0.5
            stars = min(5, max(0.5, round(2 * (3.4 + liking + rng.gauss(0, 0.5))) / 2))
            ratings.append(f"{user},{movie},{stars},{visit}\n")
    Path("ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "".join(ratings))
    return ratings
