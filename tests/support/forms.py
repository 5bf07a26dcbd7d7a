"""Forms with files, byte by byte."""

BOUNDARY = "b0undary"
TYPE = f'multipart/form-data; boundary="{BOUNDARY}"'


def part(name: str, value: bytes, file_name: str | None = None) -> bytes:
    """One part: a file where it has a name for one."""
    named = "" if file_name is None else f'; filename="{file_name}"\r\nContent-Type: audio/wav'
    return f'Content-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + value


def form(*parts: bytes) -> bytes:
    """A form of these parts."""
    mark = f"--{BOUNDARY}".encode()
    return b"".join(mark + b"\r\n" + one + b"\r\n" for one in parts) + mark + b"--\r\n"
