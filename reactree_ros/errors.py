"""The error for problems that a user can solve."""


class UserError(Exception):
    """Input, a file or an option cannot be used; the one-line message has the offending value."""
