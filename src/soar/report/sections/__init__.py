"""The parts of the page, one module each; every one makes a section of HTML from the runs."""
