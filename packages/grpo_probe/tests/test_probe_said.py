"""Of which prompts the probe speaks, and what its line says of clipping and of a warm-up that goes on."""

import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from grpo_probe.probe_trl import TrlProbe

pytestmark = client.MARKS


def asked(trainer, **options):
    """Rows of the data that each of three measurements asks for, one a group."""
    drawn = []
    generate = trainer._generate_and_score_completions

    def spied(inputs):
        drawn.append([one["number"] for one in inputs[:: trainer.num_generations]])
        return generate(inputs)

    trainer._generate_and_score_completions = spied
    probe = TrlProbe(trainer, products=2, **options)
    for _ in range(3):
        probe.measure()
    return drawn


def numbered(folder, repeats=8):
    data = client.prompts(repeats)
    return client.trainer(folder, group_size=2, data=data.add_column("number", list(range(len(data)))))


def test_prompts_are_drawn_anew_one_group_each(tmp_path):
    """16 of 32 rows at a time, none twice; three equal draws of them would be chance of 3e-18."""
    first, second, third = asked(numbered(tmp_path))
    assert all(len(one) == len(set(one)) == 16 for one in (first, second, third))
    assert first != second != third
    assert max(first) > 16
    assert asked(numbered(tmp_path)) == [first, second, third]  # the run's seed draws them


def test_the_same_prompts_where_they_are_asked_for(tmp_path):
    assert asked(numbered(tmp_path), prompts=2, groups=2, anew=False) == [[0, 0, 1, 1]] * 3


def lines(folder, **settings):
    printed = []
    trainer = client.trainer(folder, group_size=4, max_steps=4, **settings)
    trainer.add_callback(TrlProbe(trainer, prompts=4, products=2, every=2, show=printed.append, strict=True))
    trainer.train()
    assert len(printed) == 2
    return printed, [row["grad_norm"] for row in trainer.state.log_history if "grad_norm" in row]


@pytest.mark.parametrize(("most", "expected"), [(1e-3, True), (1e3, False), (0.0, False)])
def test_clipping_is_told_where_it_acts(tmp_path, most, expected):
    printed, norms = lines(tmp_path, max_grad_norm=most)
    assert (min(norms) > most > 0) == expected
    assert all(("the last gradient was clipped to norm 0.001" in line) == expected for line in printed)
    assert all("clipped" in line for line in printed) == expected


def test_a_margin_at_the_peak_is_of_the_peaks_rate(tmp_path):
    trainer = client.trainer(tmp_path, max_steps=2, warmup_steps=10, lr_scheduler_type="constant_with_warmup")
    trainer.train()
    margin = TrlProbe(trainer, prompts=4).measure()
    assert margin.loop.learning_rate == pytest.approx(0.02)
    assert margin.peak.loop.learning_rate == pytest.approx(0.1)
    assert margin.peak.product == pytest.approx(5 * margin.product)
