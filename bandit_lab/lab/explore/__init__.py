"""`explore`: the stability map as one page that a browser opens without a network.

command    the command: checks, the tables, the page, the browser
tables     thresholds, onsets and example runs, computed when the page is written
page/      template and script; the only theory in them is the law's one line
"""
