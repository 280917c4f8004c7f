"""What running loaders tell other processes of the same user, and how it is shown."""
