"""K of the probe against the enumerated Jacobian of the tiny model, and what it leaves untouched.

With all groups enumerated nothing is random. Sampled: 4 prompts, 100 groups each, seeds 0 and 1, within 3 standard
errors each; for normal errors one of them alarms falsely with probability 0.005.
"""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
import torch
import truth
from grpo_probe import probe_operator
from grpo_probe.probe import arnoldi
from grpo_probe.probe_margin import Loop
from grpo_probe.probe_ranks import Ranks
from grpo_probe.probe_trl import TrlProbe, groups_of, optimiser, undisturbed
from grpo_probe.stiffness import standard_error
from settings import nightly_but
from torch.profiler import ProfilerActivity, profile

pytestmark = client.MARKS

SIZE, BETA = 2, 0.3
CASES = {"none-corrected": ("none", True, 2), "none-plain": ("none", False, 2), "group-plain": ("group", False, 3)}
"""Scale of the advantage, KL term corrected, group size: with two in a group a scaled advantage is but a sign."""
NAMES = list(CASES)


def enumerated(trainer, size=SIZE):
    """All groups of `size` with their probabilities, advantages and reference by the trainer itself."""
    sets, ways = truth.multisets(size)
    policy = client.policy(trainer.model)
    count = len(client.PROMPTS)
    answers = [[int(word)] for _ in range(count) for group in sets for word in group]
    rows = [dict(trainer.train_dataset[x]) for x in range(count) for _ in range(sets.size)]
    weights = np.concatenate([ways * np.prod(policy[x][sets], axis=1) / count for x in range(count)])
    trainer._generate_single_turn = lambda *given: (answers, None)
    try:
        trainer.model.train()
        with undisturbed(trainer):
            batch = trainer._generate_and_score_completions(rows)
    finally:
        del trainer._generate_single_turn
    return groups_of(trainer, batch, size, np.repeat(np.arange(count), len(sets)), weights)


class Case:
    """A trainer away from its reference, all its groups and its dense truth."""

    def __init__(self, folder, scale, corrected, size):
        self.reference = client.model(width=8)
        self.trainer = client.trainer(
            folder,
            policy=client.model(seed=3, width=8),
            reference=self.reference,
            beta=BETA,
            group_size=size,
            scale_rewards=scale,
            num_iterations=2,
            use_bias_correction_kl=corrected,
        )
        self.groups = enumerated(self.trainer, size)
        self.truth = truth.truth(self.trainer.model, self.reference, size, BETA, scale == "group", corrected)
        self.probe = TrlProbe(self.trainer, rows_per_forward=4096, tolerance=1e-3)

    def operator(self, method="double_backward"):
        parameters = list(self.trainer.model.parameters())
        with undisturbed(self.trainer):
            return probe_operator.Operator(parameters, self.groups, None, None, 4096, method)


def made_once(tmp_path_factory):
    """The case of a name, made when it is first asked for."""
    cases = {}

    def case(name):
        if name not in cases:
            cases[name] = Case(tmp_path_factory.mktemp(name), *CASES[name])
        return cases[name]

    return case


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return made_once(tmp_path_factory)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("method", "tolerance"), [("double_backward", 1e-4), ("central", 3e-3)])
def test_products_are_those_of_the_dense_jacobian(cases, name, method, tolerance):
    """Along a random direction and along the leading one; fresh and stale parts apart, seen from the other of both."""
    case = cases(name)
    operator = case.operator(method)
    parts = np.stack((case.truth.fresh, case.truth.stale))
    total = parts.sum(axis=0)
    values, vectors = np.linalg.eig(total)
    leading = vectors[:, values.real.argmax()].real
    random = np.random.default_rng(0).standard_normal(len(total))
    for u, v in ((leading, random), (random, leading)):
        left, right = (torch.tensor(one, dtype=torch.float32) for one in (u, v))
        image = operator.product(right, case.groups.weights).numpy()
        assert np.linalg.norm(image - total @ v) < tolerance * np.linalg.norm(total @ v)
        each = case.groups.weights @ operator.contributions(left, right)
        assert np.abs(each - parts @ v @ u).max() < tolerance * np.linalg.norm(u) * np.linalg.norm(total @ v)


def small(weights=None):
    """Six groups of four answers by a policy of two layers in float64, with factors, decay and entries left out."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 5)).double()
    asked = torch.randn(24, 4, generator=generator, dtype=torch.float64)
    answers = torch.randint(5, (24, 2), generator=generator)
    gain = torch.randn(24, 1, generator=generator, dtype=torch.float64)
    rows = [slice(4 * place, 4 * place + 4) for place in range(6)]

    def loss_of(here):
        return lambda present, old: ((present - old).exp() * gain[here] + 0.3 * present**2).mean()

    losses = [loss_of(here) for here in rows]
    parameters = list(policy.parameters())
    scale = [1 + torch.rand(one.shape, generator=generator, dtype=torch.float64) for one in parameters]
    groups = probe_operator.Groups(
        lambda here: torch.log_softmax(policy(asked[here]), dim=-1).gather(1, answers[here]),
        torch.ones(24, 2),
        rows,
        losses,
        [0] * 6,
        weights,
    )
    operator = probe_operator.Operator(parameters, groups, scale, [0.1, 0.2, 0.3, 0.4], None, "double_backward")
    size = sum(one.numel() for one in parameters)
    operator.kept = torch.arange(size) % 7 != 0
    return operator, torch.randn(2, size, generator=generator, dtype=torch.float64)


def test_contributions_are_products_with_one_group_alone_at_the_cost_of_two():
    """Central differences in float64 err by eps^(2/3), 4e-11; those of a product are along both at once."""
    operator, (u, v) = small(weights=np.full(6, 1 / 6))
    alone = [float(u @ operator.product(v, one)) for one in np.eye(6)]
    before = operator.rows_passed
    operator.product(v, np.ones(6))
    product, before = operator.rows_passed - before, operator.rows_passed
    each = operator.contributions(u, v)
    assert operator.rows_passed - before <= 2 * product
    np.testing.assert_allclose(each.sum(axis=1), alone, rtol=0, atol=1e-9 * np.abs(alone).max())
    chosen = np.arange(6) % 2 == 0
    np.testing.assert_allclose(operator.contributions(u, v, chosen), each * chosen[:, None], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_exact_expectations_give_the_leading_eigenvalue_to_one_per_cent(cases, name):
    case = cases(name)
    stiffness = case.probe.stiffness(case.groups)
    assert stiffness.method == "double_backward"
    assert stiffness.value == pytest.approx(case.truth.leading, rel=0.01)
    assert stiffness.standard_error == 0
    assert stiffness.fresh + stiffness.stale == pytest.approx(stiffness.value)
    total = case.truth.fresh + case.truth.stale
    right, left = np.linalg.eig(total), np.linalg.eig(total.T)
    v, u = (pair[1][:, pair[0].real.argmax()].real for pair in (right, left))
    assert stiffness.stale == pytest.approx(u @ case.truth.stale @ v / (u @ v), abs=0.02 * stiffness.value)


def test_planted_a_probe_that_forgets_the_sampling_law_misses(cases, monkeypatch):
    """Without the score of the groups the stale part of the uncorrected KL term is lost, and 1 % is missed."""
    case = cases("none-plain")
    along = probe_operator._Tokens.along
    monkeypatch.setattr(probe_operator._Tokens, "along", lambda self, t: along(self, torch.zeros_like(t)))
    assert case.probe.stiffness(case.groups).value != pytest.approx(case.truth.leading, rel=0.01)


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """A policy near its reference, as in training, with groups of 8; its trainer and its K."""
    reference, policy = client.model(width=8), client.model(width=8)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in policy.parameters():
            one += 0.1 * torch.randn(one.shape, generator=generator)
    folder = tmp_path_factory.mktemp("near")
    settings = {"beta": BETA, "group_size": 8, "num_iterations": 2, "use_bias_correction_kl": False}
    trainer = client.trainer(folder, policy=policy, reference=reference, **settings)
    return trainer, truth.truth(trainer.model, reference, 8, BETA, False, False).leading


@pytest.mark.parametrize("seed", nightly_but([0], [0, 1]))
def test_sampled_groups_are_within_three_standard_errors(near, seed):
    """The error bar says something: it is below a quarter of K. Planted: an update half as large.

    K is linear in the update, so that half of it would be measured as half of K, with half of the error.
    """
    trainer, k = near
    probe = TrlProbe(trainer, prompts=4, groups=100, anew=False, rows_per_forward=4096, tolerance=1e-2, products=16)
    with undisturbed(trainer):
        torch.manual_seed(seed)
        groups = probe.sample()
    stiffness = probe.stiffness(groups)
    assert abs(stiffness.value - k) < 3 * stiffness.standard_error
    assert stiffness.standard_error < 0.25 * k
    high, low = stiffness.in_sample, stiffness.crossed
    assert stiffness.value == pytest.approx(high - (high - low) / 3)  # half the groups: twice the bias, of other sign
    assert abs(stiffness.value / 2 - k) > 3 * stiffness.standard_error / 2


def drawn(case, repetitions, each_prompt):
    """v . A v of the leading direction by 4 prompts with some groups each: estimates, their errors, the dense truth."""
    total = case.truth.fresh + case.truth.stale
    values, vectors = np.linalg.eig(total)
    v = vectors[:, values.real.argmax()].real
    probe = TrlProbe(case.trainer, prompts=4, groups=each_prompt, anew=False)
    direction, products = torch.tensor(v, dtype=torch.float32), []
    with undisturbed(case.trainer):
        for seed in range(repetitions):
            torch.manual_seed(seed)
            groups = probe.sample()
            parameters = list(case.trainer.model.parameters())
            operator = probe_operator.Operator(parameters, groups, None, None, 4096, "double_backward")
            each = operator.contributions(direction, direction).sum(axis=1)
            product = float(direction @ operator.product(direction, np.full(len(each), 1 / len(each))))
            assert product == pytest.approx(each.mean(), rel=1e-3, abs=1e-3)
            products.append((each.mean(), standard_error(each, np.asarray(groups.prompts))))
    return *np.array(products).T, v @ total @ v


@pytest.mark.parametrize("each_prompt", nightly_but([2], [1, 2, 3]))
def test_the_score_of_a_group_is_centred_on_the_others_without_bias(cases, each_prompt):
    """64 draws, seeds 0 to 63: mean within 4 standard errors (false alarm 6e-5), errors of the size of the spread."""
    estimates, errors, exact = drawn(cases("none-plain"), 64, each_prompt)
    assert abs(estimates.mean() - exact) < 4 * estimates.std(ddof=1) / 64**0.5
    assert 0.7 < np.sqrt((errors**2).mean()) / estimates.std(ddof=1) < 1.4


def test_processes_with_unequal_numbers_of_groups_keep_their_own():
    assert [Ranks((3, 1, 2), rank).own(np.arange(6)).tolist() for rank in range(3)] == [[0, 1, 2], [3], [4, 5]]


def covariances(each_prompt, factor=True):
    """20,000 sets, seed 0, of 4 prompts with a mean update each: estimates of a covariance of 0.5, and their errors."""
    operator = object.__new__(probe_operator.Operator)
    prompts = np.repeat(np.arange(4), each_prompt)
    operator.groups = SimpleNamespace(weights=None, prompts=prompts)
    operator.ranks = Ranks((len(prompts),))
    generator, samples = np.random.default_rng(0), []
    for _ in range(20_000):
        score = generator.standard_normal(len(prompts))
        slope = 0.5 * score + generator.standard_normal(len(prompts)) + prompts
        mean, share = operator.mean_of(score, range(len(prompts)))
        each = (score - mean) * (share if factor else 1) * (slope - operator.mean_of(slope, range(len(prompts)))[0])
        samples.append((each.mean(), standard_error(each, prompts)))
    return np.array(samples).T


@pytest.mark.parametrize(
    ("each_prompt", "lost"), nightly_but([(1, 1 / 4), (2, 1 / 8)], [(1, 1 / 4), (2, 1 / 8), (3, 1 / 3), (8, 1 / 8)])
)
def test_the_centred_score_has_the_covariance_and_its_error(each_prompt, lost):
    """Mean within 4 standard errors, errors within a third of the spread. Planted: the own group left in the mean."""
    estimates, errors = covariances(each_prompt)
    allowed = 4 * estimates.std() / 20_000**0.5
    assert abs(estimates.mean() - 0.5) < allowed
    assert 0.75 < np.sqrt((errors**2).mean()) / estimates.std() < 1.33
    planted = covariances(each_prompt, factor=False)[0].mean()
    assert abs(planted - 0.5) > allowed
    assert abs(planted - 0.5 * (1 - lost)) < allowed


def test_nothing_is_disturbed(tmp_path):
    """With and without the probe: the same bits of the weights, and of the log except the probe's columns."""
    ends, logs = [], []
    for asked in (False, True):
        trainer = client.trainer(tmp_path, beta=0.1, learning_rate=0.2, max_steps=4, num_iterations=2)
        lines = []
        if asked:
            trainer.add_callback(TrlProbe(trainer, every=2, prompts=8, show=lines.append, products=4))
        trainer.train()
        ends.append(client.policy(trainer.model))
        timed = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second")
        logs.append(
            [
                {key: value for key, value in entry.items() if "probe/" not in key and key not in timed}
                for entry in trainer.state.log_history
            ]
        )
    np.testing.assert_array_equal(*ends)
    assert logs[0] == logs[1]
    assert len(lines) == 2
    assert "stiffness K = " in lines[0]
    assert "forward-backward passes" in lines[0]
    assert any("probe/stiffness" in entry for entry in trainer.state.log_history)


def lora(policy, rank=2):
    """Low-rank adapters on the attention of a Qwen2, by peft, drawn so that they act."""
    import peft

    config = peft.LoraConfig(r=rank, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    torch.manual_seed(2)
    return peft.get_peft_model(policy, config)


@pytest.mark.parametrize("kind", ["lora", "checkpointed", "checkpointed-central"])
def test_adapters_and_gradient_checkpointing(tmp_path, kind):
    """Only the adapters' parameters count: K is that of the dense Jacobian by them. Checkpointing changes nothing."""
    policy = client.model(seed=3, width=8)
    policy = lora(policy) if kind == "lora" else policy
    settings = {"beta": 0.0, "group_size": SIZE, "num_iterations": 2}
    plain = client.trainer(tmp_path, policy=policy, **settings)
    if kind == "lora":
        expected = truth.truth(plain.model, client.model(width=8), SIZE, 0.0, False, False)
        assert len(expected.fresh) < 250
        stiffness = TrlProbe(plain, rows_per_forward=4096).stiffness(enumerated(plain))
        assert stiffness.value == pytest.approx(expected.leading, rel=0.01)
        return
    method = "central" if "central" in kind else "auto"
    checked = client.trainer(tmp_path, policy=client.model(seed=3, width=8), **settings)
    checked.model.gradient_checkpointing_enable({"use_reentrant": False})
    checked.model.train()
    assert checked.model.model.layers[0].gradient_checkpointing
    values = [
        TrlProbe(one, rows_per_forward=4096, method=way).stiffness(enumerated(one)).value
        for one, way in ((plain, "auto"), (checked, method))
    ]
    assert values[1] == pytest.approx(values[0], rel=0.01)


def test_the_momentum_and_adams_preconditioner_are_the_optimisers(tmp_path):
    """K of a step scaled as the optimiser's state scales it, against the dense Jacobian scaled alike; and its loop."""
    for name, more in (
        ("sgd", {"optim_args": "momentum=0.8"}),
        ("adamw_torch", {"adam_beta1": 0.7, "weight_decay": 0.1}),
    ):
        policy = client.model(seed=3, width=8)
        settings = {
            "group_size": SIZE,
            "num_iterations": 3,
            "max_steps": 6,
            "learning_rate": 1e-3,
            "optim": name,
            **more,
        }
        trainer = client.trainer(tmp_path, policy=policy, **settings)
        trainer.train()
        parameters = list(trainer.model.parameters())
        update = optimiser(trainer, parameters)
        scale, loop = update.scale, update.loop
        expected = truth.truth(trainer.model, client.model(width=8), SIZE, 0.0, False, False)
        stiffness = TrlProbe(trainer, rows_per_forward=4096).stiffness(enumerated(trainer))
        if name == "sgd":
            assert loop == Loop(1e-3, 0.8, "heavy_ball", "refresh", 3)
            assert scale == [1.0] * len(parameters)
            assert stiffness.value == pytest.approx(expected.leading, rel=0.01)
            continue
        assert loop == Loop(1e-3, 0.7, "ema", "refresh", 3)
        state = trainer.optimizer.state
        moments = [state[one]["exp_avg_sq"] / (1 - 0.999**6) for one in parameters]
        factor = torch.cat([1 / (one.sqrt() + 1e-8).reshape(-1) for one in moments]).double().numpy()
        mask = [not ("norm" in key or "bias" in key) for key, _ in trainer.model.named_parameters()]
        decay = np.concatenate([np.full(one.numel(), 0.1 * k) for one, k in zip(parameters, mask, strict=True)])
        squares = [state[one]["exp_avg_sq"] for one in parameters]
        mask = torch.cat([((v > 0) & (v >= 1e-6 * v.median())).reshape(-1) for v in squares]).numpy()
        dense = (mask * factor)[:, None] * (expected.fresh + expected.stale) + np.diag(decay)
        assert stiffness.value == pytest.approx(np.linalg.eigvals(dense).real.max(), rel=0.01)
        assert stiffness.left_out == pytest.approx(1 - mask.mean())
        everything = factor[:, None] * (expected.fresh + expected.stale)
        assert np.linalg.eigvals(everything).real.max() > 1e4 * stiffness.value  # what 1/eps makes of words never seen


def peak(call):
    """Bytes that PyTorch holds at most during a call, over what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    events = [one for one in profiled.profiler.kineto_results.events() if one.name() == "[memory]"]
    held = np.cumsum([one.nbytes() for one in sorted(events, key=lambda one: one.start_ns())])
    return max(0, int(held.max()))


@pytest.mark.parametrize("method", ["double_backward", "central"])
def test_memory_is_at_most_twice_a_training_steps(tmp_path, method):
    """Where weights fill it, not activations. The basis of the search is not counted: it lies in the host's memory."""
    trainer = client.trainer(tmp_path, policy=client.model(width=512), optim="adamw_torch", groups=1, group_size=4)
    trainer.num_iterations, trainer.current_gradient_accumulation_steps = 2, 1
    optimizer, parameters = trainer.create_optimizer(), list(trainer.model.parameters())
    with undisturbed(trainer):
        batch = trainer._generate_and_score_completions([dict(trainer.train_dataset[0]) for _ in range(4)])

        def step():
            trainer._compute_loss(trainer.model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        weights = sum(one.numel() * one.element_size() for one in parameters)
        resident = 3 * weights  # with Adam's two moments
        trained = resident + peak(step)
        groups = groups_of(trainer, batch, 4, [0])
        operator = probe_operator.Operator(parameters, groups, None, None, None, method)
        v = torch.randn(weights // 4, generator=torch.Generator().manual_seed(0))
        probed = resident + weights + peak(lambda: operator.product(v, np.ones(1)))
    assert weights > 8e6
    assert probed <= 2 * trained


def test_arnoldi_finds_the_leading_pair_of_a_matrix_that_is_not_symmetric():
    """Largest real part, not largest modulus, with its left vector."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.eye(60) + 0.1 * torch.randn(60, 60, generator=generator) / 60**0.5
    values = torch.cat([torch.tensor([2.0, -3.0]), torch.linspace(-1, 1.4, 58)])
    matrix = basis @ torch.diag(values) @ torch.linalg.inv(basis)
    [(left, right)], value, residual = arnoldi(lambda v: matrix @ v, torch.ones(60), 40, 1e-4)
    assert value.real == pytest.approx(2, rel=1e-3)
    assert residual < 1e-4
    assert float((matrix @ right - 2 * right).norm()) < 0.01
    assert float(left @ matrix @ right) == pytest.approx(2, rel=1e-3)
    matrix[:2, :2], matrix[:2, 2:], matrix[2:, :2] = torch.tensor([[2.0, -1.0], [1.0, 2.0]]), 0.0, 0.0
    pairs, value, _ = arnoldi(lambda v: matrix @ v, torch.ones(60), 40, 1e-5)
    assert abs(value - (2 + 1j)) < 1e-3 or abs(value - (2 - 1j)) < 1e-3
    assert sum(float(u @ matrix @ v) for u, v in pairs) == pytest.approx(2, rel=1e-3)
