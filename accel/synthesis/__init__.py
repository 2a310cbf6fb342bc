"""What a design is in a technology: mapped by Yosys to the user's cells, timed and weighed with their Liberty files."""
