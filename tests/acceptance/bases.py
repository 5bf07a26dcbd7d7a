"""Knowledge bases of the acceptance tests: pages with links, tags, a source, in two languages."""

from collections.abc import Mapping
from pathlib import Path

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant

PAGES = {
    "Otters.md": (
        "---\ntitle: Otters of the river\nsummary: Who they are\ntags: [animals, rivers]\n"
        "aliases: [River Dog]\nsource: {file: otters.pdf, locator: p. 4}\n---\n"
        "They hold hands. See [[Beavers]], [[river DOG]] and [[Nobody]].\n" + "x" * 5000
    ),
    "Beavers.md": "---\ntags: animals\n---\n# Beavers\nThey build dams, unlike [[Otters|them]].\n",
    "zh.md": "# 网关\n我们的知识库检索很快，余额不足时返回错误。\n",
    "code.md": "# Limits\nSet `max_tokens` in getUserName before v1.2 👍 of rate-limit.\n",
    "fifty.md": "# Fifty\n" + "dams " * 50 + "\n",
    "dam.md": "# A dam\nA wall.\n",
    "otters.pdf": "%PDF otters",
}


def imported(
    h: Deployment, tenant: Tenant, folder: Path, *options: str, pages: Mapping[str, str] = PAGES
) -> None:
    """Make a base of some files, in a folder that may be there."""
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    h.gw("kb", "import", "--account", tenant.account, *options, str(folder))
