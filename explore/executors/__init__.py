"""Tasks that do not depend on each other, run by processes of this machine or by a Ray cluster."""
