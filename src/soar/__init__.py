"""Train image classifiers that stay right under attack, and tell honestly how robust they are."""

__version__ = "0.1.0"
