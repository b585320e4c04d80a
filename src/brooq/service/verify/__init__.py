"""The checker of histories behind `brooq verify`: what brooq promises, read off what was written down."""
