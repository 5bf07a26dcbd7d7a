"""A process that copies until it is killed: DATABASE FOLDER CHANNEL."""

import asyncio
import sys
from pathlib import Path

from actors.media_store.folder import FolderStorage
from tests.integration.media.copying import storing


async def main(url: str, folder: str, channel_url: str) -> None:
    storage = FolderStorage(Path(folder))
    async with storing(url, storage, channel_url=channel_url, claim_seconds=1.0) as store:
        await store.media.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
