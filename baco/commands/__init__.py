"""One file a command. They import the rest of the product only when run, so that --help is instant."""
