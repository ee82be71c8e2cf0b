"""Configurations of trainers as tests write them."""

from grpo_clinic.trainers import recipe_of

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


def understood(tmp_path, text, name="config.yaml"):
    """What is read from a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return recipe_of(str(path))
