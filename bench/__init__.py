"""Measurements of brooq: interleaved rounds on one machine, medians with ranges. Figures are for comparing within a run."""
