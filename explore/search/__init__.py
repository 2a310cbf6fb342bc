"""Search algorithms, one a file, behind the interface of `baco.exploration.search.searcher`."""
