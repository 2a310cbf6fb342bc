"""The search: design space, cost models, searchers, study store, importance, reports."""
