"""Words for what broke and should not have: what it was, and in which function. No stack trace."""


def mishap(error: BaseException) -> str:
    """One line about an error, for the operator's eyes."""
    words = f"{type(error).__name__}: {error}"
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return words if where is None else f"{words} ({where.tb_frame.f_code.co_qualname})"
