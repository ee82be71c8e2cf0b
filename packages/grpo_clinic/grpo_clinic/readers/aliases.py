"""What each trainer calls each quantity, as data: role, key, framework, the versions it holds for, and traps.

The order within a role is the order of preference. `*` stands for any text. Keys are compared after `train/` and
`global/` prefixes and MLflow's `_at_` have been undone. Dates are those of the change in the trainer's repository,
so a log can be dated by the keys it holds.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

TRL, VERL, OPENRLHF, NEMO = "TRL", "verl", "OpenRLHF", "NeMo-RL"
PRIME, INSTRUCT, TINKER, ROLL, OWN = "prime-rl", "open-instruct", "Tinker cookbook", "ROLL", "own loop"
SKYRL, SLIME, AREAL, EASYR1 = "SkyRL", "slime", "AReaL", "EasyR1"

STEP_UNIT = {TRL: "optimiser step", VERL: "rollout cycle"}
"""What one step is, where the trainer's documentation says so."""

KEY_UNIT = {"optimizer_step": "optimiser step", "grpo_step": "rollout cycle", "rollout_step": "rollout cycle"}
"""Step keys whose name says what they count."""


@dataclass(frozen=True)
class Alias:
    """One name of one quantity: `since` and `until` are dates or releases, empty where it always held."""

    role: str
    key: str
    framework: str
    since: str = ""
    until: str = ""
    meaning: str = ""

    @property
    def versions(self) -> str:
        """`since ... until ...`, or `all versions`."""
        text = " ".join(
            part for part in (self.since and f"since {self.since}", self.until and f"until {self.until}") if part
        )
        return text or "all versions"


def _each(role: str, framework: str, *keys: str, since: str = "", until: str = "", meaning: str = "") -> list[Alias]:
    return [Alias(role, key, framework, since, until, meaning) for key in keys]


_NO_CLIP = "zero by construction at refresh interval 1"
_GAP = "mean absolute difference of log-probabilities"
_STD = "mean within-group std up to v0.24, std of the whole batch from v1.0"

TABLE: tuple[Alias, ...] = (
    # the step
    *_each("step", VERL, "training/global_step"),
    *_each("step", TRL, "step", "global_step"),
    *_each("step", ROLL, "system/step"),
    *_each("step", INSTRUCT, "training_step"),
    *_each("step", OWN, "_step", "grpo_step", "rollout_step", "iteration", "iter", "update", "optimizer_step"),
    *_each("step", TINKER, "progress/batch"),
    *_each("step", OWN, "rollout/step", "batch", "episode", "steps", "trainer/global_step"),
    # the reward that training sees
    *_each("reward", TRL, "reward", meaning="weighted sum of the reward functions, mean over the logging window"),
    *_each("reward", VERL, "critic/rewards/mean", meaning="after the in-reward KL penalty where that is on"),
    *_each("reward", VERL, "critic/score/mean", meaning="the reward function's score, before any KL penalty"),
    *_each("reward", TINKER, "env/all/reward/total", "reward/mean"),
    *_each("reward", PRIME, "agg/effective/*/reward/mean", meaning="of the answers that were trained on"),
    *_each("reward", PRIME, "agg/all/*/reward/mean", "reward/mean", "reward/all/mean"),
    *_each("reward", ROLL, "reward/selected_mean", "critic/rewards/mean"),
    *_each("reward", SKYRL, "reward/avg_raw_reward", meaning="mean over the trajectories of a step"),
    *_each("reward", SLIME, "rollout/raw_reward", meaning="before it is normalised in its group"),
    *_each("reward", AREAL, "*_actor/task_reward/avg", "rollout/reward", "task_reward/avg"),
    *_each("reward", EASYR1, "reward/overall"),
    *_each("reward", INSTRUCT, "objective/verifiable_reward", "scores", "objective/scores"),
    *_each("reward", NEMO, "reward", "filtered_reward"),
    *_each("reward", OPENRLHF, "reward", "return"),
    *_each("reward", OWN, "mean_reward", "reward_mean", "avg_reward", "average_reward", "rewards_mean", "reward_avg"),
    *_each("reward", OWN, "reward mean", "mean reward", "proxy_reward", "proxy"),
    *_each("reward", OWN, "train_reward", "train_reward_mean", "rewards", "total_reward", "reward/total"),
    *_each("reward", OWN, "score", "score_mean", "mean_score", "return_mean"),
    # held-out results
    *_each("eval", TRL, "eval_reward", "eval/reward", "eval_rewards/*/mean", "eval/rewards/*/mean"),
    *_each("eval", VERL, "val-core/*/mean@*", "val-core/*", "val-aux/*", since="2025-04"),
    *_each("eval", VERL, "val/test_score/*", until="2025-04"),
    *_each("eval", OPENRLHF, "eval/eval_*_pass1", "eval_*_pass1", "eval/eval_*_pass*", "eval_*_pass*"),
    *_each("eval", NEMO, "validation/accuracy", "validation/*"),
    *_each("eval", PRIME, "eval/*/avg@*", "eval/*"),
    *_each("eval", SKYRL, "eval/all/avg_score", "eval/*/avg_score", "eval/*/pass@*"),
    *_each("eval", AREAL, "eval-rollout/reward", "eval_rollout/reward"),
    *_each("eval", EASYR1, "val/reward_score", "val/overall_reward", "val/accuracy_reward", "val/*_reward"),
    *_each("eval", OWN, "eval_accuracy", "eval/accuracy", "val/reward", "val_reward", "val/accuracy", "val_accurac*"),
    *_each("eval", OWN, "test_accuracy", "test/accuracy", "eval_em", "eval_score", "test/env/all/reward/total"),
    # policy entropy [nats per token]
    *_each("entropy", TRL, "entropy", since="2025-07", meaning="mean token entropy"),
    *_each("entropy", VERL, "actor/entropy", since="2025-05"),
    *_each("entropy", VERL, "actor/entropy_loss", until="2025-05"),
    *_each("entropy", PRIME, "entropy/all/mean", "entropy/mean"),
    *_each("entropy", SKYRL, "policy/policy_entropy"),
    *_each("entropy", AREAL, "*_actor/update/entropy/avg", "*_actor/entropy/avg"),
    *_each("entropy", SLIME, "rollout/entropy"),
    *_each("entropy", NEMO, "approx_entropy"),
    *_each("entropy", INSTRUCT, "policy/entropy_avg"),
    *_each("entropy", OPENRLHF, "entropy_loss"),
    *_each("entropy", TINKER, "optim/entropy", "env/all/entropy"),
    *_each("entropy", OWN, "token_entropy", "mean_entropy", "entropy_mean", "policy_entropy", "avg_entropy"),
    *_each("entropy", OWN, "policy/entropy", "actor/entropy_mean"),
    # distance from the reference, or from the old policy
    *_each("kl", TRL, "kl", meaning="to the reference; logged only if beta != 0"),
    *_each("kl", VERL, "actor/kl_loss", meaning="to the reference"),
    *_each("kl", VERL, "actor/ppo_kl", meaning="to the old policy, not to the reference"),
    *_each("kl", OPENRLHF, "kl", "ppo_kl"),
    *_each("kl", SKYRL, "policy/policy_kl", "loss/avg_kl", meaning="to the reference"),
    *_each("kl", NEMO, "kl_penalty", meaning="to the reference"),
    *_each("kl", AREAL, "*_actor/update/approx_kl/avg", meaning="to the policy before the update"),
    *_each("kl", INSTRUCT, "objective/kl*_avg"),
    *_each("kl", OWN, "reference_kl", "kl_divergence", "mean_kl", "kl_mean", "approx_kl", "kl_to_ref", "kl_loss"),
    *_each("kl", OWN, "kl_ref", "kl_div", "kl_avg", "avg_kl", "avg_exact_kl"),
    # gradient norm
    *_each("grad_norm", TRL, "grad_norm"),
    *_each("grad_norm", VERL, "actor/grad_norm"),
    *_each("grad_norm", OPENRLHF, "actor_grad_norm"),
    *_each("grad_norm", ROLL, "actor_train/grad_norm"),
    *_each("grad_norm", SKYRL, "policy/raw_grad_norm", "policy/grad_norm"),
    *_each("grad_norm", AREAL, "*_actor/update/grad_norm", "*_actor/grad_norm"),
    *_each("grad_norm", PRIME, "optim/grad_norm"),
    *_each("grad_norm", OWN, "gradient_norm", "grad_norm_mean"),
    # fraction of clipped ratios
    *_each("clip_frac", TRL, "clip_ratio/region_mean", since="2025-05", meaning=_NO_CLIP),
    *_each("clip_frac", TRL, "clip_ratio", until="2025-05", meaning=_NO_CLIP),
    *_each("clip_frac", VERL, "actor/pg_clipfrac"),
    *_each("clip_frac", SLIME, "pg_clipfrac"),
    *_each("clip_frac", SKYRL, "policy/loss_metrics/clip_ratio", "policy/ppo_clip_ratio"),
    *_each("clip_frac", AREAL, "*_actor/update/clip_ratio/avg"),
    *_each("clip_frac", ROLL, "actor/clipfrac", "actor/ppo_ratio_clipfrac"),
    *_each("clip_frac", OPENRLHF, "ppo_clip_ratio"),
    *_each("clip_frac", INSTRUCT, "policy/clipfrac_avg"),
    *_each("clip_frac", OWN, "actor/clip_fraction", "clip_fraction", "clip_frac", "clipfrac", "avg_clip_fraction"),
    # fraction of groups (or samples) without any signal
    *_each("zero_std_frac", TRL, "frac_reward_zero_std", since="2025-05-27",
           meaning="share of samples in groups of zero reward std (of the batch where scale_rewards is 'batch')"),
    *_each("zero_std_frac", ROLL, "advantage/zero_rate", meaning="share of zero advantages"),
    *_each("zero_std_frac", TINKER, "env/all/by_group/frac_all_good", meaning="share of groups all good or all bad"),
    *_each("zero_std_frac", PRIME, "agg/all/*/solved_all", "*/solved_all", "solved_all", meaning="all or none solved"),
    *_each("zero_std_frac", NEMO, "baseline_reward/pct_1", meaning="share of groups all right or all wrong"),
    *_each("zero_std_frac", TRL, "self_distillation/flat_group_fraction"),
    *_each("zero_std_frac", OWN, "zero_std_frac", "frac_zero_std", "silent_group_fraction", "degenerate_frac"),
    *_each("zero_std_frac", OWN, "zero_advantage_frac", "frac_zero_advantage", "zero_std_ratio"),
    # length of the answers [tokens]
    *_each("length", TRL, "completions/mean_length", since="2025-03"),
    *_each("length", TRL, "completion_length", meaning="TRL until 2025-03; Unsloth still writes it"),
    *_each("length", VERL, "response_length/mean"),
    *_each("length", ROLL, "length/mean", "tokens/response_length/mean"),
    *_each("length", OPENRLHF, "response_length"),
    *_each("length", SLIME, "rollout/response_len/mean"),
    *_each("length", SKYRL, "generate/avg_num_tokens"),
    *_each("length", AREAL, "*/seq_len/avg"),
    *_each("length", NEMO, "mean_gen_tokens_per_sample"),
    *_each("length", PRIME, "seq_len/all/mean", "seq_len/mean"),
    *_each("length", INSTRUCT, "val/sequence_lengths"),
    *_each("length", OWN, "avg_response_token_length", "mean_response_length", "seq_len_mean", "mean_length"),
    *_each("length", OWN, "avg_length", "response_length_mean"),
    # share of the answers that the length limit cut off
    *_each("truncation", TRL, "completions/clipped_ratio", since="2025-03"),
    *_each("truncation", VERL, "response_length/clip_ratio"),
    *_each("truncation", SLIME, "rollout/truncated_ratio", "rollout/truncated"),
    *_each("truncation", OPENRLHF, "truncated"),
    *_each("truncation", AREAL, "*/no_eos_ratios/avg", meaning="share of answers without an end"),
    *_each("truncation", PRIME, "is_truncated/all/mean", "is_truncated/mean"),
    *_each("truncation", OWN, "truncated_ratio", "truncated_frac", "truncation_rate", "truncation_ratio"),
    # learning rate
    *_each("lr", TRL, "learning_rate"),
    *_each("lr", VERL, "actor/lr"),
    *_each("lr", OPENRLHF, "actor_lr"),
    *_each("lr", SKYRL, "policy/policy_lr"),
    *_each("lr", AREAL, "*_actor/update/lr", "*_actor/lr"),
    *_each("lr", PRIME, "optim/lr"),
    *_each("lr", SLIME, "lr-pg_0"),
    *_each("lr", OWN, "lr"),
    # spread of the reward
    *_each("reward_std", TRL, "reward_std", meaning=_STD),
    *_each("reward_std", OPENRLHF, "group_reward_std"),
    *_each("reward_std", ROLL, "reward/selected_std"),
    *_each("reward_std", OWN, "std_reward", "reward_std", "rewards_std"),
    *_each("reward_min", VERL, "critic/rewards/min", meaning="of the batch"),
    *_each("reward_max", VERL, "critic/rewards/max", meaning="of the batch"),
    *_each("reward_min", OWN, "min_reward", "reward_min", "reward/min"),
    *_each("reward_max", OWN, "max_reward", "reward_max", "reward/max"),
    # the sampler beside the trainer, by quantity [nats per token]: k3, k1 = mean(log b - log pi), mean |difference|
    *_each("engine_kl", VERL, "rollout_corr/k3_kl"),
    *_each("engine_kl", VERL, "mismatch/mismatch_k3_kl", until="2025-12"),
    *_each("engine_kl", PRIME, "mismatch_kl/all/mean", "mismatch_kl/mean"),
    *_each("engine_kl", NEMO, "gen_kl_error", "policy_kl_error"),
    *_each("engine_kl", TINKER, "optim/kl_sample_train_v2"),
    *_each("engine_kl", AREAL, "*_actor/update/behave_approx_kl/avg", "*/behave_approx_kl/avg"),
    *_each("engine_k1", VERL, "rollout_corr/kl"),
    *_each("engine_k1", VERL, "mismatch/mismatch_kl", until="2025-12"),
    *_each("engine_k1", TINKER, "optim/kl_sample_train_v1"),
    *_each("engine_abs", TRL, "sampling/sampling_logp_difference/mean", meaning=_GAP),
    *_each("engine_abs", SLIME, "train_rollout_logprob_abs_diff", meaning=_GAP),
    *_each("engine_abs", SKYRL, "policy/rollout_train_logprobs_abs_diff_mean", meaning=_GAP),
    *_each("engine_abs", INSTRUCT, "debug/vllm_vs_local_logprob_diff_mean", meaning=_GAP),
    *_each("engine_abs", OWN, "actor/rollout_train_logprob_gap", meaning="RLinf: " + _GAP),
    # effective sample size of the weights
    *_each("ess", VERL, "rollout_corr/rollout_is_eff_sample_size", "mismatch/rollout_is_eff_sample_size"),
    *_each("ess", OWN, "rollout_is_eff_sample_size", "ess_ratio", "*/ess_ratio", "tis_eff_sample_size",
           "*/tis_eff_sample_size", "*/rollout_is_eff_sample_size"),
    # mean of the trainer's probability over the sampler's
    *_each("importance_ratio", TRL, "sampling/importance_sampling_ratio/mean"),
    *_each("importance_ratio", VERL, "rollout_corr/rollout_is_mean", "mismatch/rollout_is_mean"),
    *_each("importance_ratio", SKYRL, "policy/loss_metrics/is_ratio_mean"),
    *_each("importance_ratio", NEMO, "sampling_importance_ratio"),
    *_each("importance_ratio", AREAL, "*_actor/update/behave_imp_weight/avg", "*/behave_imp_weight/avg"),
    # age of what is trained on [updates]
    *_each("age", VERL, "training/off_policy/trajectory_staleness/mean"),
    *_each("age", PRIME, "off_policy/mean"),
    *_each("age", NEMO, "avg_trajectory_age"),
    *_each("age", AREAL, "*sample_staleness_theta_avg", "*sample_staleness_proximal_avg"),
    *_each("age_max", VERL, "training/off_policy/trajectory_staleness/max"),
    *_each("age_max", PRIME, "off_policy/max"),
    *_each("age_max", AREAL, "*sample_staleness_theta_max", "*sample_staleness_proximal_max"),
    # settings that some loops repeat on every row
    *_each("group_size", OWN, "group_size", "num_generations", "rollouts_per_prompt"),
    *_each("refresh_interval", OWN, "optimizer_updates_per_rollout_batch", "optimizer_steps_per_rollout"),
    *_each("prompts", OWN, "num_questions", "system/prompts", "num_prompts"),
    # pieces of the reward
    *_each("part", TRL, "rewards/*/mean", since="2025-03", meaning="one reward function"),
    *_each("part", TRL, "rewards/*/std", since="2025-03", meaning="spread of one reward function"),
    *_each("part", TRL, "rewards/*", until="2025-03", meaning="one reward function"),
    *_each("part", OWN, "accuracy", "answer_accuracy", "format_rate", "format_accuracy", "format_reward"),
    *_each("part", OWN, "answer_reward", "mean_answer_reward", "mean_format_reward", "ndcg_mean", "cold_bonus_mean"),
    *_each("part", OWN, "gold_reward", "true_reward", "gold_score", "true_score", "gold", meaning="of a proxy"),
    *_each("part", INSTRUCT, "objective/verifiable_correct_rate", meaning="share of right answers"),
    *_each("part", EASYR1, "reward/accuracy", "reward/format"),
    *_each("part", SKYRL, "reward/avg_pass@*"),
    *_each("part", ROLL, "reward/hard_pass_rate"),
    *_each("part", OWN, "reward/*", "rewards/*", meaning="a part, by its name"),
    *_each("part", TINKER, "reward/pass@1", "env/all/correct", "env/all/format"),
)  # fmt: skip

OTHER_HALF = {
    "frac_all_good": "frac_all_bad",
    "solved_all": "solved_none",
    "baseline_reward/pct_1": "baseline_reward/pct_0",
}
"""Ends of names of silent groups at the best reward, and the same for those at the worst: their sum is all of them."""

MARKS: dict[str, tuple[str, ...]] = {
    TRL: ("frac_reward_zero_std", "completions/*", "completion_length", "clip_ratio/*", "rewards/*", "num_tokens"),
    VERL: ("critic/*", "actor/pg_*", "response_length/*", "timing_s/*", "val-core/*", "training/global_step"),
    ROLL: ("system/step", "advantage/zero_rate", "actor_train/*", "scheduler/*", "reward/selected_mean"),
    TINKER: ("progress/batch", "env/all/*", "time/total", "data/num_datums"),
    SKYRL: ("reward/avg_raw_reward", "policy/policy_loss", "policy/policy_lr", "reward/avg_pass@*"),
    SLIME: ("rollout/raw_reward", "rollout/response_len*", "rollout/log_probs"),
    AREAL: ("*_actor/task_reward/*", "*_actor/update/*", "timeperf/*"),
    EASYR1: ("reward/overall", "val/reward_score"),
    PRIME: ("off_policy/*", "mismatch_kl/*", "entropy/all/*", "reward/all/*"),
    INSTRUCT: ("objective/*", "unsolved_batch_size_ratio", "real_batch_size_ratio", "val/solve_rate_hist"),
    OPENRLHF: (
        "policy_loss",
        "actor_lr",
        "ppo_clip_ratio",
        "group_reward_std",
        "dynamic_filtering_pass_rate",
        "act_loss",
    ),
    NEMO: ("token_mult_prob_error", "probs_ratio_*", "mean_gen_tokens_per_sample", "validation/accuracy"),
}
"""Keys that only one trainer writes: the more of them a log holds, the surer the framework."""


@lru_cache(maxsize=2**15)
def canonical(key: str) -> str:
    """A key without logger prefixes: `train/reward` is `reward`, MLflow's `mean_at_8` is `mean@8`.

    Nested dictionaries come as `actor.lr`: that is `actor/lr`.
    """
    key = key.strip().replace("_at_", "@")
    key = key if "/" in key else key.replace(".", "/")
    for prefix in ("train/", "global/", "train_metrics/"):
        key = key.removeprefix(prefix)
    return key


@lru_cache(maxsize=1024)
def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(".+".join(re.escape(part) for part in key.split("*")), re.IGNORECASE)


def _matches(pattern: str, key: str) -> bool:
    """Whether a log's key is the name `pattern`, in which `*` stands for any text."""
    return _pattern(pattern).fullmatch(canonical(key)) is not None


def framework_of(keys: list[str]) -> str:
    """The trainer whose own keys occur most often, `own loop` if none does."""
    scores = {name: sum(any(_matches(m, key) for key in keys) for m in marks) for name, marks in MARKS.items()}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] == 0:
        return TRL if {"reward", "learning_rate", "epoch"} <= {canonical(key) for key in keys} else OWN
    return best


def candidates(role: str, keys: list[str], framework: str = "") -> list[tuple[str, Alias]]:
    """(key, alias) pairs of one role, the given framework's names first, each key once."""
    ranked = [a for a in TABLE if a.role == role and a.framework == framework]
    ranked += [a for a in TABLE if a.role == role and a.framework != framework]
    by_key: dict[str, Alias] = {}
    for alias in ranked:
        for key in keys:
            if key not in by_key and _matches(alias.key, key):
                by_key[key] = alias
    return list(by_key.items())


def is_known(key: str) -> bool:
    """Whether any trainer is known to use this name."""
    return any(_matches(alias.key, key) for alias in TABLE)
