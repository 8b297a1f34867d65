"""The paper: its theory, with the mistakes corrected, as code that runs."""
