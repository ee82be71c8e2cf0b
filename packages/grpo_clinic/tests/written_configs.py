"""Configurations of trainers as tests write them."""

from grpo_clinic.trainers import load, understand

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
AREAL = (
    "rollout: {max_head_offpolicyness: 2, consumer_batch_size: 256}\ngconfig: {n_samples: 8}\n"
    "actor:\n  optimizer: {lr: 1.7e-5, beta1: 0.9, beta2: 0.999}\n  ppo_n_minibatches: 4\n  kl_ctl: 0.0\n"
    "  eps_clip: 0.4\n  reward_norm: {mean_level: group, std_level: group}\n"
)
SKYRL = (
    "python -m skyrl.train.main trainer.algorithm.advantage_estimator=grpo trainer.policy.optimizer_config.lr=2e-6 "
    "trainer.policy.optimizer_config.adam_betas=[0.8,0.99] trainer.algorithm.eps_clip_high=0.28 "
    "trainer.train_batch_size=512 trainer.policy_mini_batch_size=128 trainer.update_epochs_per_batch=2 "
    "generator.n_samples_per_prompt=8"
)
SLIME = (
    "python3 train_async.py --lr 3e-6 --adam-beta1 0.85 --n-samples-per-prompt 8 --rollout-batch-size 64 "
    "--global-batch-size 256 --advantage-estimator grpo --use-tis --hf-checkpoint /m --eps-clip-high 0.27"
)


def written(tmp_path, text, name="config.yaml"):
    """Path of a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def understood(tmp_path, text, name="config.yaml", options=None, **given):
    """What is read from such a file."""
    return understand(load(written(tmp_path, text, name)), options or {}, given)
