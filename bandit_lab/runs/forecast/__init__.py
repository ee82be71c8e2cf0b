"""What a reward curve will do next, with the record of those forecasts on other curves."""
