"""Samplers: strategies that propose designs and are told their costs, one a file; all searches by name in `searchers`."""
