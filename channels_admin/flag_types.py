"""What runtime flags take: annotated types that read environment text and JSON alike. Knows no flag."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from channels_admin.validators import is_model_pattern

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _switch(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    return value


def _number(value: object) -> object:
    # bool is an int: true would silently become 1.
    if isinstance(value, bool):
        raise ValueError("a number is expected")  # noqa: TRY004  pydantic reports ValueError at the field
    return value


def _words(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.replace("\n", ",").split(",") if part.strip())
    return value


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for word in value:
        if not is_model_pattern(word):
            raise ValueError(f"{word!r} is no model name or pattern with *")
    return value


Switch = Annotated[StrictBool, BeforeValidator(_switch)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=86_400, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, BeforeValidator(_number), Field(ge=1, le=86_400, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_words), AfterValidator(_patterns)]
OverflowMode = Literal["reject", "wait"]
Scope = Literal["process", "cluster"]
