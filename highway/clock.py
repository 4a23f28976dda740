"""Durations for people to read."""


def clock(seconds: float) -> str:
    """Return a duration as m:ss, from one hour on as h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
