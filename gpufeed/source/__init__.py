"""Where encoded images are: from record keys to bytes."""
