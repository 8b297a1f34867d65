"""Who does the work and where it is kept: jobs, cache, worker, local processes and Ray."""
