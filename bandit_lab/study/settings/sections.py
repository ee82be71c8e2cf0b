"""In which part of the help a setting stands, and in which order: the one place to put a new setting."""

SECTIONS: dict[str, str] = {
    "problem": "figures paths logs_index config log options framework version study sizes rewards intervals bandit "
    "simulated format table",
    "learner": "advantage estimator staleness refresh_interval batch_reuse optimizer optimizer_name learning_rate "
    "momentum convention kl_weight kl_estimator group_size prompts staleness_model stiffness delay success diagnostic",
    "run": "quality sweep boundary dynamics seeds steps seed runs sampled.refresh_interval sampled.momentum "
    "sampled.multiple sampled.start models level from_fraction horizon backtest fractions backtest_points safety "
    "signal group_factor temperature eval_path reps quick paper",
    "output": "run_dir overwrite output publish pictures report",
    "rare": "plugins entropy_weight precision rng path keep_runs chunk.seeds chunk.cells chunk.rows hosts.coordinator "
    "hosts.count hosts.index hosts.patience memory_limit compilation_cache cache threads reward_key step_key eval_key "
    "where run beside reward_scale step_unit convert_to log_every thin false_alarm surrogates wave_share silent_share "
    "solved_share entropy_share coupling_z collapse_share collapse_z swing_share swing_z quiet",
}
MEANING = {
    "problem": "what it is about",
    "learner": "what trains, or trained",
    "run": "how much is computed, and how well",
    "output": "what is written, and where",
    "rare": "seldom needed",
}
_OTHERWISE = {("status", "run_dir"): "problem", ("export", "run_dir"): "problem"}
_PLACES = {key: (section, place) for section, keys in SECTIONS.items() for place, key in enumerate(keys.split())}


def section_of(command: str, key: str) -> tuple[str, int]:
    """(section, place in it) of a setting; what nobody placed stands under `rare`."""
    section, place = _PLACES.get(key, ("rare", len(_PLACES)))
    return _OTHERWISE.get((command, key), section), place
