"""What people read, in their language: the catalogues, for pages and for mail."""
