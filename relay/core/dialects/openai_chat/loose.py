"""Reads members whose types a vendor chose freely: what does not fit counts as absent. Never raises."""


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def joined_text(value: object) -> str | None:
    """Text, or the texts within content parts: Mistral's reasoning models stream lists of parts."""
    if not isinstance(value, list | dict):
        return text(value)
    texts: list[str] = []
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(reversed(part))
        elif isinstance(part, dict):
            pending.extend(part[name] for name in ("text", "thinking") if name in part)
        elif isinstance(part, str):
            texts.append(part)
    return "".join(texts)
