"""Who may connect, and what they may do: TLS, logins and rights."""
