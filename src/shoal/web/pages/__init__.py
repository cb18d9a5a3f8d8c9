"""Pages, a module for each noun: a handler checks permission, calls one feed or service, and fills a template."""
