"""What runs inside other people's trainers: a monitor of the run, and the stiffness of its own update.

    from grpo_probe.callback import StabilityCallback
    from grpo_probe.probe_trl import TrlProbe
    from grpo_probe.probe import StiffnessProbe

Each module imports what it needs: the first two TRL, the last PyTorch.
"""

__version__ = "0.1.0"
