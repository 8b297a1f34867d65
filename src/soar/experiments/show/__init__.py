"""Tables, claims, plans and progress for the terminal; figures and the results page."""
