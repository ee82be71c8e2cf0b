"""Completion in bash, zsh and fish, by the script `bandit-lab`: of commands, settings, variants and their options.

Hydra's own knows no commands. What is offered is read from the schemas and the variants' sources, as the help is.
"""

from bandit_lab.app.settings.config import CHOICES, SCHEMAS
from bandit_lab.app.settings.schema import is_name, setting_fields
from bandit_lab.app.terminal import choices
from bandit_lab.app.terminal.commands import COMMANDS

_BASH = """\
_bandit_lab() {
    local IFS=$'\\n' word=${COMP_LINE:0:COMP_POINT}
    word=${word##* }
    COMPREPLY=($("$1" -sc query=bash "${COMP_LINE:0:COMP_POINT}" 2> /dev/null))
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}"); fi
}
complete -o nospace -o default -F _bandit_lab bandit-lab
"""
"""Where `=` ends a word of readline's, it wants the rest."""
_ZSH = """\
_bandit_lab() {
    local -a found
    found=("${(@f)$(bandit-lab -sc query=zsh "${BUFFER[1,CURSOR]}" 2> /dev/null)}")
    [[ -n $found ]] && compadd -Q -S '' -- $found || _files
}
compdef _bandit_lab bandit-lab
"""
_FISH = """\
complete --command bandit-lab --no-files --arguments \
    '(bandit-lab -sc query=fish (commandline --cut-at-cursor) 2> /dev/null | string trim)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""What `bandit-lab -sc install=<shell>` prints. A shell asks with `query=<shell>` and the line before the cursor."""
OPTIONS = ("-m", "--help", "--cfg job")


def candidates(line: str) -> list[str]:
    """Completions of the last word of a line; a space behind those that are whole."""
    *before, word = line.split(" ")
    given = [one for one in before[1:] if one]
    return [one if one.endswith("=") else f"{one} " for one in _known(given, word) if one.startswith(word)]


def _known(given: list[str], word: str) -> list[str]:
    if not given:
        return [*COMMANDS, "--help"]
    if given[0] == "--help":
        return [*COMMANDS, *CHOICES]
    if given[0] not in COMMANDS:
        return []
    fields = dict(setting_fields(SCHEMAS[given[0]]))
    if given[-1] == "--help":
        return ["all", *fields]
    key, equals, _ = word.partition("=")
    if equals and key in CHOICES and key in fields:
        return [f"{key}={name}" for name in fields[key].metadata["names"] or choices.names_of(key)]
    if equals and key in fields and fields[key].type is bool:
        return [f"{key}=true", f"{key}=false"]
    chosen = dict(one.split("=", 1) for one in given if "=" in one)
    options = [
        option
        for group in CHOICES
        if group in fields and group != "optimizer" and not is_name(fields[group])  # those need optax
        for option, _ in _options(group, chosen.get(group, fields[group].metadata["variant"]))
    ]
    return [*(f"{name}=" for name in (*fields, *options)), *OPTIONS]


def _options(group: str, name: str) -> list[tuple[str, str]]:
    return choices.options_of(group, name) if name in choices.names_of(group) else []
