"""Checks for gradient masking: each looks at the attacks on a target and returns one result."""
