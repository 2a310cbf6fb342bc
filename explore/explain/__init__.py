"""Why a design, and what else: what a step in each parameter of its hardware would cost, and what else is worth having."""
