"""The real engine on a store in memory, under virtual time, with faults drawn from a seed."""
