"""Who may connect, and what they may do: TLS, logins and rights. A broker without all this never imports it."""
