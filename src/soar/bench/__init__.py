"""Measurements of speed and memory; they print ratios and judge nothing."""
