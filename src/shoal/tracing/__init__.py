"""Records of requests and jobs, by stage and statement; their lines in the log, and traces across processes."""
