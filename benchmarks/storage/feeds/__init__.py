"""What is fed from a slow store: gpufeed and others, each with its own format and its own cache.

A module each. `write(images, folder)` writes encoded images in the library's format and by its own
writer. `open_feed(given)` makes a loader that reads them from the store, shuffled, and returns a
function from the number of an epoch to its batches, of which only the images' numbers are told.
Images are decoded in all of them.
"""
