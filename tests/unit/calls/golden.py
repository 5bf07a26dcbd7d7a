"""What a client of each translation gets of each transcript: kept as text, to be read and compared.

One file for each translation, a section for each transcript. After a change that is meant to show,
`python -m tests.unit.calls.golden` writes them anew; then read the difference.
"""

from pathlib import Path

from tests.unit.calls.relaying import TRANSLATED, Way, relayed

FOLDER = Path(__file__).parent / "golden"
TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
WAYS = [way for way in TRANSLATED if not way.is_array]
_MARK = "=== "


def transcripts(upstream: str) -> list[Path]:
    """The streams of one protocol, written for these tests."""
    return sorted((TRANSCRIPTS / upstream).glob("*.sse"))


def report_of(way: Way, path: Path) -> str:
    """What the client gets; line ends are not kept, and a last line says how it ended."""
    got = relayed(way, [path.read_bytes()])
    ending = "complete" if got.is_complete else "cut"
    if got.failed is not None:
        ending = f"failed at once: {got.failed}"
    return f"{got.body.decode()}({ending})".replace("\r\n", "\n")


def kept(way: Way) -> dict[str, str]:
    """What was told when the files were written, by the transcript's name."""
    text = (FOLDER / f"{way}.txt").read_text(encoding="utf-8")
    sections = text.split(_MARK)[1:]
    return dict(section.removesuffix("\n\n").split("\n", 1) for section in sections)


def write() -> None:
    """Write all of them as they are now."""
    FOLDER.mkdir(exist_ok=True)
    for way in WAYS:
        sections = [
            f"{_MARK}{path.stem}\n{report_of(way, path)}\n\n" for path in transcripts(way.upstream)
        ]
        (FOLDER / f"{way}.txt").write_text("".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write()
