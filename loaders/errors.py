"""The one error that means: what you gave is not what was expected."""


class InputError(ValueError):
    r"""A file, an argument or a recipe is not usable as it is.

    The message is one line that says what was expected, what came, and what to do next. The command
    line prints it as it stands and exits with status 2. Everything else that is raised is a defect.

    Example:
        >>> str(InputError("set `a\nb` is not there; expected one of: c"))
        'set `a b` is not there; expected one of: c'
    """

    def __str__(self) -> str:
        """Say it in one line, even where it names what a damaged file calls something."""
        return " ".join(super().__str__().splitlines())
