-- ARGV: one key.
return {refused, first(1, 'GET', ARGV[1])}
