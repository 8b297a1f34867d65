"""How each number of a table is measured, one kind a file."""
