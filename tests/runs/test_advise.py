"""`advise` as a person meets it: configurations with and without a log, and what is answered."""

import json
from pathlib import Path

import numpy as np
import pytest
from advised import QUICK, TRL, VERL, advise, config, write_log
from settings import learner

from bandit_lab.grpo import Hyper
from bandit_lab.simulation import trajectories
from bandit_lab.theory import exact


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def test_a_configuration_alone(capsys):
    found = advise(f"config={config()}", "-v")
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "out"
    assert {"config.yaml", "summary.json", "manifest.json", "report"} <= {p.name for p in Path("out").iterdir()}
    assert found["trainer"]["name"] == "TRL"
    about = found["staleness"]
    assert (about["model"], about["letter"], about["interval"], about["K_ref"]) == ("refresh", "A", 4, 4.0)
    assert found["stiffness"]["value"] is None
    assert "no log" in found["stiffness"]["value_reason"]
    assert found["limits"]["refresh_interval"] is None
    assert found["settings"]["beta1"]["origin"] == "default"
    assert found["settings"]["beta1"]["source"]
    assert found["settings"]["learning_rate"]["key"] == "learning_rate"
    assert "If the reward responds within" in out
    assert "How stale is too stale?" in out


def test_the_table_by_response_time():
    """By hand: EMA, N = 4, mean age 1.5, delay 30: kappa = 1/31.5, law's margin 31.5/4; exact 2.9225 times that."""
    (row,) = [row for row in advise(f"config={config()}", QUICK)["by_delay"] if row["delay"] == 30]
    assert row["kappa"] == pytest.approx(1 / 31.5)
    assert row["margin"]["law"] == pytest.approx(31.5 / 4)
    ratio = exact("refresh", 4, 0.9, "ema").kappa * 4
    assert row["margin"]["exact"] == pytest.approx(ratio * 31.5 / 4)


# kappa_c N/(1 - mu) of the three staleness models.
RATIOS = [("refresh", 8, 2.7087), ("lag", 2, 1.025), ("pipeline", 8, 0.8181)]


@pytest.mark.parametrize(("model", "interval", "ratio"), RATIOS)
def test_given_stiffness(model, interval, ratio):
    """sgd, mu = 0.9, eta = 0.01, lambda = 0.05: kappa = 5e-4, law's margin 0.1/(5e-4 N)."""
    given = ("learning_rate=0.01", "stiffness=0.05", "momentum=0.9", "optimizer=sgd", QUICK)
    found = advise(*given, f"staleness={model}", f"refresh_interval={interval}", "safety=4")
    law = 0.1 / (5e-4 * interval)
    margins = found["margins"]["at_value"]
    assert margins["law"] == pytest.approx(law)
    assert margins["exact"] == pytest.approx(ratio * law, rel=1e-4)
    rates = found["limits"]["learning_rate"]
    assert rates["threshold"]["exact"] == pytest.approx(0.01 * ratio * law, rel=1e-4)
    assert rates["safe"]["law"] == pytest.approx(0.01 * law / 4)
    assert rates["safe"]["exact"] == pytest.approx(0.01 * ratio * law / 4, rel=1e-4)
    interval_limits = found["limits"]["refresh_interval"]
    assert interval_limits["threshold"]["law"] == pytest.approx(200)  # 0.1/5e-4
    safe = int(interval_limits["safe"]["exact"])
    assert exact(model, safe, 0.9).kappa >= 4 * 5e-4 > exact(model, safe + 1, 0.9).kappa


def test_stiffness_from_a_log():
    """Delay 20 at N = 4: the law's margin is (20 + 1.5)/4 = 5.4; the interval's stiff end counts for safety."""
    found = advise(config(), write_log(), QUICK)
    delay = found["stiffness"]["delay"]
    assert delay["interval_90"][0] < 20 < delay["interval_90"][1]
    assert delay["interval_90"][1] - delay["interval_90"][0] < 4
    assert found["margins"]["at_value"]["law"] == pytest.approx(21.5 / 4, rel=0.08)
    assert found["margins"]["at_upper_end"]["law"] < found["margins"]["at_value"]["law"]
    assert found["stiffness"]["value"] == pytest.approx(found["stiffness"]["kappa"] / 1e-6)
    safe = found["limits"]["refresh_interval"]["safe"]
    assert safe["exact"] == 16  # four times as run: further is not judged from this curve
    assert safe["at_least"]
    assert found["groups"]["success"] == pytest.approx(0.8, abs=0.01)


def test_stiffness_of_a_simulated_bandit():
    """Two arms with GRPO's std, beta = 1, from a uniform start: K = 0.1382 at the plateau; the whole rise reads up to
    2.3 times that, and its margins are on the careful side. Planted: momentum in the wrong form is off by ten."""
    hyper = Hyper(*(np.array([value]) for value in (0.02, 0.9, 4, 1.0)))
    reward = np.asarray(trajectories(learner(), "mean_field", hyper, steps=480, dtype=np.float64))[0, 0, ::2]
    noise = 0.003 * np.random.default_rng(0).normal(size=reward.size)
    rows = [{"step": 2 * i, "reward": float(value)} for i, value in enumerate(reward + noise)]
    Path("log.json").write_text(json.dumps({"log_history": rows}))
    own = (
        "log=log.json",
        "learning_rate=0.02",
        "momentum=0.9",
        "refresh_interval=4",
        "step_unit=optimiser_step",
        QUICK,
    )
    found = advise(*own, "optimizer=sgd")
    assert 0.1382 < found["stiffness"]["value"] < 2.5 * 0.1382
    true_margin = exact("refresh", 4, 0.9).kappa / (0.02 * 0.1382)
    assert 0.4 * true_margin < found["margins"]["at_value"]["exact"] < true_margin
    assert advise(*own)["stiffness"]["value"] > 2.5 * 0.1382


def test_settings_that_the_log_repeats(capsys):
    path = Path(write_log())
    rows = json.loads(path.read_text())["log_history"]
    rows = [row | {"group_size": 16, "optimizer_updates_per_rollout_batch": 2} for row in rows]
    path.write_text(json.dumps({"log_history": rows}))
    found = advise("log=trainer_state.json", "learning_rate=1e-5", QUICK)
    assert found["staleness"]["interval"] == 2
    assert found["settings"]["group_size"]["value"] == 16
    assert "settings in the log" in found["trainer"]["recognised"][0]
    mixed = advise(f"config={config(VERL, 'c.json')}", f"log={path}", QUICK)
    assert any("looks like one of TRL" in note for note in mixed["log"]["notes"])


def test_runs_at_the_end_of_the_road(capsys):
    """A reward that is always given, and one that ends as no number: no advice on noise or margins."""
    Path("one.json").write_text(json.dumps([{"step": i, "reward": 1.0} for i in range(60)]))
    knob, *_, noise = (one["answer"] for one in advise("log=one.json", QUICK)["answers"])
    assert "always given" in knob
    assert "the same at every step" in noise
    rows = json.loads(Path(write_log(points=60)).read_text())["log_history"]
    Path("nan.json").write_text(json.dumps([*rows, *({"step": i, "reward": float("nan")} for i in range(61, 80))]))
    knob, *_, noise = (one["answer"] for one in advise("log=nan.json", QUICK)["answers"])
    assert "This run diverged: the reward is no number from step 61" in knob
    assert "no number" in noise


def test_slower_curves_have_larger_margins():
    slow, fast = (advise(config(), write_log(delay=d), QUICK)["margins"]["at_value"]["exact"] for d in (40.0, 4.0))
    assert slow / fast == pytest.approx(41.5 / 5.5, rel=0.15)


def test_a_margin_that_is_too_small(capsys):
    many = config(TRL.replace("num_iterations: 4", "num_iterations: 12"))
    found = advise(many, "delay=4", "safety=4", QUICK)
    assert 1 < found["margins"]["at_upper_end"]["exact"] < 4
    assert found["limits"]["refresh_interval"]["safe"]["exact"] < 12
    assert found["limits"]["learning_rate"]["safe"]["exact"] < 1e-6
    knob = found["answers"][0]
    assert knob["answer"].startswith("Stability:")
    assert "num_iterations" in knob["answer"]
    assert "learning_rate" in knob["answer"]


def test_steps_are_converted():
    """verl counts rollout cycles of 4 updates: the same curve is four times as slow in updates."""
    rows = [json.loads(line) for line in Path(write_log()).read_text().splitlines()]
    lines = [
        json.dumps({"step": r["step"], "data": {"critic/rewards/mean": r["reward"], "actor/pg_loss": 0.0}})
        for r in rows[0]["log_history"]
    ]
    Path("log.jsonl").write_text("\n".join(lines))
    found = advise(f"config={config(VERL, 'c.json')}", "log=log.jsonl", QUICK)
    assert found["log"]["step_unit"] == "rollout cycle"
    assert found["staleness"]["interval"] == 4
    assert found["stiffness"]["delay"]["value"] == pytest.approx(80, rel=0.1)


def test_not_identifiable_is_an_answer(capsys):
    flat = write_log(low=0.5, high=0.5, sigma=0.05)
    found = advise(config(), flat, QUICK, "-v")
    assert found["stiffness"]["value"] is None
    assert found["margins"]["at_value"] is None
    assert "If the reward responds within" in capsys.readouterr().out
    falling = advise(config(), write_log(low=0.9, high=0.1), QUICK)
    assert "falls" in falling["stiffness"]["value_reason"]


def test_the_schedule_of_the_learning_rate():
    """A log whose learning rate falls linearly to zero has twice its mean at the peak: the margin halves."""
    path = Path(write_log())
    rows = json.loads(path.read_text())["log_history"]
    steady = advise(config(), str(path), QUICK)["margins"]["at_value"]["exact"]
    for i, row in enumerate(rows):
        row["learning_rate"] = 1e-6 * (1 - i / len(rows))
    path.write_text(json.dumps({"log_history": rows}))
    falling = advise(config(), str(path), QUICK)["margins"]["at_value"]["exact"]
    assert falling == pytest.approx(steady / 2, rel=0.01)


def test_groups_and_wishes():
    found = advise(f"config={config()}", "success=0.1", "signal=0.9", "temperature=0.25", QUICK)["groups"]
    assert found["needed"]["signal"] == 22  # 0.9^22 + 0.1^22 < 0.1 <= 0.9^21
    assert found["needed"]["temperature"] == 32  # 8/0.25
    (own,) = [row for row in found["sizes"] if row["group_size"] == 8]
    assert own["silent_share_at_least"] == pytest.approx(0.9**8 + 0.1**8)
    assert own["temperature_over_now"] == 1
    half = advise(f"config={config()}", "success=0.5", QUICK)["groups"]["sizes"]
    assert [round(row["group_factor"], 3) for row in half if row["group_size"] in (4, 16, 64)] == [0.808, 0.967, 0.992]


def test_silence_seen_in_the_log(capsys):
    found = advise(config(), write_log(high=0.5, frac_reward_zero_std=0.4), QUICK)["groups"]
    assert found["observed_silent_share"] == pytest.approx(0.4)
    (own,) = [row for row in found["sizes"] if row["group_size"] == 8]
    assert own["silent_share_with_spread"] == pytest.approx(0.4)
    assert own["silent_share_at_least"] < 0.01
    assert found["needed"]["signal_with_spread"] > found["needed"]["signal"]
    lost = advise(config(), write_log(high=0.5, frac_reward_zero_std=1.0), QUICK)
    assert "No G mends this" in lost["answers"][0]["answer"]


def test_never_a_success():
    """The last fifth of 200 updates at K_ref = 4 has 10 batches of at least 8 answers, none right: p < 1 - 0.05^(1/80)
    at 95 %, and (1 - p)^G < 0.1 from G = 80 ln 0.1/ln 0.05 = 61.5."""
    found = advise(config(), write_log(low=0.0, high=0.0, sigma=0.0, frac_reward_zero_std=1.0), QUICK)["groups"]
    assert found["answers_seen"] == 80
    assert found["success_below_95"] == pytest.approx(1 - 0.05 ** (1 / 80))
    assert found["needed"]["signal"] == 62


def test_a_collapse_is_named(capsys):
    """A run that rises to 0.8 and falls to 0 in its last quarter: everything else is read from before the fall."""
    path = Path(write_log())
    rows = json.loads(path.read_text())["log_history"]
    for row in rows[150:]:
        row["reward"] *= float(np.exp(-(row["step"] - 150) / 5))
    path.write_text(json.dumps({"log_history": rows}))
    found = advise(config(), str(path), QUICK, "-v")
    assert " ".join(capsys.readouterr().out.split()).count("the reward fell by") == 1
    assert 140 <= found["log"]["collapse"]["steps"][0] <= 160
    assert found["answers"][0]["answer"].startswith("This run collapsed: the reward fell")
    assert "num_iterations" in found["answers"][0]["answer"]
    assert found["groups"]["success"] == pytest.approx(0.8, abs=0.02)
    assert found["stiffness"]["delay"]["value"] == pytest.approx(20, rel=0.1)
    whole = advise(config(), write_log(), QUICK)
    assert whole["log"]["collapse"] is None
    assert "collapsed" not in whole["answers"][0]["answer"]


def test_no_baseline_is_the_first_thing_to_mend(capsys):
    alone = json.loads(json.dumps(VERL))
    alone["actor_rollout_ref"]["rollout"]["n"] = 1
    found = advise(f"config={config(alone, 'c.json')}", QUICK)
    assert "no_baseline" in {trap["name"] for trap in found["traps"] if trap["severe"]}
    assert "rollout.n=1" in found["answers"][0]["answer"]
    assert "First: adv_estimator=grpo with rollout.n=1" in capsys.readouterr().out


def test_own_settings_win_and_options_speak_the_trainers_language():
    found = advise(config(), "options.num_iterations=2", "group_size=16", "learning_rate=3e-6", QUICK)
    assert found["staleness"]["interval"] == 2
    assert found["settings"]["group_size"] == {
        "value": 16.0, "origin": "option", "key": "group_size", "source": "", "unit": "answers",
    }  # fmt: skip
    dotted = advise(f"config={config(VERL, 'c.json')}", "options.actor_rollout_ref.actor.ppo_epochs=3", QUICK)
    assert dotted["staleness"]["interval"] == 12
    bare = advise("refresh_interval=4", "delay=10", QUICK)
    assert bare["margins"]["at_value"]["law"] == pytest.approx(11.5 / 4)
    assert bare["trainer"]["name"] == "own loop"
    assert "no configuration is given" in bare["trainer"]["recognised"][0]


def test_the_headline_follows_the_evidence():
    """No log: keep. A slow healthy curve: up to four times, by the law over 3.5 * 4.5. A fallen one: nothing more."""
    assert "Keep what you have" in advise(config(), QUICK)["headline"]
    assert advise(config(), QUICK)["permitted"]["basis"] == "no evidence"
    quick = advise(config(), write_log(), QUICK)
    assert (quick["permitted"]["basis"], quick["permitted"]["learning_rate_factor"]) == ("response time", 1)
    assert "used up" in quick["headline"]
    found = advise(config(), write_log(delay=100.0, points=600), QUICK)
    law = found["margins"]["at_upper_end"]["law"]
    assert found["permitted"]["learning_rate_factor"] == pytest.approx(law / (3.5 * 4.5), rel=1e-6)
    assert found["permitted"]["learning_rate"] == pytest.approx(1e-6 * law / (3.5 * 4.5), rel=1e-6)
    assert found["permitted"]["refresh_interval"] < found["limits"]["refresh_interval"]["safe"]["exact"]
    given = advise(config(), "stiffness=1000", QUICK)
    assert given["permitted"]["basis"] == "measured stiffness"
    assert given["permitted"]["learning_rate_factor"] == pytest.approx(given["margins"]["at_value"]["exact"] / 2)
    path = Path(write_log())
    rows = json.loads(path.read_text())["log_history"]
    for row in rows[140:]:
        row["reward"] *= 0.75
    path.write_text(json.dumps({"log_history": rows}))
    fallen = advise(config(), str(path), QUICK)
    assert fallen["permitted"]["basis"] == "failed run"
    assert fallen["permitted"]["learning_rate_factor"] <= 1
    assert fallen["permitted"]["refresh_interval"] <= 4


def test_log_and_settings_against_each_other():
    log = write_log(kl=0.02, **{"clip_ratio/region_mean": 0.1, "learning_rate": 2e-6})
    found = advise(config(TRL.replace("num_iterations: 4\nbeta: 0.01\n", "")), log, QUICK)
    notes = " ".join(found["log"]["notes"])
    assert "contradicts K_ref = 1 (assumed)" in notes
    assert "taken as off (assumed), but the log has 'kl'" in notes
    assert "largest learning rate in the log is 2e-06, the configuration has 1e-06: margins are for the log's" in notes
    assert found["settings"]["learning_rate"]["value"] == 2e-6
    assert found["permitted"]["basis"] == "no evidence"
    assert "Not staleness" not in json.dumps(found["answers"])
    quiet = " ".join(advise(config(), log, QUICK)["log"]["notes"])
    assert "contradicts K_ref" not in quiet
    assert "taken as off" not in quiet
