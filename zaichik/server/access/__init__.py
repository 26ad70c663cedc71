"""Access control: TLS, logins and rights."""
