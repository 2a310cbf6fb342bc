"""Search algorithms, one a file, behind the interface of `explore.search.base`."""
