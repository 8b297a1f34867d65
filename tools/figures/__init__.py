"""The figures of docs/explanations, each with the numbers it shows: `python -m tools.figures NAME`."""
