"""Images inside tables: where the column of images has them, in files and in memory."""
