for i = 1, #ARGV[1] / KEY do first(i, 'UNLINK', key_at(i)) end
return {refused, true}
