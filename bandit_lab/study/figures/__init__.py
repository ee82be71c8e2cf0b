"""What the experiments are made of, a folder each: `predict`, `measure`, `draw`; `problem` holds what all are told.

`read`, where there is one, holds the numbers that claims compare; `table` a Markdown table that stands below them.

The question, the prediction in words and the claims stand in `experiments/<id>.py`. Prediction and measurement are
independent witnesses: `predict` never imports simulation or measurement, `measure` never theory, `problem` and `draw`
neither. Only what `measure` leads to decides whether a stored measurement is out of date.
"""
