"""Image, composition, unit and manifests are well formed, and name what is there.

None of it is run here: linters and schemas say what can be said without a container or a cluster.
`ops/image/prove` builds the image and watches it run.
"""

import configparser
import ipaddress
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from gw.cli.main import make_parser
from gw.config.config import SECRET_PLACEHOLDERS
from gw.config.load import load, load_text
from gw.http.drain import CUT_SECONDS
from gw.price_list.starter import HEAD
from gw.runtime.shutdown import FLUSH_SECONDS
from tests.tidy import installed
from tests.tidy.files import ROOT

OPS = ROOT / "ops"
IMAGE = OPS / "image"
COMPOSE = OPS / "compose.yaml"
UNIT = OPS / "systemd" / "model-gateway.service"
MANIFESTS = sorted((OPS / "kubernetes").glob("*.yaml"))
KUBERNETES = "1.34"
# What the configurations take from the environment.
ENVIRON = {
    "GW_SECRET": "0123456789abcdef",
    "GW_DATABASE_URL": "postgresql://gateway:password@postgres:5432/gateway",
    "GW_REDIS_URL": "redis://redis:6379/0",
    "OPENAI_API_KEY": "sk-of-openai",
}
EXAMPLE_ENVIRON = {f"EXAMPLE_{name}_KEY": "key" for name in ("A", "B", "MEDIA", "HUMAN")}
# What a gateway takes after its drain: cut calls settle, the database takes what is left, it ends.
SETTLING_SECONDS = CUT_SECONDS + FLUSH_SECONDS + 10


def manifests() -> list[dict[str, Any]]:
    """Every object that is applied."""
    kustomization = yaml.safe_load((OPS / "kubernetes" / "kustomization.yaml").read_text())
    texts = [(OPS / "kubernetes" / name).read_text() for name in kustomization["resources"]]
    return [one for text in texts for one in yaml.safe_load_all(text)]


def the(kind: str) -> dict[str, Any]:
    """The one object of a kind."""
    found: dict[str, Any] = next(one for one in manifests() if one["kind"] == kind)
    return found


def commanded(arguments: list[str]) -> None:
    """The command line is one that `gw` takes."""
    make_parser(arguments).parse_args(arguments)


def test_placeholder_of_the_secret_is_refused() -> None:
    shipped = yaml.safe_load((OPS / "kubernetes" / "secret.yaml").read_text())["stringData"]
    assert shipped["GW_SECRET"] in SECRET_PLACEHOLDERS


@pytest.mark.parametrize("name", ["compose/gw.yaml", "kubernetes/gw.yaml"])
def test_configuration_is_one(name: str) -> None:
    config = load(OPS / name, ENVIRON)
    assert config.registry.channels
    assert config.database_url == ENVIRON["GW_DATABASE_URL"]
    assert str(config.listen).endswith(":8080")
    assert str(config.admin_listen).endswith(":9090")


def test_image_passes_its_linter_and_copies_what_is_there() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, IMAGE / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    allowed = (IMAGE / "Dockerfile.dockerignore").read_text().split()
    for line in (IMAGE / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in allowed, source


def test_image_is_made_of_exactly_what_is_named() -> None:
    dockerfile = (IMAGE / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.M)
    assert re.fullmatch(r"python:[\w.-]+@sha256:[0-9a-f]{64}", base)
    assert {*re.findall(r"^FROM (\S+)", dockerfile, re.M)} == {"${BASE}"}
    assert "--require-hashes --requirement ops/requirements.txt" in dockerfile
    assert "--no-index --no-deps --no-build-isolation ." in dockerfile


def test_digests_are_of_the_versions_that_were_tested() -> None:
    """What is installed for an operator is what the tests ran with, and nothing is left out."""
    pins = re.compile(r"^([\w.-]+)==([^ ;\n]+)", re.M)
    texts = ((OPS / name).read_text() for name in ("constraints.txt", "requirements.txt"))
    tested, named = (
        {installed.distribution(name): version for name, version in pins.findall(text)}
        for text in texts
    )
    assert named.items() <= tested.items()
    assert installed.required("s3", "aws", "google") | {"setuptools"} <= named.keys()
    entries = (OPS / "requirements.txt").read_text().replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in entry for entry in entries[1:])


def test_no_password_of_the_composition_is_known() -> None:
    text = COMPOSE.read_text()
    names = {*re.findall(r"\$\{(\w*(?:SECRET|PASSWORD))\b", text)} - {"GW_PREVIOUS_SECRET"}
    assert names >= {"GW_SECRET", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD"}
    for name in names:
        assert {*re.findall(rf"\$\{{{name}(\W*)", text)} == {":?"}, name


def test_pods_reach_what_they_need_and_no_credentials_of_a_cloud() -> None:
    policy = the("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["port"]: rule for rule in policy["egress"] for port in rule["ports"]}
    needed = {urlsplit(ENVIRON[name]).port for name in ("GW_DATABASE_URL", "GW_REDIS_URL")}
    assert ports.keys() == {53, 443, *needed}
    world = [one["ipBlock"] for one in ports[443]["to"]]
    assert {block["cidr"] for block in world} == {"0.0.0.0/0", "::/0"}
    excepted = [ipaddress.ip_network(one) for block in world for one in block["except"]]
    for address in ("169.254.169.254", "fd00:ec2::254", "10.96.0.1", "fe80::1"):
        assert any(ipaddress.ip_address(address) in one for one in excepted), address
    for rule in (ports[port] for port in needed):
        blocks = [ipaddress.ip_network(one["ipBlock"]["cidr"]) for one in rule["to"][1:]]
        assert all(block.is_private for block in blocks)


def test_each_pod_has_one_network_policy_and_the_proof_takes_no_calls() -> None:
    """A pod that no policy selects may reach everything."""
    pods = {
        "Deployment": the("Deployment")["spec"]["template"],
        "CronJob": the("CronJob")["spec"]["jobTemplate"]["spec"]["template"],
    }
    of_proof = pods["CronJob"]["metadata"]["labels"]
    for kind, pod in pods.items():
        labels = pod["metadata"]["labels"].items()
        selecting = [
            one["spec"]
            for one in manifests()
            if one["kind"] == "NetworkPolicy"
            and one["spec"]["podSelector"]["matchLabels"].items() <= labels
        ]
        assert [one["policyTypes"] for one in selecting] == [["Ingress", "Egress"]], kind
        assert ("ingress" in selecting[0]) == (kind == "Deployment")
    for one in manifests():
        if one["kind"] == "Service":
            assert not one["spec"]["selector"].items() <= of_proof.items()


def test_composition_mounts_what_is_there_and_names_what_it_uses() -> None:
    composition = yaml.safe_load(COMPOSE.read_text())
    services = composition["services"]
    for name, service in services.items():
        assert ("image" in service) != ("build" in service), name
        assert service["logging"]["driver"] == "json-file", name
        assert {"max-size", "max-file"} <= set(service["logging"]["options"]), name
        for needed in service.get("depends_on", ()):
            assert needed in services
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("."):
                assert (OPS / source).exists(), source
            else:
                assert source in composition["volumes"], source
    gateway = services["gateway"]
    assert (OPS / gateway["build"]["context"] / gateway["build"]["dockerfile"]).exists()
    commanded(gateway["command"])
    for name in ENVIRON:
        assert name in gateway["environment"]


def test_scraped_targets_and_rules_are_those_of_the_composition() -> None:
    prometheus = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text())
    for name in prometheus["rule_files"]:
        assert (OPS / "prometheus" / name).exists()
    targets = prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == ["gateway:9090"]
    provisioning = OPS / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "gateway.yaml").read_text())[
        "providers"
    ]
    mounts = yaml.safe_load(COMPOSE.read_text())["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in mounts
    assert sorted((OPS / "grafana" / "dashboards").glob("*.json"))


def service_of(path: Path) -> Mapping[str, str]:
    """What a unit runs, and how."""
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit["Service"]


def test_unit_starts_what_gw_takes_and_gives_it_time_to_drain() -> None:
    service = service_of(UNIT)
    for name in ("ExecStartPre", "ExecStart"):
        program, *arguments = shlex.split(service[name])
        assert program.endswith("/gw")
        commanded(arguments)
    assert service["Type"] == "notify"  # `gw serve` reports when it is ready
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    # With `mixed` the processes of a parent that was killed are killed at once.
    assert service["KillMode"] == "control-group"
    drain = load_text(minimal(), ENVIRON, source=OPS / "gw.yaml").drain_seconds
    assert float(service["TimeoutStopSec"]) >= drain + SETTLING_SECONDS


def test_unit_is_a_template_of_instances_by_admin_port() -> None:
    assert "Environment=GW_ADMIN_PORT=%i\n" in UNIT.read_text()
    for instance, port in ((None, 9090), ("", 9090), ("9091", 9091)):
        environ = ENVIRON if instance is None else {**ENVIRON, "GW_ADMIN_PORT": instance}
        config = load_text(minimal(), environ, source=OPS / "gw.yaml")
        assert config.admin_listen.port == port


def minimal() -> str:
    """What `gw init` writes without any provider: the file that the unit serves."""
    return f"{HEAD}channels: []\nmodels: []\n"


def test_calls_end_before_a_drain_and_a_drain_before_what_kills() -> None:
    compose = load(OPS / "compose" / "gw.yaml", ENVIRON)
    configs = [
        compose,
        load(OPS / "kubernetes" / "gw.yaml", ENVIRON),
        load(OPS / "examples" / "gw.yaml", EXAMPLE_ENVIRON),
        load_text(minimal(), ENVIRON, source=OPS / "gw.yaml"),
    ]
    for config in configs:
        assert config.drain_seconds >= config.timeouts.chat + CUT_SECONDS, config.source
    gateway = yaml.safe_load(COMPOSE.read_text())["services"]["gateway"]
    grace = float(gateway["stop_grace_period"].removesuffix("s"))
    assert grace >= compose.drain_seconds + SETTLING_SECONDS


def test_ledger_is_proved_every_night() -> None:
    proof = UNIT.with_name("model-gateway-proof.service")
    program, *arguments = shlex.split(service_of(proof)["ExecStart"])
    commanded(arguments)
    assert (Path(program).name, arguments[:2]) == ("gw", ["ledger", "verify"])
    assert "OnCalendar=" in proof.with_suffix(".timer").read_text()
    pod = the("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    commanded(container["args"])
    assert container["args"][:2] == arguments[:2]


def test_pods_are_scraped_one_by_one() -> None:
    prometheus = yaml.safe_load((OPS / "prometheus" / "kubernetes.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    service = next(one for one in manifests() if one["metadata"]["name"] == "gateway-admin")
    namespace = the("Namespace")["metadata"]["name"]
    assert found["names"] == [f"gateway-admin.{namespace}.svc.cluster.local"]
    assert service["spec"]["clusterIP"] == "None"
    assert (
        service["spec"]["selector"] == the("Deployment")["spec"]["template"]["metadata"]["labels"]
    )
    assert service["spec"]["ports"][0]["targetPort"] == "admin"
    assert service["spec"]["ports"][0]["port"] == found["port"]


@pytest.mark.parametrize("name", [path.name for path in MANIFESTS])
def test_every_manifest_is_applied(name: str) -> None:
    kustomization = yaml.safe_load((OPS / "kubernetes" / "kustomization.yaml").read_text())
    files = kustomization["configMapGenerator"][0]["files"]
    assert name in ("kustomization.yaml", *kustomization["resources"], *files)


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: str(one["kind"]))
def test_manifest_keeps_to_its_schema(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_pods_are_probed_drained_and_few_at_a_time() -> None:
    deployment = the("Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    commanded(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080, "admin": 9090}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    hook = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = load(OPS / "kubernetes" / "gw.yaml", ENVIRON).drain_seconds
    assert pod["spec"]["terminationGracePeriodSeconds"] >= hook + drain + SETTLING_SECONDS
    labels = pod["metadata"]["labels"]
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert the("Service")["spec"]["selector"] == labels
    assert set(the("Secret")["stringData"]) == set(ENVIRON)
