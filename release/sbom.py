"""The software bill of materials of a wheel: CycloneDX 1.6, in JSON."""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import ComponentScope
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from release.environments import extras_of_sites, install, requirements_of_sites, run
from release.failure import ReleaseError
from release.repository import project


def make(wheel: Path, commit: str, seconds: int) -> str:
    """
    Install a wheel with all extras that a site may use, and describe what came with it.

    ``seconds`` since 1970 is the time that the description has. What comes without extras is ``required``, and what an
    extra brings is ``optional``. The versions are the newest of today that the wheel allows. Returns the text.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        pyproject = folder / "pyproject.toml"
        install(folder / "environment", wheel)
        required = installed(folder / "environment")
        python = install(folder / "environment", f"{wheel}[{extras_of_sites(project(commit))}]")
        pyproject.write_text(run("git", "show", f"{commit}:pyproject.toml"), encoding="utf-8")
        return describe(python, pyproject, wheel, required, seconds)


def installed(environment: Path) -> set[str]:
    """Return the names of the distributions in an environment."""
    [packages] = environment.glob("lib/python*/site-packages")
    return {str(each.name) for each in distributions(path=[str(packages)])}


def describe(python: Path, pyproject: Path, wheel: Path, required: Collection[str], seconds: int) -> str:
    """
    Return the SBOM of an environment, which is the same for the same versions.

    Distributions that are not in ``required`` are optional. Raises ReleaseError if the schema does not allow it.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--mc-type", "library"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    said = run(*command, "--sv", "1.6", "--pyproject", pyproject, python, env=environment)
    bom = Bom.from_json(json.loads(said))  # type: ignore[attr-defined]
    for component in bom.components:
        component.scope = ComponentScope.REQUIRED if component.name in required else ComponentScope.OPTIONAL
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    # Not a random one: another wheel has another.
    bom.serial_number = uuid5(NAMESPACE_URL, f"urn:sha256:{digest}")
    root = bom.metadata.component
    assert root is not None
    root.purl = PackageURL("pypi", name=root.name, version=root.version)
    names = {component.bom_ref: canonicalize_name(component.name) for component in bom.components}
    asked = requirements_of_sites(tomllib.loads(pyproject.read_text(encoding="utf-8")))
    [edges] = [each for each in bom.dependencies if each.ref == root.bom_ref]
    # cyclonedx-py counts the extras of developers, too, whose packages another one may have brought.
    edges.dependencies = [each for each in edges.dependencies if names[each.ref] in asked]
    root.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ReleaseError(f"The SBOM is not one of CycloneDX 1.6: {problem}")
    return f"{text}\n"
