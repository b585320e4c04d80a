"""Adapters: each runs one system in that system's own environment, and speaks the bench's protocol."""
