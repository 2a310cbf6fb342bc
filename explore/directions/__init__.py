"""Schedule spaces found by analysis, searched along directions (FlexTensor)."""
