"""Small programs that show brooq at work; tests run every one of them."""
