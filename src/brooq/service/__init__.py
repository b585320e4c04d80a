"""The process around the library: command line, settings, HTTP surface, logs. Nothing in the library imports it."""
