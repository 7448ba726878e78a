"""The error that a user can put right."""


class UserError(Exception):
    """Input, a file or an option that cannot be used; the message is one line with the offending value."""
