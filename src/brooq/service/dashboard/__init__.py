"""The dashboard: pages for people, rendered here, on the HTTP surface. Read without scripts, live with them."""
