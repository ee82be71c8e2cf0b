"""bandit_lab: a laboratory for the dynamics of Group Relative Policy Optimization on softmax bandits.

The rooms, each importing only what stands to its right or on a later line:

    study -> measure, curves -> simulate -> grpo -> bandits
    study, curves -> theory

`theory` predicts from numbers alone; `bandits`, `grpo` and `simulate` run the update itself. Neither side imports
the other, so that a prediction and a measurement are two independent witnesses.
"""

__version__ = "0.1.0"
