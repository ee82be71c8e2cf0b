"""Configurations of trainers as tests write them."""

from bandit_lab.curves.trainers import load, understand

VERL = """
data: {train_batch_size: 512}
actor_rollout_ref:
  actor:
    ppo_mini_batch_size: 128
    ppo_epochs: 2
    use_kl_loss: true
    kl_loss_coef: 1e-3
    optim: {lr: 1e-6}
  rollout: {n: 8}
algorithm: {adv_estimator: grpo}
"""
TRL = "num_generations: 8\nlearning_rate: 1e-6\nper_device_train_batch_size: 4\n"
OPENRLHF = "rollout:\n  batch_size: 256\n  n_samples_per_prompt: 8\ntrain: {batch_size: 512, max_epochs: 2}\n"
NEMO = (
    "grpo: {num_prompts_per_step: 64, num_generations_per_prompt: 16}\n"
    "policy: {train_global_batch_size: 256}\nloss_fn: {ratio_clip_min: 0.2}\n"
)
PRIME = "max_off_policy_steps = 6\ngroup_size = 16\n[optim]\nlr = 3e-6\n"
INSTRUCT = "num_samples_per_prompt_rollout: 8\nnum_epochs: 2\nnum_mini_batches: 3\nasync_steps: 1\n"


def written(tmp_path, text, name="config.yaml"):
    """Path of a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def understood(tmp_path, text, name="config.yaml", options=None, **given):
    """What is read from such a file."""
    return understand(load(written(tmp_path, text, name)), options or {}, given)
