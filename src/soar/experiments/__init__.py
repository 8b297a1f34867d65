"""The paper's tables from one command: what to train and measure, where it is kept, and what does it."""
