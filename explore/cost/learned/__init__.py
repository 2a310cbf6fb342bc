"""Learned corrections of predicted cycles: features, models behind one interface, transfer, selection."""
