"""Who a member is and which app acts for them: OAuth, the authorize page, sessions, signing up."""
