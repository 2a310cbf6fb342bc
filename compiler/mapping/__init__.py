"""How one group runs on one machine: nests of loops (`nest`), their text, and batches of them."""
