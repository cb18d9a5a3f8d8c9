"""Views for moderators and admins, besides reports and members."""
