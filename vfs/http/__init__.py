"""Requests and responses, as the server and the page have them: who asks, for what, and how it is answered."""
