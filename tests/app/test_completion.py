"""Completion: what the last word of a line may become, and bash with the script that is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bandit_lab.app.cli import BAD_INPUT, OK, main
from bandit_lab.app.terminal import choices, completion
from bandit_lab.app.terminal.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ENDS = {
    "bandit-lab pre": ["predict "],
    "bandit-lab predict learn": ["learning_rate="],
    "bandit-lab predict staleness=la": ["staleness=lag "],
    "bandit-lab explore estimator=": [f"estimator={name} " for name in ("frozen", "uncorrected", "ratio")],
    "bandit-lab predict bandit.rew": ["bandit.rewards="],
    "bandit-lab predict estimator=clipped estimator.": ["estimator.epsilon="],
    "bandit-lab predict estimator=unknown estimator.": [],
    "bandit-lab sweep overwrite=": ["overwrite=true ", "overwrite=false "],
    "bandit-lab predict --help moment": ["momentum "],
    "bandit-lab --help ad": ["advise ", "advantage "],
    "bandit-lab fit my_run/": [],
    "bandit-lab predct stale": [],
}


@pytest.mark.parametrize("line", ENDS)
def test_what_a_word_may_become(line):
    assert completion.candidates(line) == ENDS[line]


def test_every_command_and_every_variant_is_offered():
    assert [one.strip() for one in completion.candidates("bandit-lab ")] == [*COMMANDS, "--help"]
    found = completion.candidates("bandit-lab predict advantage=")
    assert [one.strip().removeprefix("advantage=") for one in found] == choices.names_of("advantage")


@pytest.mark.parametrize("breaks", [" =", " "])
def test_bash_completes_with_the_script_that_is_installed(breaks, capsys):
    """With `=` among the characters that end a word readline wants what follows it, else the whole word."""
    assert main(["-sc", "install=bash"]) == OK
    call = f'bandit-lab() {{ "{sys.executable}" -m bandit_lab "$@"; }}\n{capsys.readouterr().out}'
    ask = f"COMP_WORDBREAKS='{breaks}'; _bandit_lab bandit-lab; printf '<%s>' \"${{COMPREPLY[@]}}\""
    answers = {"bandit-lab predict staleness=r": "staleness=", "bandit-lab predict mom": ""}
    for line, key in answers.items():
        environment = os.environ | {"PYTHONPATH": str(ROOT), "COMP_LINE": line, "COMP_POINT": str(len(line))}
        done = subprocess.run(["bash", "-c", call + ask], env=environment, capture_output=True, text=True, check=True)
        kept = key if breaks == " " else ""
        whole = [f"{kept}{name} " for name in ("random", "random_mean", "refresh")] if key else ["momentum="]
        assert done.stdout == "".join(f"<{one}>" for one in whole)


ASK = {
    "zsh": 'compdef() {{ }}; compadd() {{ print -rn -- "${{@[5,-1]}}" }}\n{script}\n'
    "BUFFER='{line}' CURSOR={end}; _bandit_lab",
    "fish": "{script}\ncomplete -C '{line}'",
}
"""What has a shell complete a line: zsh by the function with its own commands replaced, as it has no line here."""


@pytest.mark.parametrize("shell", ASK)
def test_other_shells_complete_with_their_scripts(shell, capsys, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    command = tmp_path / "bandit-lab"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bandit_lab "$@"\n')
    command.chmod(0o755)
    assert main(["-sc", f"install={shell}"]) == OK
    line = "bandit-lab predict staleness=r"
    text = ASK[shell].format(line=line, end=len(line), script=capsys.readouterr().out)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"staleness={name}" for name in ("random", "random_mean", "refresh")]


def test_another_shell_is_one_line(capsys):
    assert main(["-sc", "install=csh"]) == BAD_INPUT
    assert capsys.readouterr().err == "bandit_lab: -sc: expected install=bash, zsh or fish, got 'install=csh'\n"
