"""What a report computes about a run: curves, gallery, loss surfaces, classes; and where it is kept."""
