"""What a table needs: scales, networks, columns, experiments, and the plan of the work."""
