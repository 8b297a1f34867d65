"""Checks for gradient masking: each takes a probe and returns one item of evidence."""
