"""What moves and computation take at least, whatever the code style."""
