"""A run judged while it lives, from the metrics that its trainer logs: NumPy alone, bounded memory.

history    one quantity as at most a fixed number of block means
spending   how sure a look has to be, so that false alarms stay rare over a whole run
monitor    the rows as they come, the looks at them, the alarms
"""

from grpo_clinic.monitor.monitor import Alarm, Monitor

__all__ = ["Alarm", "Monitor"]
