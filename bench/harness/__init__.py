"""What every experiment is written on."""
