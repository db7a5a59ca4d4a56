"""A configuration with some of its features. Pure; needs no Spark."""

from __future__ import annotations

from collections.abc import Collection

from ctr_samples.config import JobConfig
from ctr_samples.feature_rules import among, words_in


def only_features(config: JobConfig, names: Collection[str]) -> JobConfig:
    """Reduce a configuration to some features, the parts of their crosses, and the views and histories they need."""
    parts = {part for name in names for part in config.features[name].cross or ()}
    features = {name: feature for name, feature in config.features.items() if name in names or name in parts}
    words = words_in([text for f in features.values() for text in (f.from_, f.expr, f.at)])
    wanted = among(words, config.views)
    for name in wanted:  # the list grows during the loop: a view that provides a key may itself need a key
        wanted += [other for other in config.views[name].needed_views if other not in wanted]
    views = {name: view for name, view in config.views.items() if name in wanted}
    histories = {name: config.histories[name] for name in among(words, config.histories)}
    return config.model_copy(update={"features": features, "views": views, "histories": histories})
