"""Where pictures' bytes are: from record keys to encoded pictures."""
