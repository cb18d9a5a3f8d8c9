"""Values of pages: everything that a template sees, as frozen structs, and how they are made."""
