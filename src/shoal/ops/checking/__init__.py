"""Whether what is stored is what was promised, and how it is put right."""
