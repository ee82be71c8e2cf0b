"""Trainers' configurations: read from files that are not trusted, and understood as each trainer implements them."""

from grpo_clinic.trainers.in_log import settings_of_log
from grpo_clinic.trainers.known import TRAINERS, recipe_in_log, recipe_of
from grpo_clinic.trainers.recipe import Recipe
