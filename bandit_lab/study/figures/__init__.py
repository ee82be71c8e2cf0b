"""What the experiments are made of, one folder each: `predict`, `measure`, `draw`; `problem` holds what all are told.

The question, the prediction in words and the claims stand in `experiments/<id>.py`. Prediction and measurement are
independent witnesses: `predict` never imports simulation or measurement, `measure` never theory, `problem` and `draw`
neither. Only what `measure` leads to decides whether a stored measurement is out of date.
"""
