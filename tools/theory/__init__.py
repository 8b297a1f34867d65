"""The paper's theory, each part a table and a figure: `python -m tools.theory PART`."""
