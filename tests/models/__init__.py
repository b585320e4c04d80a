"""Models of the lease protocol: searched exhaustively, compared with the real statements, laid over real histories."""
