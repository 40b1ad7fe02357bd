"""The units and the manifest of the guide on deploys: they are valid, and what they start works in a new project."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import requests
import yaml
from django.core.management import load_command_class

from testproject.servers import Server, free_port
from tests.helpers.running import Gunicorn, wait_until
from tests.project.docs.pages import DOCS, environment
from tests.project.docs.projects import write_all

GUIDES = DOCS / "howto"

UNITS = ("shop", "cleansessions")

PROGRAMS = Path(sys.executable).parent

SETTINGS = """
ALLOWED_HOSTS = ["shop.example.com"]
SECURE_SSL_REDIRECT = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
"""
"""What sites behind a proxy have, and what keeps probes out that do not look like it."""


def manifest() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((GUIDES / "kubernetes.yml").read_text()))


def pod(name: str) -> Any:
    [found] = [each for each in manifest() if (each["kind"], each["metadata"]["name"]) == ("Deployment", name)]
    return found["spec"]["template"]["spec"]


def container(name: str) -> Any:
    [found] = pod(name)["containers"]
    return found


def unit(name: str) -> ConfigParser:
    # A line may be there more than once, as that of system calls.
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(GUIDES / f"{name}.service")
    return parser


def program(name: str) -> list[str]:
    """Return the words with which a unit starts its process."""
    return shlex.split(unit(name)["Service"]["ExecStart"])


def graceful_seconds(command: list[str]) -> int:
    [seconds] = [word.partition("=")[2] for word in command if word.startswith("--graceful-timeout")]
    return int(seconds)


@pytest.mark.unit
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        if "REDSESS_SKIP_NOTHING" in os.environ:
            pytest.fail("systemd is not installed")
        pytest.skip("systemd is not installed")
    for name in UNITS:
        # Programs have to be there.
        text = (GUIDES / f"{name}.service").read_text().replace("/srv/shop/venv/bin", str(PROGRAMS))
        (tmp_path / f"{name}.service").write_text(text)
    units = [tmp_path / f"{name}.service" for name in UNITS]
    ran = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    # Tenths: without its protection, a unit has 92.
    judge = [analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", *units]
    ran = subprocess.run(judge, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout[-200:]


@pytest.mark.unit
def test_kubernetes_takes_the_manifest() -> None:
    documents = manifest()
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    deployments = [each["spec"] for each in documents if each["kind"] == "Deployment"]
    for spec in deployments:
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        [spec] = [each["spec"] for each in documents if each["kind"] == kind]
        selector = spec["selector"]
        assert selector.get("matchLabels", selector) == deployments[0]["selector"]["matchLabels"]
    # A budget that no pod may leave would keep nodes from being emptied.
    assert 0 < spec["maxUnavailable"] < deployments[0]["replicas"]


@pytest.mark.unit
@pytest.mark.parametrize("name", ["shop", "shop-cleaner"])
def test_a_pod_has_no_rights_that_it_does_not_need(name: str) -> None:
    # What Kubernetes' profile "restricted" asks for, and more.
    assert pod(name)["automountServiceAccountToken"] is False
    of_pod, own = pod(name)["securityContext"], container(name)["securityContext"]
    assert (of_pod["runAsNonRoot"], of_pod["seccompProfile"]["type"]) == (True, "RuntimeDefault")
    assert of_pod["runAsUser"] > 0
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    mounted = {each["name"]: each["mountPath"] for each in container(name)["volumeMounts"]}
    assert mounted == {each["name"]: "/tmp" for each in pod(name)["volumes"]}
    assert container(name)["resources"].keys() == {"requests", "limits"}


@pytest.mark.unit
def test_whoever_waits_for_requests_is_waited_for() -> None:
    site = container("shop")
    before, after = site["lifecycle"]["preStop"]["sleep"]["seconds"], graceful_seconds(site["command"])
    assert pod("shop")["terminationGracePeriodSeconds"] > before + after
    assert int(unit("shop")["Service"]["TimeoutStopSec"]) > graceful_seconds(program("shop"))


@pytest.mark.unit
def test_cleaners_are_started_with_options_that_exist() -> None:
    for command in (program("cleansessions"), container("shop-cleaner")["command"]):
        python, manage, name, *options = command
        assert (Path(python).name, manage, name) == ("python", "manage.py", "cleansessions")
        parsed = load_command_class("django_redsess", name).create_parser(manage, name).parse_args(options)
        assert parsed.forever
    assert str(parsed.heartbeat) in container("shop-cleaner")["readinessProbe"]["exec"]["command"][-1]


@pytest.fixture
def project(shop: Path, server: Server) -> Path:
    """A new project with what the guide adds."""
    write_all(shop, "howto/deploying.rst", server)
    with (shop / "shop" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    return shop


@pytest.fixture
def secrets(own_server: Server) -> dict[str, str]:
    """What the guide has in the environment."""
    return {"SECRET_KEY": "a key that is in no file", "REDIS_URL": own_server.url}


@pytest.mark.slow
def test_without_the_store_the_site_is_not_ready_and_alive(project: Path, secrets, own_server: Server) -> None:
    _, application, *options = container("shop")["command"]
    probes = [container("shop")[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")]
    headers = {each["name"]: each["value"] for each in probes[0]["httpHeaders"]}
    assert probes[0]["httpHeaders"] == probes[1]["httpHeaders"]
    environment = {"DJANGO_SETTINGS_MODULE": "shop.settings", **secrets}
    with Gunicorn(project, *options, application=application, cwd=project, headers=headers, **environment) as site:

        def ask(probe: dict[str, Any]) -> int:
            address = f"{site.address}{probe['path']}"
            return requests.get(address, headers=headers, timeout=20, allow_redirects=False).status_code

        ready, alive = probes
        assert ask(ready) == 200
        before = own_server.client.info("stats")["total_commands_processed"]
        assert ask(alive) == 200
        # The question itself is a command.
        assert own_server.client.info("stats")["total_commands_processed"] == before + 1
        own_server.stop()
        assert (ask(ready), ask(alive)) == (503, 200)


def calls_allowed(name: str) -> set[str]:
    """Return the system calls that a unit allows, by the groups of this machine's systemd."""
    told = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    groups: dict[str, list[str]] = {}
    for line in re.sub(r"\x1b\[[0-9;]*m", "", told).splitlines():
        if line.startswith("@"):
            groups[line.split()[0]] = members = []
        elif line.strip() and not line.strip().startswith("#"):
            members.append(line.strip())

    def expand(word: str) -> set[str]:
        return {each for part in groups[word] for each in expand(part)} if word.startswith("@") else {word}

    allowed = set[str]()
    filters = re.findall("^SystemCallFilter=(~?)(.*)$", (GUIDES / f"{name}.service").read_text(), re.MULTILINE)
    for refused, words in filters:
        calls = {each for word in words.split() for each in expand(word)}
        allowed = allowed - calls if refused else allowed | calls
    # What systemd itself always allows, to start the program.
    return allowed | expand("@default")


CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)", re.MULTILINE)

WRITES = re.compile(r"AT_FDCWD, \"([^\"]+)\", [A-Z_|]*(?:O_WRONLY|O_RDWR|O_CREAT)")


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("strace") and shutil.which("systemd-analyze")), reason="strace is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_a_unit_allows_what_its_process_does(project: Path, secrets, tmp_path: Path, name: str) -> None:
    """A container has no systemd that could start it. So each system call, and each file, is compared with the unit."""
    log, place = tmp_path / "calls", tmp_path / "own"
    place.mkdir()
    program_of_unit, *options = program(name)
    options = [each.replace("127.0.0.1:8000", f"127.0.0.1:{free_port()}") for each in options]
    command = [sys.executable, *options] if name == "cleansessions" else [sys.executable, "-m", "gunicorn", *options]
    assert Path(program_of_unit).name in ("python", "gunicorn")
    own = {"TMPDIR": str(place), "XDG_RUNTIME_DIR": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(log), *command],
        cwd=project,
        env={**environment(), **secrets, **own},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if name == "shop":
            [address] = [each.partition("=")[2] for each in options if each.startswith("--bind")]
            headers = {"Host": "shop.example.com", "X-Forwarded-Proto": "https"}

            def is_served() -> bool:
                with suppress(requests.ConnectionError):
                    return requests.get(f"http://{address}/ready", headers=headers, timeout=20).status_code == 200
                return False

            wait_until(is_served)
        else:
            wait_until(lambda: log.exists() and "EVALSHA" in log.read_text(errors="replace"))
    finally:
        # strace waits for its processes, and takes no signal itself.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)
    text = log.read_text(errors="replace")
    used = {call for call, _ in CALL.findall(text)}
    assert len(used) > 20
    allowed = calls_allowed(name)
    assert (used - allowed, allowed & {"mount", "ptrace", "setuid"}) == (set(), set())
    written = {path for path in WRITES.findall(text) if not path.startswith(("/dev/", "/proc/"))}
    assert {path for path in written if not path.startswith(str(place))} == set()


@pytest.mark.slow
def test_gunicorn_takes_the_options_of_the_unit(project: Path, secrets) -> None:
    _, *options = program("shop")
    ran = subprocess.run(
        [sys.executable, "-m", "gunicorn", *options, "--check-config"],
        cwd=project,
        env={**environment(), **secrets},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_the_cleaner_of_the_manifest_is_ready_while_the_store_answers(project: Path, secrets, tmp_path: Path) -> None:
    cleaner = container("shop-cleaner")
    heart, old = tmp_path / "heart", tmp_path / "old"
    old.touch()
    os.utime(old, (0, 0))

    def on(file: Path, words: list[str]) -> list[str]:
        return [word.replace("/tmp/alive", str(file)) for word in words]

    def is_ready(file: Path) -> bool:
        probe = on(file, cleaner["readinessProbe"]["exec"]["command"])
        return subprocess.run(probe, stderr=subprocess.DEVNULL, timeout=20).returncode == 0

    command = [sys.executable, *on(heart, cleaner["command"][1:])]
    process = subprocess.Popen(command, cwd=project, env={**environment(), **secrets})
    try:
        wait_until(lambda: is_ready(heart))
        assert not is_ready(old)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
