"""`soar data`: list, fetch and verify datasets."""

from __future__ import annotations

import argparse
from pathlib import Path

from soar.cli.common import width
from soar.errors import UserError, printable
from soar.text import beside

DESCRIPTION = "List datasets, fetch their files, verify that they are whole."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `list`, `fetch NAME` and `verify NAME`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_action(actions, "list", "show every dataset and whether it is here")
    fetch = _add_action(actions, "fetch", "get the files of a dataset")
    verify = _add_action(actions, "verify", "check every file of a dataset against its md5")
    for action in (fetch, verify):
        action.add_argument("name", metavar="NAME", help="such as cifar10; see `soar data list`")
    fetch.add_argument(
        "--from",
        dest="origin",
        metavar="PLACE",
        help="a folder or a URL that holds the publisher's files, in place of the publisher's site",
    )
    fetch.add_argument(
        "--allow-unverified",
        action="store_true",
        help="take files with other contents than were published from --from, as the dataset NAME-unverified",
    )
    fetch.add_argument("--quiet", action="store_true", help="show no progress")


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    action.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the folder of all datasets (default: SOAR_DATA, else ~/.cache/soar/data)",
    )
    return action


def run(arguments: argparse.Namespace) -> int:
    """Run the action.

    Raises:
        UserError: if `verify` finds a file damaged or missing
    """
    if arguments.action == "fetch":
        return _fetch(arguments)
    if arguments.action == "verify":
        return _verify(arguments)
    return _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from soar.data.catalog import BUNDLED, DATASETS, FETCHABLE, holding
    from soar.data.unverified import SUFFIX

    for entry in DATASETS:
        print(beside(entry.name, entry.description, left=22, width=width()))
        if entry.name not in (*FETCHABLE, BUNDLED):
            continue
        held = holding(entry.name, arguments.root)
        size = sum(file.size for file in held.files) / 1e6
        here = printable(f"here, {held.folder}")
        absent = f"not here, {size:.0f} MB; soar data fetch {entry.name}"
        print(beside("", absent if held.missing() else here, left=22, width=width()))
        if entry.name != BUNDLED:
            other = holding(entry.name + SUFFIX, arguments.root)
            if not other.missing():
                line = printable(f"here, as {entry.name}{SUFFIX}: unverified files, {other.folder}")
                print(beside("", line, left=22, width=width()))
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from soar.data.fetch import fetch

    folder = fetch(
        arguments.name,
        arguments.root,
        origin=arguments.origin,
        mode="quiet" if arguments.quiet else "auto",
        allow_unverified=arguments.allow_unverified,
    )
    if not arguments.quiet:
        name = folder.name if arguments.allow_unverified else arguments.name
        print(printable(f"{name} is in {folder}"))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from soar.data.fetch import verify
    from soar.data.unverified import SUFFIX, base_of

    states = verify(arguments.name, arguments.root)
    for file, state in states:
        print(f"{file.name:<25} {state}")
    broken = [file.name for file, state in states if state != "ok"]
    is_own = arguments.name.endswith(SUFFIX)
    if broken:
        how = " --from DIR --allow-unverified" if is_own else ""
        raise UserError(
            f"{arguments.name}: {len(broken)} of {len(states)} files are missing or damaged;"
            f" get them with: soar data fetch {base_of(arguments.name)}{how}"
        )
    if is_own:
        print("compared with what they were when they were taken; not the files that were published")
    return 0
