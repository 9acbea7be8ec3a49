"""`executorch_py completion`: scripts of shells that complete commands, options and files.

The scripts are made from the argument parser, so that an option is completed as soon as it exists.
Options of a fixed set of values complete these; every other word completes to file names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

INSTALL = {
    "bash": 'eval "$(executorch_py completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(executorch_py completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "executorch_py completion fish | source   # in ~/.config/fish/config.fish",
}


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script of a shell, to be evaluated by it."""
    commands = _commands(parser)
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)
    return f"# {INSTALL[shell]}\n{script}"


Commands = dict[str, tuple[str, argparse.ArgumentParser]]


def _commands(parser: argparse.ArgumentParser) -> Commands:
    """The commands with their help and parsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (helps.get(name, ""), made) for name, made in action.choices.items()}
    return {}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command, then those of the commands that it has of its own."""
    yield from parser._actions
    for _, inner in _commands(parser).values():
        yield from _actions(inner)


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    options = (action for action in _actions(parser) if action.option_strings)
    return iter({tuple(action.option_strings): action for action in options}.values())


def _values(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], list[str]]]:
    """Options that take one of some values, and the values; no options for a positional one."""
    for action in _actions(parser):
        if action.choices is not None:
            yield list(action.option_strings), [str(choice) for choice in action.choices]


def _bash(commands: Commands) -> str:
    lines = [
        "_executorch_py() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
        "  if [ $COMP_CWORD -eq 1 ]; then",
        f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]} $before" in',
    ]
    for name, (_, parser) in commands.items():
        for options, values in _values(parser):
            patterns = "|".join(f'"{name} {option}"' for option in options or [name])
            words = f'COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return'
            lines.append(f"    {patterns}) {words} ;;")
    lines += ["  esac", '  case "${COMP_WORDS[1]}" in']
    for name, (_, parser) in commands.items():
        words = " ".join(o for action in _options(parser) for o in action.option_strings)
        lines.append(f'    {name}) COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;')
    lines += [
        "  esac",
        '  case "$word" in -*) ;; *) COMPREPLY=($(compgen -f -- "$word")) ;; esac',
        "}",
        "complete -o filenames -F _executorch_py executorch_py",
    ]
    return "\n".join(lines)


def _zsh(commands: Commands) -> str:
    lines = ["_executorch_py() {", "  if (( CURRENT == 2 )); then", "    local -a names=("]
    lines += [f"      '{name}:{_plain(text)}'" for name, (text, _) in commands.items()]
    lines += ["    )", "    _describe command names", "    return", "  fi", "  case $words[2] in"]
    for name, (_, parser) in commands.items():
        arguments = []
        for action in _options(parser):
            values = "" if action.nargs == 0 else f":{action.dest}:{_zsh_values(action)}"
            for option in action.option_strings:
                arguments.append(f"'*{option}[{_plain(action.help or '')}]{values}'")
        place = "1" if _commands(parser) else "*"
        for action in parser._actions:
            if not action.option_strings:
                arguments.append(f"'{place}:{action.dest}:{_zsh_values(action)}'")
        if place == "1":
            arguments.append("'*:file:_files'")
        lines += [f"    {name})", "      shift words; (( CURRENT-- ))"]
        lines.append("      _arguments " + " \\\n        ".join(arguments) + " ;;")
    return "\n".join([*lines, "  esac", "}", "compdef _executorch_py executorch_py"])


def _zsh_values(action: argparse.Action) -> str:
    return f"({' '.join(map(str, action.choices))})" if action.choices is not None else "_files"


def _fish(commands: Commands) -> str:
    lines = []
    for name, (text, parser) in commands.items():
        lines.append(
            f"complete -c executorch_py -n __fish_use_subcommand -a {name} -d '{_plain(text)}'"
        )
        here = f"complete -c executorch_py -n '__fish_seen_subcommand_from {name}'"
        for options, values in _values(parser):
            if not options:
                lines.append(f"{here} -f -a '{' '.join(values)}'")
        for action in _options(parser):
            words = [
                f"-{'l' if o.startswith('--') else 's'} {o.lstrip('-')}"
                for o in action.option_strings
            ]
            takes = "" if action.nargs == 0 else " -r"
            if action.choices is not None:
                takes = f" -x -a '{' '.join(map(str, action.choices))}'"
            lines.append(f"{here} {' '.join(words)}{takes} -d '{_plain(action.help or '')}'")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A help text without characters that a shell's script would read."""
    return "".join(c for c in text.replace("%%", "%") if c not in "'\"[]:\\`$")
