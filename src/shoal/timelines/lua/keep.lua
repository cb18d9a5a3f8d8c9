-- ARGV: one key, the reading, and seconds.
return {refused, first(1, 'SET', ARGV[1], ARGV[2], 'EX', ARGV[3]) and true}
