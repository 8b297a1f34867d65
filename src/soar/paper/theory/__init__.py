"""The paper's theory, each part a table that a command prints: `python -m soar.paper.theory PART`."""
