"""What is left out of `make test` because of its cost, besides what its own file marks `slow` or `nightly`.

Three tiers. `make test` aims at five minutes on two cores and has every kind of statement: physics, persistence,
honesty, refusals, commands. `.ci/run` adds what is slow, `.ci/run all` what is nightly. In these tables a name alone
leaves out a whole statement; with ids, the tier before keeps these cases of it. Chosen by measured time: what costs
seconds, is about one corner and has a cheaper relative that stays. `costly.txt` is a further table of what is slow,
by a rule and measured seconds alone (`costs.py`). A name that is no test's is an error (`conftest.py`).
"""

import re
from pathlib import Path

NIGHTLY: dict[str, tuple[str, ...]] = {
    # Programs as XLA compiles them by default, processes, devices: minutes of starting and compiling.
    "test_released.py::test_what_is_asserted_of_released_programs": (),
    "simulation/test_devices.py::test_bytes_do_not_depend_on_the_number_of_devices": (),
    "app/test_dask.py::test_two_workers_write_the_bytes_of_one_process": (),
    "lab/test_check.py::test_rules_with_a_memory_grow_as_their_multipliers": (),
    "lab/test_extending.py::test_an_example_runs_and_keeps_the_rules": ("Advantage", "Optimiser"),
    "grading/test_diagnoses.py::test_planted_failures_show_in_the_hidden_state": (),
    "grading/test_diagnoses.py::test_deaf_diagnostics_would_fail": (),
    "grading/test_diagnoses.py::test_logged_rewards_are_draws_of_the_hidden_means": (),
    "grading/test_diagnoses.py::test_the_learning_rate_is_set_over_the_exact_threshold": (),
    "benchmarks/test_benchmarks.py::test_all_three_draw_the_same_curves": ("A Bernoulli N=3",),
    # A second witness, of which the tier before has a few settings.
    "theory/test_thresholds.py::test_closed_forms_match_bisected_eigenvalues": (
        "refresh-0.9",
        "lag-0.3",
        "pipeline-0.0",
    ),
    "test_loop.py::test_random_stiffness_matrices": ("0", "1"),
    # Monte Carlo over many runs: a rate, a moment, a law of counts.
    "simulation/test_fast_path.py::test_both_paths_have_the_same_distribution": (
        "clipped, two fixed arms",
        "drawn ages, two arms",
    ),
    "simulation/test_fast_path.py::test_generators_agree": (),
    "simulation/test_fast_non_silent.py::test_joint_law_of_the_counts": ("three values-3", "fixed-4"),
    "simulation/test_fast_draws.py::test_joint_law_of_the_counts_is_multinomial": ("group0-hash", "group3-threefry"),
    "simulation/test_fast_draws.py::test_rare_arms_are_drawn_at_their_rate": (),
    "simulation/test_fast_draws.py::test_covariance_of_counts_in_a_group": (),
    "simulation/test_exact_means.py::test_along_a_run_updates_are_a_martingale_around_the_exact_mean": ("frozen",),
    "measure/test_adam.py::test_noisy_adam_responds_as_the_self_consistent_state_does": (),
    "measure/test_fluctuation.py::test_stationary_variance_of_one_case": ("two_arms-fast",),
    "measure/test_escape.py::test_survival_against_the_exact_chain": (),
    "packages/grpo_clinic/tests/test_curves_fit.py::test_laws_are_told_apart_when_the_curve_can_tell": (),
    "packages/grpo_clinic/tests/test_curves_fit.py::test_intervals_cover_at_their_rate": (
        "single_exponential",
        "softmax_law",
    ),
    "packages/grpo_clinic/tests/test_curves_law_choice.py::test_the_wrong_law_is_seldom_clearly_ahead": (),
    "simulation/test_random_bits.py::test_the_statistic_catches_a_planted_defect": (
        *("uniform_cells", "neighbouring_cells", "bits_of_a_word", "lags_in_a_lane", "repeats_in_a_lane"),
    ),
    # One more case of what another case shows: thresholds, means, layouts.
    "simulation/test_fast_path.py::test_layouts_give_the_same_runs": (),
    "measure/test_period_jacobian.py::test_thresholds_are_the_closed_forms": ("five-finite_group-refresh-nesterov",),
    "measure/test_period_jacobian.py::test_chains_and_schedules_stand_at_their_frozen_value": (),
    "measure/test_neutral.py::test_the_escort_policys_thresholds_are_those_of_its_direction_alone": ("2.0",),
    "simulation/test_programs.py::test_runs_of_many_lengths_keep_a_bounded_number_of_programs": ("fast",),
    "simulation/test_engine.py::test_the_second_call_does_not_compile": ("fast",),
    "simulation/test_closed_forms.py::test_near_the_fixed_point_the_mean_curve_is_the_oscillators": (
        "0.05-0.95-oscillatory",
    ),
    "simulation/test_fast_counting.py::test_thresholds_are_dithered_cumulative_probabilities_in_order": (
        "1-2",
        "1-7",
        "1-64",
        "2-3",
        "2-130",
    ),
}

SLOW: dict[str, tuple[str, ...]] = {
    # Processes, kills, disks: `make test` keeps one kill, one interruption, one failed chunk, one full disk.
    "app/test_resume.py::test_no_number_depends_on_how_the_work_is_cut": (),
    "app/test_resume.py::test_a_full_disk_stops_the_run_which_then_continues": (),
    "benchmarks/test_benchmarks.py::test_all_three_draw_the_same_curves": (),
    "lab/test_check.py::test_no_check_passes_on_a_comparison_of_nothing": (),
    "lab/test_extending.py::test_an_example_runs_and_keeps_the_rules": (),
    # What a run folder says, in drafts and sweeps of further settings.
    "lab/test_reproduce.py::test_pictures_repeat_to_the_byte_and_have_the_promised_width": (),
    "lab/test_reproduce.py::test_publishing_merges_and_writes_the_index": (),
    "lab/test_reproduce.py::test_what_is_published_is_drawn_again_from_its_numbers_without_a_measurement": (),
    "lab/test_sweep.py::test_refresh_interval_can_be_the_bracketed_one": (),
    "lab/test_predict.py::test_every_prompt_has_its_policy": (),
    "lab/test_predict.py::test_the_hotter_a_run_the_more_collapse_below_the_threshold": (),
    "lab/test_predict.py::test_formulas_of_the_plain_drift_are_not_given_for_another": (),
    "lab/test_predict.py::test_the_closed_form_of_a_sampler_is_what_is_measured": (),
    "lab/test_predict.py::test_the_noise_of_a_sampler_is_that_of_its_answers": (),
    "lab/test_wiring.py::test_a_parameter_that_does_nothing_does_not_change_the_stiffness": (),
    "lab/test_wiring.py::test_formula_and_differentiation_agree": (
        "grpo-frozen-mean_field",
        "dr_grpo-clipped-finite_group",
        "rloo-ratio-mean_field",
        "sign-uncorrected-finite_group",
    ),
    # Physics: each law and each witness keeps its shortest case.
    "simulation/test_fast_path.py::test_generators_agree": (),
    "simulation/test_fast_non_silent.py::test_joint_law_of_the_counts": ("fixed-4",),
    "simulation/test_fast_non_silent.py::test_at_a_vertex_a_group_is_silent": (),
    "simulation/test_engine.py::test_the_second_call_does_not_compile": (),
    "simulation/test_engine.py::test_a_cells_bytes_do_not_depend_on_the_grid": ("kind0-float32",),
    "simulation/test_engine.py::test_a_row_of_seeds_has_the_same_bytes_in_any_block": ("float32",),
    "simulation/test_engine.py::test_single_runs_are_kept_whole_where_a_chunk_of_the_fast_path_is_narrow": (),
    "simulation/test_engine.py::test_precisions_agree_and_are_what_was_asked_for": (),
    "simulation/test_exact_means.py::test_large_groups_approach_the_mean_field_with_order_one": (
        "batch_std-clipped",
        "grpo-uncorrected",
    ),
    "measure/test_adam.py::test_weight_decay_moves_the_fixed_point": (),
    "measure/test_period_jacobian.py::test_every_bandit_advantage_and_estimator": (),
    "measure/test_period_jacobian.py::test_a_fixed_point_that_moves_with_the_learning_rate_is_solved_at_every_rate": (),
    "simulation/test_fast_draws.py::test_rare_arms_are_drawn_at_their_rate": (),
    "simulation/test_closed_forms.py::test_two_arm_curves_converge_to_the_exact_laws_with_order_one": (
        "grpo-sinh_law",
    ),
    "simulation/test_closed_forms.py::test_near_the_fixed_point_the_mean_curve_is_the_oscillators": (),
    "simulation/test_refused_options.py::test_options_that_the_compiler_does_not_take_switch_the_kernel_off": (),
    "measure/test_mixed.py::test_period_two_and_runaway": (),
    "measure/test_neutral.py::test_the_escort_policys_thresholds_are_those_of_its_direction_alone": (),
    "measure/test_averaged_path.py::test_means_and_spreads_are_those_of_the_iterates": (),
    "bandits/test_contextual.py::test_orthogonal_prompts_are_independent_bandits": ("mean_field",),
    "integrations/test_curves_own_runs.py::test_the_readmes_setting_is_stable_for_both": ("0.1",),
    "bandits/test_neural.py::test_probabilities_of_all_sequences_add_up_and_the_start_is_the_reference": ("mlp",),
    "bandits/test_neural.py::test_the_start_is_the_same_in_both_precisions": (),
}


def read_costly(text: str) -> dict[str, tuple[str, ...]]:
    """`costly.txt`, made by `costs.py`: a statement per line, and below it the cases that `make test` keeps."""
    statements = re.findall(r"^(\S.*)\n((?:    .*\n)*)", text, re.MULTILINE)
    return {name: tuple(line[4:] for line in lines.splitlines()) for name, lines in statements}


COSTLY = read_costly((Path(__file__).parent / "costly.txt").read_text())
